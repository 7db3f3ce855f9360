#include "collectives/call_label.hpp"

#include <fmt/format.h>

#include <numeric>

#include "collectives/layout.hpp"

namespace hymn {
namespace {

std::uint64_t sum_of(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

unsigned form_of(Layout layout) {
  return layout <= Layout::equal && layout != Layout::none ? 0 : static_cast<unsigned>(layout);
}

/// Of the side that the root alone has: in a list it is nothing on the others.
unsigned rooted_form_of(Layout layout) {
  return form_of(layout == Layout::none ? Layout::list : layout);
}

std::string_view rooted_by(OpType type) {
  return traits_of(type).root == RootRole::takes ? "to" : "from";
}

std::string words_for(const Request& request, int peer) {
  std::string words(to_string(request.type));
  if (request.type == OpType::barrier) return words;
  const bool by_output = all_have_outputs(request.type);
  words += fmt::format(" of {} {}",
                       by_output ? request.outputs.flat().count : request.inputs.total_count(),
                       to_string(by_output ? request.outputs.dtype() : request.inputs.dtype()));
  if (reduces(request.type)) words += fmt::format(" with {}", to_string(request.op.kind()));
  if (peer >= 0) words += fmt::format(" {} group rank {}", rooted_by(request.type), peer);
  if (has_strides(request))
    words += fmt::format(", layout {}", tell_layout(shaped_buffer(request)));
  return words;
}

}  // namespace

// Of blocks that the root alone has, the others may know the given counts; where both sides have
// blocks, each rank's sum is its own.
std::uint64_t count_of_blocks(const Request& request) {
  const auto count = [&request](const auto& blocks) {
    return has_root(request.type) ? sum_of(blocks.counts()) : blocks.total_count();
  };
  const bool in_input = has_input_blocks(request.type);
  if (in_input == has_output_blocks(request.type)) return 0;
  return in_input ? count(request.inputs) : count(request.outputs);
}

unsigned form_of_blocks(const Request& request) {
  if (!has_blocks(request.type)) return 0;
  const bool in_input = has_input_blocks(request.type);
  const Layout layout = in_input ? request.inputs.layout() : request.outputs.layout();
  return has_root(request.type) ? rooted_form_of(layout) : form_of(layout);
}

std::uint64_t with_layout(std::uint64_t label, const Request& request) {
  const std::uint64_t order = common_order(request);
  return order == 0 ? label : mix_in(label, order);
}

OtherCall::OtherCall(int member, const Request& request, int peer)
    : UsageError(
          fmt::format("group rank {} makes a different call where this rank makes {}, or has made "
                      "a different one before",
                      member, words_for(request, peer)),
          {.remedy = "make the same calls in the same order on all ranks: type, count, dtype, "
                     "operation, root, form of the blocks and layout must agree"}) {}

void throw_other_call(int member, const Request& request, int peer) {
  throw OtherCall(member, request, peer);
}

}  // namespace hymn
