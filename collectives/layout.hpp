// How the elements of a buffer lie in memory, as its shape and strides say, and where the layouts
// of a call must be alike.
//
// A dense layout is moved as it lies. So two buffers whose elements belong together must lie alike:
// else elements would be reduced with, or delivered as, others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/algorithm.hpp"
#include "hymn/request.hpp"

namespace hymn {

/// In what order the dimensions of a dense layout lie in memory, dimensions of one element left
/// out. 0: the last one runs fastest, or there is no shape, or more than 16 dimensions. Of buffers
/// of one shape: the same where their elements lie alike.
std::uint64_t order_of(const ConstBufferView& view);

/// "0, 2, 3, 1": from the outermost to the innermost, as they are counted without those of one
/// element.
std::string tell_order(std::uint64_t order);

/// In elements, and the same for all layouts in which the elements lie alike: where no strides are
/// given, and for what no element depends on, as if the last dimension ran fastest.
std::vector<std::int64_t> strides_of(const ConstBufferView& view);

/// "[2, 3] with strides [1, 2]"; "flat": there is no shape.
std::string tell_layout(const ConstBufferView& view);

/// Whether it is the output that has the same shape on all ranks: what each rank takes of blocks,
/// or gets from a root. Else it is the input.
constexpr bool is_shaped_by_output(OpType type) {
  return all_have_outputs(type) || (has_input_blocks(type) && !has_output_blocks(type));
}
/// Whether input and output have one shape.
constexpr bool has_one_shape(OpType type) {
  return !has_root(type) && traits_of(type).input == traits_of(type).output;
}
/// The buffer that has the same shape on all ranks, where blocks are equal.
ConstBufferView shaped_buffer(const Request& request);

/// What order_of() must be the same on all ranks; 0 also where blocks may have shapes of their own.
std::uint64_t common_order(const Request& request);

/// Throws UsageError where the elements of this rank's input and output would change places.
void require_fitting_layouts(const Request& request, GroupShape shape);

/// Any layout of so many elements that has this order; empty: there is none.
struct SomeLayout {
  std::vector<std::int64_t> shape{};
  std::vector<std::int64_t> strides{};
};
SomeLayout layout_with(std::uint64_t order, std::size_t count);

}  // namespace hymn
