// The C API: several collectives as one.
#include <vector>

#include "hymn/hymn_coalesced.h"
#include "runtime/c_api/c_api.hpp"
#include "runtime/group/work_starter.hpp"

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace

namespace {

/// `Each` is hymnCollectiveCall_t or hymnCollectivevCall_t.
template <class Each>
hymnResult_t coalesced(const Call& call, hymnCollective_t collective, const Each* calls, size_t n) {
  return guarded(call.function, [&] {
    hymn::ProcessGroup& group = call.checked_group();
    if (n > 0) need(calls, "calls");
    std::vector<hymn::Request> requests;
    for (const Each& each : std::span(calls, n))
      requests.push_back(request_of(collective, each, group));
    const auto start = [&] {
      return hymn::Work(
          hymn::detail::WorkStarter(hymn::detail::need(group), call.options(), call.site)
              .start_coalesced(requests));
    };
    if (call.asynchronous) return call.hand_out(start);
    hymn::Work work = start();
    if (call.stream == nullptr) work.wait();
  });
}

/// Of this thread, which ends.
std::unique_ptr<hymn::detail::CapturedCalls> captured(hymn::detail::GroupState& state) {
  auto& scopes = state.works().scopes();
  if (hymn::detail::CapturedCalls* const calls = scopes.of_this_thread())
    return scopes.close(*calls);
  hymn::ErrorContext where = state.members().context("coalesce");
  where.remedy = "call hymnCoalesceBegin first, on the same thread";
  throw hymn::UsageError("this thread has begun no coalescing scope on this group",
                         std::move(where));
}

hymnResult_t end_scope(const Call& call) {
  return guarded(call.function, [&] {
    hymn::detail::GroupState& state = call.state();
    const auto calls = captured(state);
    hymn::CallOptions options = call.options();
    options.stream = calls->stream();
    const auto start = [&] {
      return hymn::Work(
          hymn::detail::WorkStarter(state, options, call.site).start_captured(*calls));
    };
    if (call.asynchronous) return call.hand_out(start);
    hymn::Work work = start();
    if (work.valid() && options.stream == nullptr) work.wait();
  });
}

}  // namespace

hymnResult_t hymnCoalesceBegin(hymnGroup_t group, hymnStream_t stream) {
  const char* const function = __func__;
  return guarded(function, [&] {
    hymn::detail::GroupState& state = blocking(function, group, stream).state();
    (void)state.works().scopes().open({.stream = stream}, state.members());
  });
}

hymnResult_t hymnCoalesceEnd(hymnGroup_t group) {
  return end_scope(blocking(__func__, group, nullptr));
}

hymnResult_t hymnICoalesceEnd(hymnGroup_t group, hymnWork_t* work) {
  return end_scope(starting(__func__, group, nullptr, work));
}

hymnResult_t hymnCoalesceCancel(hymnGroup_t group) {
  const char* const function = __func__;
  return guarded(function, [&] { (void)captured(blocking(function, group, nullptr).state()); });
}

hymnResult_t hymnCoalesced(hymnCollective_t collective, const hymnCollectiveCall_t* calls, size_t n,
                           hymnGroup_t group, hymnStream_t stream) {
  return coalesced(blocking(__func__, group, stream), collective, calls, n);
}

hymnResult_t hymnICoalesced(hymnCollective_t collective, const hymnCollectiveCall_t* calls,
                            size_t n, hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return coalesced(starting(__func__, group, stream, work), collective, calls, n);
}

hymnResult_t hymnCoalescedv(hymnCollective_t collective, const hymnCollectivevCall_t* calls,
                            size_t n, hymnGroup_t group, hymnStream_t stream) {
  return coalesced(blocking(__func__, group, stream), collective, calls, n);
}

hymnResult_t hymnICoalescedv(hymnCollective_t collective, const hymnCollectivevCall_t* calls,
                             size_t n, hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return coalesced(starting(__func__, group, stream, work), collective, calls, n);
}
