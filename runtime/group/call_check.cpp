#include "runtime/group/call_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "collectives/block_layout.hpp"
#include "collectives/coalesced_calls.hpp"
#include "recorder/call_frames.hpp"

namespace hymn {
namespace {

// So many different calls are told; of a thousand ranks each may make its own.
constexpr std::size_t most_told = 8;

using Counts = std::vector<std::uint64_t>;

template <class View>
Counts counts_of(const Blocks<View>& blocks, int size) {
  Counts counts;
  blocks.for_each(size, [&](int, const View& block) { counts.push_back(block.count); });
  return counts;
}

template <class View>
bool tells_blocks(const Blocks<View>& blocks, GroupShape shape, int root) {
  if (blocks.layout() == Layout::counted) return true;
  // In a list that is ignored, anything may stand.
  return blocks.layout() == Layout::list && (root < 0 || shape.rank == root);
}

template <class View>
Counts orders_of(const Blocks<View>& blocks, int size) {
  Counts orders;
  blocks.for_each(size,
                  [&](int, const View& block) { orders.push_back(told_order(blocks, block)); });
  return orders;
}

/// Of the side that all members have.
std::uint64_t element_bytes_of(const Request& request) {
  return all_have_outputs(request.type) ? request.outputs.element_bytes()
                                        : request.inputs.element_bytes();
}

/// Two ranks that say what differs.
std::optional<std::string> find_other(std::span<const CheckedCall> calls,
                                      std::span<const int> ranks, std::string_view name,
                                      Counts CheckedCall::* what) {
  const auto says = [what](const CheckedCall& call) { return !(call.*what).empty(); };
  const auto first = std::ranges::find_if(calls, says);
  const auto other = std::ranges::find_if(
      calls, [&](const CheckedCall& call) { return says(call) && call.*what != (*first).*what; });
  if (other == calls.end()) return std::nullopt;
  return fmt::format("the {} [{}] on rank {}, but [{}] on rank {}", name,
                     fmt::join((*first).*what, ", "), ranks[first - calls.begin()],
                     fmt::join((*other).*what, ", "), ranks[other - calls.begin()]);
}

std::string layout_words(const CheckedCall& call) {
  if (call.shape.empty()) return "flat";
  return fmt::format("[{}] with strides [{}]", fmt::join(call.shape, ", "),
                     fmt::join(call.strides, ", "));
}

/// A buffer without a shape is as one whose elements lie as they come.
std::optional<std::string> find_other_layout(std::span<const CheckedCall> calls,
                                             std::span<const int> ranks) {
  if (auto shape = find_other(calls, ranks, "shape is", &CheckedCall::shape)) return shape;
  const CheckedCall& first = calls.front();
  for (std::size_t member = 1; member < calls.size(); ++member) {
    if (calls[member].facts.order == first.facts.order) continue;
    return fmt::format("the layout is {} on rank {}, but {} on rank {}", layout_words(first),
                       ranks.front(), layout_words(calls[member]), ranks[member]);
  }
  return find_other(calls, ranks, "strides are", &CheckedCall::strides);
}

bool differ_in_more_than_layout(CallFacts one, CallFacts other) {
  one.order = other.order = 0;
  return one != other;
}

std::uint64_t at(const Counts& counts, std::size_t member) {
  return counts.size() == 1 ? counts.front() : counts[member];
}

void pack_counts(Packer& packer, const Counts& counts) {
  packer.number(counts.size());
  for (const std::uint64_t count : counts) packer.number(count);
}

Counts unpack_counts(Unpacker& unpacker) {
  Counts counts(unpacker.count());
  for (std::uint64_t& count : counts) count = unpacker.number();
  return counts;
}

}  // namespace

CheckedCall CheckedCall::of(const Call& made, GroupShape shape) {
  const Request& request = *made.request;
  const int root = made.peer;
  CheckedCall call{.facts = facts_of(made)};
  if (call.facts.dtype == DataType::value) call.sizes.push_back(element_bytes_of(request));
  if (made.coalesced != 0) {
    call.facts.cut = 0;  // that is told buffer by buffer
    call.each = counts_of_calls(made);
    return call;
  }
  if (!call.facts.is_uneven()) {
    const ConstBufferView view = shaped_buffer(request);
    call.shape = {view.shape.begin(), view.shape.end()};
    const auto strides = strides_of(view);
    call.strides = {strides.begin(), strides.end()};
  }
  // What another library's elements amount to is its own affair.
  if (!call.facts.is_uneven() || call.facts.dtype == DataType::opaque) return call;
  const auto own = [](const auto& blocks) { return Counts{blocks.total_count()}; };
  // Where both sides have blocks, every rank knows its own.
  const bool in = has_input_blocks(request.type);
  const bool out = has_output_blocks(request.type);
  if (!in)
    call.gives = own(request.inputs);
  else if (out || tells_blocks(request.inputs, shape, root))
    call.gives = counts_of(request.inputs, shape.size);
  if (!out)
    call.takes = own(request.outputs);
  else if (in || tells_blocks(request.outputs, shape, root))
    call.takes = counts_of(request.outputs, shape.size);
  if (!call.gives.empty() && uses_inputs(request.type, shape.rank == root))
    call.given_orders = orders_of(request.inputs, shape.size);
  if (!call.takes.empty() && uses_outputs(request.type, shape.rank == root))
    call.taken_orders = orders_of(request.outputs, shape.size);
  return call;
}

void CheckedCall::pack(Packer& packer) const {
  packer.number(static_cast<std::uint64_t>(facts.type));
  packer.number(static_cast<std::uint64_t>(facts.dtype)).number(facts.count);
  packer.number(static_cast<std::uint64_t>(facts.kind));
  packer.number(static_cast<std::uint64_t>(facts.root + 1));
  packer.number(static_cast<std::uint64_t>(facts.form));
  packer.number(facts.coalesced);
  pack_counts(packer, gives);
  pack_counts(packer, takes);
  pack_counts(packer, shape);
  pack_counts(packer, strides);
  pack_counts(packer, each);
  packer.number(facts.order);
  pack_counts(packer, given_orders);
  pack_counts(packer, taken_orders);
  pack_counts(packer, sizes);
}

CheckedCall CheckedCall::unpack(Unpacker& unpacker) {
  CheckedCall call;
  call.facts.type = static_cast<OpType>(unpacker.number());
  call.facts.dtype = static_cast<DataType>(unpacker.number());
  call.facts.count = unpacker.number();
  call.facts.kind = static_cast<ReduceKind>(unpacker.number());
  call.facts.root = static_cast<std::int32_t>(unpacker.number()) - 1;
  call.facts.form = static_cast<Layout>(unpacker.number());
  call.facts.coalesced = unpacker.number();
  call.gives = unpack_counts(unpacker);
  call.takes = unpack_counts(unpacker);
  call.shape = unpack_counts(unpacker);
  call.strides = unpack_counts(unpacker);
  call.each = unpack_counts(unpacker);
  call.facts.order = unpacker.number();
  call.given_orders = unpack_counts(unpacker);
  call.taken_orders = unpack_counts(unpacker);
  call.sizes = unpack_counts(unpacker);
  return call;
}

namespace {

/// As many are coalesced everywhere, of as many elements together.
std::optional<std::string> find_other_buffer(std::span<const CheckedCall> calls,
                                             std::span<const int> ranks) {
  const Counts& first = calls.front().each;
  for (std::size_t member = 1; member < calls.size(); ++member) {
    const Counts& other = calls[member].each;
    const auto [here, there] = std::ranges::mismatch(first, other);
    if (here == first.end() || there == other.end()) continue;
    return fmt::format("buffer {} of those coalesced has {} elements on rank {} and {} on rank {}",
                       here - first.begin() + 1, *here, ranks.front(), *there, ranks[member]);
  }
  return std::nullopt;
}

/// Of values, or of the bundles in which bytes travel.
std::optional<std::string> find_other_size(std::span<const CheckedCall> calls,
                                           std::span<const int> ranks) {
  const CheckedCall& first = calls.front();
  const auto other = std::ranges::find_if(
      calls, [&](const CheckedCall& call) { return call.sizes != first.sizes; });
  if (other == calls.end()) return std::nullopt;
  const auto words = [](const CheckedCall& call) {
    return call.sizes.empty() ? "no size of its own" : fmt::format("{} bytes", call.sizes.front());
  };
  const bool are_values = first.facts.dtype == DataType::value;
  return fmt::format("{} has {} on rank {}, but {} on rank {}",
                     are_values ? "a value" : "a bundle of broadcast_coalesced", words(first),
                     ranks.front(), words(*other),
                     ranks[static_cast<std::size_t>(other - calls.begin())]);
}

/// Of the block that one gives and the other takes.
std::optional<std::string> find_other_block(const CheckedCall& giver, int from, std::size_t taking,
                                            const CheckedCall& taker, int to, std::size_t giving) {
  const std::uint64_t given = at(giver.gives, taking);
  const std::uint64_t taken = at(taker.takes, giving);
  if (given != taken)
    return fmt::format("rank {} sends rank {} {} elements, which expects {}", from, to, given,
                       taken);
  if (giver.given_orders.empty() || taker.taken_orders.empty()) return std::nullopt;
  const std::uint64_t there = at(giver.given_orders, taking);
  const std::uint64_t here = at(taker.taken_orders, giving);
  if (!change_places(there, here)) return std::nullopt;
  return fmt::format(
      "the dimensions of what rank {} sends rank {} lie in memory {}, where it is taken {}", from,
      to, tell_block_order(there), tell_block_order(here));
}

}  // namespace

std::optional<std::string> find_misfit(std::span<const CheckedCall> calls,
                                       std::span<const int> ranks) {
  for (const CheckedCall& call : calls)
    if (differ_in_more_than_layout(call.facts, calls.front().facts)) return "";
  if (auto misfit = find_other_size(calls, ranks)) return misfit;
  if (auto misfit = find_other_buffer(calls, ranks)) return misfit;
  for (std::size_t giver = 0; giver < calls.size(); ++giver) {
    if (calls[giver].gives.empty()) continue;
    for (std::size_t taker = 0; taker < calls.size(); ++taker) {
      if (calls[taker].takes.empty()) continue;
      if (auto other = find_other_block(calls[giver], ranks[giver], taker, calls[taker],
                                        ranks[taker], giver))
        return other;
    }
  }
  return find_other_layout(calls, ranks);
}

std::string tell_calls(std::span<const std::string> words, std::span<const int> ranks) {
  std::vector<std::pair<std::string, std::vector<int>>> told;
  for (std::size_t member = 0; member < words.size(); ++member) {
    auto same = std::find_if(told.begin(), told.end(),
                             [&](const auto& one) { return one.first == words[member]; });
    if (same == told.end()) same = told.insert(same, {words[member], {}});
    same->second.push_back(ranks[member]);
  }
  std::vector<std::string> parts;
  for (const auto& [call, callers] : told) {
    if (parts.size() == most_told) break;
    parts.push_back(fmt::format("{} {} {} {}", callers.size() > 1 ? "ranks" : "rank",
                                fmt::join(callers, ", "), callers.size() > 1 ? "call" : "calls",
                                call));
  }
  if (told.size() > most_told)
    parts.push_back(fmt::format("and {} more calls differ", told.size() - most_told));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string with_site(const std::string& call, const std::string& site) {
  return site.empty() ? call : fmt::format("{} (at {})", call, site);
}

std::string describe_site(const void* site) {
  return site == nullptr ? "an unknown call site"
                         : site_text(reinterpret_cast<std::uintptr_t>(site));
}

}  // namespace hymn
