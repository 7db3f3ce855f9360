// What stands in a fake world for the algorithms that the same group would have in a real one.
#pragma once

#include <memory>

#include "collectives/algorithm.hpp"
#include "collectives/plan_context.hpp"

namespace hymn {

/// One for each algorithm in host memory that processes over MPI could have: it carries out what
/// that one could, at the same predicted cost, as FakeOperation does.
void add_fake_algorithms(Algorithms& algorithms, std::shared_ptr<const PlanContext> context,
                         const GroupShape& shape);

}  // namespace hymn
