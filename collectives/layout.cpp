#include "collectives/layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "collectives/call_label.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr std::size_t most_dimensions = 16;
constexpr unsigned bits_of_each = 4;
/// Of dimensions in their own order.
constexpr std::uint64_t as_they_come = 0xfedcba9876543210u;

using Numbers = std::vector<std::int64_t>;
using Order = std::vector<std::size_t>;

std::uint64_t packed(const Order& order) {
  if (order.size() > most_dimensions) return 0;
  std::uint64_t word = as_they_come;
  for (std::size_t i = 0; i < order.size(); ++i)
    word ^= static_cast<std::uint64_t>(order[i] ^ i) << (bits_of_each * i);
  return word ^ as_they_come;
}

/// Without those at the end that lie where they come.
Order unpacked(std::uint64_t word) {
  Order order;
  for (std::size_t i = 0; i < most_dimensions; ++i)
    if (word >> (bits_of_each * i) != 0)
      order.push_back((word >> (bits_of_each * i) & (most_dimensions - 1)) ^ i);
  return order;
}

bool is_permutation(const Order& order) {
  std::uint64_t seen = 0;
  for (const std::size_t dimension : order) seen |= std::uint64_t{1} << dimension;
  return seen == (std::uint64_t{1} << order.size()) - 1;
}

/// So many numbers above 1 whose product is `count`; empty: there are none.
Numbers factors_of(std::size_t count, std::size_t how_many) {
  Numbers factors;
  for (std::size_t factor = 2; factors.size() + 1 < how_many && factor <= count / factor;) {
    if (count % factor != 0) {
      ++factor;
      continue;
    }
    factors.push_back(static_cast<std::int64_t>(factor));
    count /= factor;
  }
  if (count < 2 || factors.size() + 1 != how_many) return {};
  factors.push_back(static_cast<std::int64_t>(count));
  return factors;
}

[[noreturn]] void refuse(const ConstBufferView& in, const ConstBufferView& out) {
  throw UsageError(
      fmt::format("the elements would change places: the input's layout is {}, the output's {}",
                  tell_layout(in), tell_layout(out)),
      {.remedy = "give both the same order of dimensions in memory; blocks of a buffer are those "
                 "of its outermost dimension there"});
}

/// Only what both tell can be compared, and rows behind each other may be cut in any way.
bool are_to_be_compared(const ConstBufferView& one, const ConstBufferView& other) {
  return one.shape.size() > 1 && other.shape.size() > 1 && one.count > 0 && other.count > 0 &&
         (order_of(one) != 0 || order_of(other) != 0);
}

void require_alike(const ConstBufferView& in, const ConstBufferView& out) {
  if (!are_to_be_compared(in, out)) return;
  if (!std::ranges::equal(in.shape, out.shape) || strides_of(in) != strides_of(out))
    refuse(in, out);
}

/// Whether all dimensions but `cut` are those of the block. `gone`: the block has no such
/// dimension.
bool fits_but_for(std::size_t cut, bool gone, const ConstBufferView& whole,
                  const ConstBufferView& block) {
  const Numbers outer = strides_of(whole);
  const Numbers inner = strides_of(block);
  const std::int64_t own = gone ? 1 : block.shape[cut];
  if (whole.shape[cut] != own && outer[cut] * own != static_cast<std::int64_t>(block.count))
    return false;
  for (std::size_t i = 0; i < whole.shape.size(); ++i) {
    if (i == cut) continue;
    const std::size_t at = gone && i > cut ? i - 1 : i;
    if (whole.shape[i] != block.shape[at]) return false;
    if (whole.shape[i] != 1 && outer[i] != inner[at]) return false;
  }
  return gone || own == 1 || outer[cut] == inner[cut];
}

/// The blocks must lie behind each other in one dimension, which the block may have or not.
bool is_made_of(const ConstBufferView& whole, const ConstBufferView& block) {
  const std::size_t more = whole.shape.size() - block.shape.size();
  if (more > 1) return false;  // also where there are fewer
  for (std::size_t cut = 0; cut < whole.shape.size(); ++cut)
    if (fits_but_for(cut, more == 1, whole, block)) return true;
  return false;
}

