// Which gradients are reduced together.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "training/model.hpp"

namespace hymn::training::detail {

/// Parameters in the order in which their gradients are expected to be ready before the first
/// iteration has shown it: the last first.
std::vector<std::size_t> backward_order(const Model& model);

/// Parameters of one type on one GPU, in `order`, until a bucket has so many bytes or more; the
/// first of each is small. Buckets are in the order of their first parameters.
std::vector<std::vector<std::size_t>> plan_buckets(const Model& model,
                                                   std::span<const std::size_t> order,
                                                   std::size_t first_bytes, std::size_t bytes);

}  // namespace hymn::training::detail
