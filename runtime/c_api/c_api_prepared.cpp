// The C API: calls that are prepared once.
#include "hymn/hymn_prepared.h"
#include "hymn/prepared_call.hpp"
#include "runtime/c_api/c_api.hpp"
#include "runtime/group/prepared_state.hpp"

struct hymnPrepared {
  hymn::detail::PreparedState state;
};

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace

namespace {

/// Prepares what `build(group)` returns.
template <class Build>
hymnResult_t prepare(const Call& call, hymnPrepared_t* prepared, Build&& build) {
  return guarded(call.function, [&] {
    *need(prepared, "prepared") = nullptr;
    hymn::ProcessGroup& group = call.checked_group();
    *prepared = new hymnPrepared{
        hymn::detail::PreparedState(hymn::detail::need(group), build(group), call.options())};
  });
}

}  // namespace

hymnResult_t hymnPrepareCollective(hymnCollective_t collective, const hymnCollectiveCall_t* call,
                                   hymnGroup_t group, hymnStream_t stream,
                                   hymnPrepared_t* prepared) {
  return prepare(blocking(__func__, group, stream), prepared, [&](const hymn::ProcessGroup& of) {
    return request_of(collective, *need(call, "call"), of);
  });
}

hymnResult_t hymnPrepareSend(const void* buf, size_t count, hymnDataType_t dtype, int destination,
                             int tag, hymnGroup_t group, hymnStream_t stream,
                             hymnPrepared_t* prepared) {
  return prepare(blocking(__func__, group, stream), prepared, [&](const hymn::ProcessGroup&) {
    return hymn::Request::send(input(buf, count, dtype), destination, tag);
  });
}

hymnResult_t hymnPrepareRecv(void* buf, size_t count, hymnDataType_t dtype, int source, int tag,
                             hymnGroup_t group, hymnStream_t stream, hymnPrepared_t* prepared) {
  return prepare(blocking(__func__, group, stream), prepared, [&](const hymn::ProcessGroup&) {
    return hymn::Request::recv(output(buf, count, dtype), source, tag);
  });
}

hymnResult_t hymnPreparedRun(hymnPrepared_t prepared, hymnRecvStatus_t* status) {
  const void* const site = call_site(__builtin_return_address(0));
  return guarded(__func__, [&] {
    const hymn::RecvStatus came = need(prepared, "prepared")->state.run(site);
    if (status != nullptr) *status = {came.source, came.tag, came.count};
  });
}

hymnResult_t hymnPreparedStart(hymnPrepared_t prepared, hymnWork_t* work) {
  const void* const site = call_site(__builtin_return_address(0));
  return guarded(__func__, [&] {
    *need(work, "work") = nullptr;
    auto handle = std::make_unique<hymnWork>();  // first: a started operation must not get lost
    handle->work = need(prepared, "prepared")->state.start(site);
    *work = handle.release();
  });
}

hymnResult_t hymnPreparedFree(hymnPrepared_t prepared) {
  return guarded(__func__, [&] { delete need(prepared, "prepared"); });
}
