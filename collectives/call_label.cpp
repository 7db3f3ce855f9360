#include "collectives/call_label.hpp"

#include <fmt/format.h>

#include <numeric>

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
  return type == OpType::gather || type == OpType::reduce ? "to" : "from";
}

std::string words_for(const Request& request, int peer) {
  std::string words(to_string(request.type));
  if (request.type == OpType::barrier) return words;
  const bool is_scatter = request.type == OpType::scatter;
  words += fmt::format(" of {} {}",
                       is_scatter ? request.outputs.flat().count : request.inputs.total_count(),
                       to_string(is_scatter ? request.outputs.dtype() : request.inputs.dtype()));
  if (reduces(request.type)) words += fmt::format(" with {}", to_string(request.op.kind()));
  if (peer >= 0) words += fmt::format(" {} group rank {}", rooted_by(request.type), peer);
  return words;
}

}  // namespace

std::uint64_t count_of_blocks(const Request& request) {
  switch (request.type) {
    case OpType::gather:
      return sum_of(request.outputs.counts());
    case OpType::scatter:
      return sum_of(request.inputs.counts());
    case OpType::all_gather:
      return request.outputs.total_count();
    case OpType::reduce_scatter:
      return request.inputs.total_count();
    case OpType::all_reduce:
    case OpType::broadcast:
    case OpType::reduce:
    case OpType::all_to_all:
    case OpType::barrier:
    case OpType::send:
    case OpType::recv:
    case OpType::batch:
      return 0;
  }
  return 0;
}

unsigned form_of_blocks(const Request& request) {
  switch (request.type) {
    case OpType::gather:
      return rooted_form_of(request.outputs.layout());
    case OpType::scatter:
      return rooted_form_of(request.inputs.layout());
    case OpType::all_gather:
      return form_of(request.outputs.layout());
    case OpType::reduce_scatter:
    case OpType::all_to_all:
      return form_of(request.inputs.layout());
    case OpType::all_reduce:
    case OpType::broadcast:
    case OpType::reduce:
    case OpType::barrier:
    case OpType::send:
    case OpType::recv:
    case OpType::batch:
      return 0;
  }
  return 0;
}

OtherCall::OtherCall(int member, const Request& request, int peer)
    : UsageError(
          fmt::format("group rank {} makes a different call where this rank makes {}, or has made "
                      "a different one before",
                      member, words_for(request, peer)),
          {.remedy = "make the same calls in the same order on all ranks: type, count, dtype, "
                     "operation, root and form of the blocks must agree"}) {}

void throw_other_call(int member, const Request& request, int peer) {
  throw OtherCall(member, request, peer);
}

}  // namespace hymn
