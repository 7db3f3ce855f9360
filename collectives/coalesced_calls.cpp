#include "collectives/coalesced_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collectives/call_label.hpp"
#include "collectives/memory_ranges.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr const char* one_scope_each = "coalesce those that are alike, and the others apart";

[[noreturn]] void refuse_mixture(std::string_view what, std::string_view one,
                                 std::string_view other) {
  throw UsageError(fmt::format("{} in one coalesced call: {} and {}", what, one, other),
                   {.remedy = one_scope_each});
}

}  // namespace

void require_alike(const Request& one, const Request& other) {
  if (dtype_of(one) != dtype_of(other))
    refuse_mixture("tensors with different dtypes", to_string(dtype_of(one)),
                   to_string(dtype_of(other)));
  if (reduces(one.type) && one.op.kind() != other.op.kind())
    refuse_mixture("different reductions", to_string(one.op.kind()), to_string(other.op.kind()));
  if (has_root(one.type) && one.peer != other.peer)
    refuse_mixture("different roots", std::to_string(one.peer), std::to_string(other.peer));
}

namespace {

template <class View>
bool is_given(const Blocks<View>& blocks) {
  return blocks.layout() == Layout::counted || blocks.layout() == Layout::list;
}

/// Only the root has the list that it scatters, or gathers to.
bool is_list_elsewhere(const Request& request) {
  if (!has_root(request.type) || !has_blocks(request.type)) return false;
  return (has_input_blocks(request.type) ? request.inputs.layout() : request.outputs.layout()) ==
         Layout::none;
}

/// The whole is carried out, waited for and recorded as of one kind of memory.
void require_one_memory(std::span<const Request* const> requests) {
  const Request* first = nullptr;
  for (const Request* const request : requests) {
    // Nothing lies nowhere.
    if (request->inputs.total_count() == 0 && request->outputs.total_count() == 0) continue;
    if (first == nullptr) first = request;
    if (first->memory() != request->memory())
      refuse_mixture("different kinds of memory", to_string(first->memory()),
                     to_string(request->memory()));
  }
}

/// Adds no memory to that of the outputs.
bool is_in_place(const ConstBufferView& input, const OutputBlocks& outputs) {
  const BufferView& output = outputs.flat();
  return input.data == output.data && input.bytes() <= output.bytes();
}

}  // namespace

void require_one_kind(std::span<const Request> requests) {
  if (requests.empty()) throw UsageError("there is nothing to coalesce");
  const OpType type = requests.front().type;
  for (const Request& request : requests)
    if (!is_collective(request.type) || request.type != type)
      throw UsageError(fmt::format("collectives of one kind can be coalesced, but not {} and {}",
                                   to_string(type), to_string(request.type)),
                       {.remedy = one_scope_each});
}

void require_one_whole(std::span<const Request* const> requests, GroupShape shape, int root) {
  const Request& first = *requests.front();
  if (first.type == OpType::barrier) return;
  require_one_memory(requests);
  const bool is_root = shape.rank == root;
  // Where a rank has one buffer, the root only reads it.
  const bool writes =
      uses_outputs(first.type, is_root) && !(traits_of(first.type).one_buffer && is_root);
  MemoryRanges ranges(requests.size());
  for (std::size_t call = 0; call < requests.size(); ++call) {
    const Request& request = *requests[call];
    require_alike(first, request);
    if (writes)
      for (const BufferView& view : request.outputs.views())
        ranges.add(view.data, view.bytes(), call, true);
    if (!uses_inputs(first.type, is_root)) continue;
    for (const ConstBufferView& view : request.inputs.views())
      if (!writes || !is_in_place(view, request.outputs))
        ranges.add(view.data, view.bytes(), call, false);
  }
  if (const auto shared = ranges.find_shared())
    throw UsageError(fmt::format("of coalesced calls #{} and #{} use the same memory, and one "
                                 "writes it",
                                 shared->first + 1, shared->second + 1),
                     {.remedy = "make one after the other, or give each buffers of its own"});
}

OwnedRequest whole_of(std::span<const Request* const> requests) {
  std::vector<ConstBufferView> inputs;
  std::vector<BufferView> outputs;
  inputs.reserve(requests.size());
  outputs.reserve(requests.size());
  for (const Request* request : requests) {
    const auto in = request->inputs.views();
    const auto out = request->outputs.views();
    inputs.insert(inputs.end(), in.begin(), in.end());
    outputs.insert(outputs.end(), out.begin(), out.end());
  }
  return OwnedRequest(*requests.front(), std::move(inputs), std::move(outputs));
}

bool have_given_blocks(std::span<const Request* const> requests) {
  return std::ranges::any_of(requests, [](const Request* request) {
    return is_given(request->inputs) || is_given(request->outputs) || is_list_elsewhere(*request);
  });
}

std::vector<std::uint64_t> counts_of_calls(const Call& call) {
  const Request& whole = *call.request;
  std::vector<std::uint64_t> counts;
  if (counts_differ(whole.type, call.in_given_blocks) || dtype_of(whole) == DataType::opaque)
    return counts;
  const auto add = [&counts](const auto& blocks) {
    for (const auto& view : blocks.views()) counts.push_back(view.count);
  };
  if (all_know_outputs(whole.type))
    add(whole.outputs);
  else
    add(whole.inputs);
  return counts;
}

std::uint64_t whole_label(std::span<const Request* const> requests, int root) {
  std::uint64_t label = label_factor;
  for (const Request* request : requests) label = mix_in(label, call_label(*request, root));
  return label | 1;
}

}  // namespace hymn
