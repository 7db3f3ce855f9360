// Any bits at all as the input of reductions: infinities, NaNs, zeros of both signs, integers that
// wrap. Only where the result does not depend on the order of the steps.
#pragma once

#include <span>

#include "tests/support/data.hpp"

namespace hymn::test {

/// Whether the result of this reduction is the same in every order, whatever the input.
bool is_free_of_order(DataType dtype, ReduceKind kind);

/// What `rank` puts in: elements first … first + count of its input. Another salt, other bits.
void fill_wild(BufferView view, int rank, int salt, std::size_t first = 0);
/// What the reduction of the inputs of `ranks` must be, bit for bit, by another reference than that
/// of data.hpp.
Buffer wild_result(DataType dtype, ReduceKind kind, std::span<const int> ranks, int salt,
                   std::size_t count, std::size_t first = 0);

}  // namespace hymn::test