template <class Whole>
bool blocks_fit(const Blocks<Whole>& blocks, const ConstBufferView& block) {
  if (blocks.layout() != Layout::equal && blocks.layout() != Layout::counted) return true;
  const ConstBufferView whole = blocks.flat();
  return !are_to_be_compared(whole, block) || is_made_of(whole, block);
}

}  // namespace

std::uint64_t order_of(const ConstBufferView& view) {
  // What a rank gives on the side of a root need not be right.
  if (view.strides.size() < 2 || view.count == 0 || view.strides.size() != view.shape.size())
    return 0;
  Order places;
  for (std::size_t i = 0; i < view.shape.size(); ++i)
    if (view.shape[i] != 1) places.push_back(i);
  Order order(places.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return view.strides[places[a]] > view.strides[places[b]];
  });
  return packed(order);
}

std::string tell_order(std::uint64_t order) {
  return fmt::format("{}", fmt::join(unpacked(order), ", "));
}

Numbers strides_of(const ConstBufferView& view) {
  Numbers strides(view.shape.size());
  std::uint64_t dense = 1;  // without elements it may be more than any number
  for (std::size_t i = strides.size(); i-- > 0;) {
    const bool matters = !view.strides.empty() && view.count > 0 && view.shape[i] != 1;
    strides[i] = matters ? view.strides[i] : static_cast<std::int64_t>(dense);
    dense *= static_cast<std::uint64_t>(view.shape[i]);
  }
  return strides;
}

std::string tell_layout(const ConstBufferView& view) {
  if (view.shape.empty()) return "flat";
  return fmt::format("[{}] with strides [{}]", fmt::join(view.shape, ", "),
                     fmt::join(strides_of(view), ", "));
}

ConstBufferView shaped_buffer(const Request& request) {
  const ConstBufferView in = request.inputs.flat();
  const ConstBufferView out = request.outputs.flat();
  if (is_shaped_by_output(request.type)) return out;
  return in.shape.empty() && has_one_shape(request.type) ? out : in;
}

std::uint64_t common_order(const Request& request) {
  return form_of_blocks(request) == 0 ? order_of(shaped_buffer(request)) : 0;
}

void require_fitting_layouts(const Request& request, GroupShape shape) {
  const ConstBufferView in = request.inputs.flat();
  const ConstBufferView out = request.outputs.flat();
  const auto own = [&](const auto& list) {
    return ConstBufferView(list.views()[static_cast<std::size_t>(shape.rank)]);
  };
  if (request.inputs.layout() == Layout::none || request.outputs.layout() == Layout::none) return;
  const bool lists_in = request.inputs.layout() == Layout::list;
  const bool lists_out = request.outputs.layout() == Layout::list;
  const bool both_in_blocks = has_input_blocks(request.type) && has_output_blocks(request.type);
  if (both_in_blocks && lists_in != lists_out) {
    const bool fit = lists_in ? blocks_fit(request.outputs, own(request.inputs))
                              : blocks_fit(request.inputs, own(request.outputs));
    if (!fit) refuse(lists_in ? own(request.inputs) : in, lists_out ? own(request.outputs) : out);
  } else if (lists_in || lists_out) {
    require_alike(lists_in ? own(request.inputs) : in, lists_out ? own(request.outputs) : out);
  } else if (has_input_blocks(request.type) == has_output_blocks(request.type)) {
    if (request.inputs.layout() == request.outputs.layout() &&
        request.inputs.layout() != Layout::counted)
      require_alike(in, out);
  } else if (has_output_blocks(request.type) ? !blocks_fit(request.outputs, in)
                                             : !blocks_fit(request.inputs, out)) {
    refuse(in, out);
  }
}

SomeLayout layout_with(std::uint64_t word, std::size_t count) {
  const Order order = unpacked(word);
  if (!is_permutation(order)) return {};
  SomeLayout layout{factors_of(count, order.size()), Numbers(order.size())};
  if (layout.shape.empty()) return {};
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    layout.strides[order[i]] = stride;
    stride *= layout.shape[order[i]];
  }
  return layout;
}

}  // namespace hymn
