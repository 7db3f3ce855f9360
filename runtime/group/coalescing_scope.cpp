#include "hymn/coalesce.hpp"

#include <vector>

#include "base/error_context.hpp"
#include "collectives/validate_view.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/work_starter.hpp"

namespace hymn {

CoalescingScope::CoalescingScope(ProcessGroup group, const CallOptions& options)
    : group_(std::move(group)), options_(options) {
  detail::GroupState& state = detail::need(group_);
  calls_ = &state.works().scopes().open(options, state.members());
}

CoalescingScope::~CoalescingScope() {
  if (calls_ != nullptr) detail::need(group_).works().scopes().close(*calls_);
}

Work CoalescingScope::start() {
  detail::GroupState& state = detail::need(group_);
  if (calls_ == nullptr)
    throw UsageError("this coalescing scope has ended", state.members().context("coalesce"));
  const auto calls = state.works().scopes().close(*std::exchange(calls_, nullptr));
  return Work(
      detail::WorkStarter(state, options_, __builtin_return_address(0)).start_captured(*calls));
}

namespace {

/// What the layout, which must be dense, holds.
BufferView bytes_of(const BufferView& view, const detail::GroupMembers& members) {
  try {
    if (view.dtype == DataType::opaque)
      throw UnsupportedError("buffers of another library's types cannot be coalesced as bytes",
                             {.remedy = "use start_coalesced()"});
    validate_view("inout", view);
  } catch (...) {
    rethrow_with(members.context("broadcast_coalesced"));
  }
  return BufferView(view.data, view.bytes(), DataType::uint8, view.memory);
}

}  // namespace

Work broadcast_coalesced_async(const ProcessGroup& group, std::span<const BufferView> inouts,
                               std::size_t buffer_bytes, int root, const CallOptions& options) {
  detail::GroupState& state = detail::need(group);
  std::vector<Request> requests;
  for (const BufferView& inout : inouts)
    requests.push_back(Request::broadcast(bytes_of(inout, state.members()), root));
  return Work(detail::WorkStarter(state, options, __builtin_return_address(0))
                  .bundling({.each = buffer_bytes, .together = buffer_bytes})
                  .start_coalesced(requests));
}

}  // namespace hymn
