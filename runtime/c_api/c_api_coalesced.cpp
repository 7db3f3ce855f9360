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
      return hymn::Work(hymn::detail::WorkStarter(hymn::detail::GroupState::need_of(group),
                                                  {.stream = call.stream}, call.site)
                            .start_coalesced(requests));
    };
    if (call.asynchronous) return call.hand_out(start);
    hymn::Work work = start();
    if (call.stream == nullptr) work.wait();
  });
}

}  // namespace

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
