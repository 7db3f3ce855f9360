// How one block lies in memory, as whoever gives or takes it says.
#pragma once

#include <algorithm>
#include <vector>

#include "collectives/layout.hpp"

namespace hymn {

/// Of a flat buffer, which has no shape or one dimension; no layout has this order.
inline constexpr std::uint64_t untold_order = 1;

/// Of so many elements of `whole`, cut from its outermost dimension in memory.
inline std::uint64_t order_of_cut(ConstBufferView whole, std::size_t count) {
  const std::uint64_t order = order_of(whole);
  if (order == 0 || count == whole.count) return order;
  std::vector<std::int64_t> shape(whole.shape.begin(), whole.shape.end());
  std::size_t outermost = 0;  // of those of more than one element: there are two at least
  for (std::size_t i = 1; i < shape.size(); ++i)
    if (shape[i] != 1 && (shape[outermost] == 1 || whole.strides[i] > whole.strides[outermost]))
      outermost = i;
  shape[outermost] = static_cast<std::int64_t>(count) / whole.strides[outermost];
  whole.shape = shape;
  whole.count = count;
  return order_of(whole);
}

/// order_of() of one of these blocks, or untold_order.
template <class View>
std::uint64_t told_order(const Blocks<View>& blocks, const View& block) {
  const View& whole = blocks.layout() == Layout::list ? block : blocks.flat();
  return whole.shape.size() < 2 ? untold_order : order_of_cut(whole, block.count);
}

/// Whether elements of a block that lies so would change places where it is said to lie otherwise.
constexpr bool change_places(std::uint64_t given, std::uint64_t taken) {
  return given != taken && given != untold_order && taken != untold_order;
}

inline std::string tell_block_order(std::uint64_t order) {
  return order == 0 ? "in rows" : "as " + tell_order(order);
}

}  // namespace hymn
