// The C API: several messages of a group as one, and what waits to be received.
#include <span>
#include <vector>

#include "runtime/c_api/c_api.hpp"
#include "runtime/group/message_probe.hpp"
#include "runtime/group/send_recv.hpp"
#include "runtime/group/work_starter.hpp"

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace
using hymn::P2POp;
using hymn::detail::SendRecv;

namespace {

P2POp one_of_batch(const hymnP2POp_t& op) {
  if (op.sendbuf != nullptr && op.recvbuf != nullptr) {
    throw hymn::UsageError("an operation of a batch has both a sendbuf and a recvbuf");
  }
  if (op.sendbuf == nullptr && op.recvbuf == nullptr) {
    throw hymn::UsageError("an operation of a batch has neither a sendbuf nor a recvbuf",
                           {.remedy = "give the address of anything where no elements are moved"});
  }
  if (op.sendbuf != nullptr) {
    return P2POp::send(input(op.sendbuf, op.count, op.dtype), op.peer, op.tag);
  }
  return P2POp::recv(output(op.recvbuf, op.count, op.dtype), op.peer, op.tag);
}

bool is_none(const P2POp& op) { return op.request.peer == HYMN_NO_RANK; }

/// Without what is for nobody, or from nobody.
std::vector<P2POp> without_none(std::vector<P2POp> ops) {
  std::erase_if(ops, is_none);
  return ops;
}

hymn::Work start_batch(const Call& call, const std::vector<P2POp>& ops) {
  return hymn::Work(hymn::detail::WorkStarter(call.state(), call.options(), call.site)
                        .start_batch(without_none(ops)));
}

/// What has come; from nobody nothing does. In a scope it is only begun at the end of that.
hymn::RecvStatus run_without_none(const Call& call, const P2POp& send, const P2POp& recv) {
  hymn::Work work = start_batch(call, {recv, send});
  const bool waits = call.stream == nullptr && work.valid();
  if (waits) work.wait();
  const auto came = waits ? work.statuses() : std::vector<hymn::RecvStatus>();
  return came.empty() ? hymn::RecvStatus{HYMN_NO_RANK, recv.request.tag, 0} : came.front();
}

void tell(hymnRecvStatus_t* status, const hymn::RecvStatus& received) {
  if (status != nullptr) *status = {received.source, received.tag, received.count};
}

}  // namespace

hymnResult_t hymnIBatch(const hymnP2POp_t* ops, size_t n, hymnGroup_t group, hymnStream_t stream,
                        hymnWork_t* work) {
  const Call call = starting(__func__, group, stream, work);
  return guarded(__func__, [&] {
    (void)call.state();
    if (n > 0) need(ops, "ops");
    std::vector<P2POp> batch;
    for (const hymnP2POp_t& op : std::span(ops, n)) batch.push_back(one_of_batch(op));
    call.hand_out([&] { return start_batch(call, batch); });
  });
}

hymnResult_t hymnSendrecv(const void* sendbuf, size_t sendcount, hymnDataType_t sendtype,
                          int destination, int sendtag, void* recvbuf, size_t recvcount,
                          hymnDataType_t recvtype, int source, int recvtag, hymnGroup_t group,
                          hymnStream_t stream, hymnRecvStatus_t* status) {
  const Call call = blocking(__func__, group, stream);
  return guarded(__func__, [&] {
    const P2POp send = P2POp::send(input(sendbuf, sendcount, sendtype), destination, sendtag);
    const P2POp recv = P2POp::recv(output(recvbuf, recvcount, recvtype), source, recvtag);
    tell(status, is_none(send) || is_none(recv)
                     ? run_without_none(call, send, recv)
                     : SendRecv(call.state(), call.options(), call.site).run(send, recv));
  });
}

hymnResult_t hymnISendrecv(const void* sendbuf, size_t sendcount, hymnDataType_t sendtype,
                           int destination, int sendtag, void* recvbuf, size_t recvcount,
                           hymnDataType_t recvtype, int source, int recvtag, hymnGroup_t group,
                           hymnStream_t stream, hymnWork_t* work) {
  const Call call = starting(__func__, group, stream, work);
  return guarded(__func__, [&] {
    hymn::detail::GroupState& state = call.state();
    const P2POp send = P2POp::send(input(sendbuf, sendcount, sendtype), destination, sendtag);
    const P2POp recv = P2POp::recv(output(recvbuf, recvcount, recvtype), source, recvtag);
    call.hand_out([&] {
      if (is_none(send) || is_none(recv)) return start_batch(call, {recv, send});
      return SendRecv(state, call.options(), call.site).start(send, recv);
    });
  });
}

hymnResult_t hymnSendrecvReplace(void* buf, size_t count, hymnDataType_t dtype, int destination,
                                 int sendtag, int source, int recvtag, hymnGroup_t group,
                                 hymnStream_t stream, hymnRecvStatus_t* status) {
  const Call call = blocking(__func__, group, stream);
  return guarded(__func__, [&] {
    const P2POp send = P2POp::send(input(buf, count, dtype), destination, sendtag);
    const P2POp recv = P2POp::recv(output(buf, count, dtype), source, recvtag);
    const SendRecv both(call.state(), call.options(), call.site);
    both.require_no_scope();
    tell(status, is_none(send) || is_none(recv) ? run_without_none(call, send, recv)
                                                : both.replace(send, recv));
  });
}

hymnResult_t hymnProbe(int source, int tag, hymnGroup_t group, hymnMessageInfo_t* info) {
  const Call call = blocking(__func__, group, nullptr);
  return guarded(__func__, [&] {
    need(info, "info");
    const hymn::detail::MessageProbe probe(call.state(), source, tag);
    const hymn::MessageInfo found = probe.wait(call.options(), call.site);
    *info = {found.source, found.tag, found.bytes};
  });
}

hymnResult_t hymnIprobe(int source, int tag, hymnGroup_t group, int* found,
                        hymnMessageInfo_t* info) {
  const Call call = blocking(__func__, group, nullptr);
  return guarded(__func__, [&] {
    *need(found, "found") = 0;
    need(info, "info");
    const auto seen = hymn::detail::MessageProbe(call.state(), source, tag).look();
    if (!seen) return;
    *found = 1;
    *info = {seen->source, seen->tag, seen->bytes};
  });
}
