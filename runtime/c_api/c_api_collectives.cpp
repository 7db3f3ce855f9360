// The C API: collectives over one buffer for all ranks, and sends and receives. Each has two
// functions that show it to C: blocking and starting.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/c_api/c_api.hpp"
#include "runtime/group/device_barrier.hpp"
#include "runtime/group/work_starter.hpp"

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace
using hymn::InputBlocks;
using hymn::OutputBlocks;
using hymn::ProcessGroup;
using hymn::Request;

namespace hymn::c_api {
namespace {

/// What C calls it; null: it is no collective.
constexpr std::optional<hymnCollective_t> c_value(OpType type) {
  switch (type) {
    case OpType::all_reduce:
      return hymnCollectiveAllReduce;
    case OpType::broadcast:
      return hymnCollectiveBroadcast;
    case OpType::reduce:
      return hymnCollectiveReduce;
    case OpType::gather:
      return hymnCollectiveGather;
    case OpType::scatter:
      return hymnCollectiveScatter;
    case OpType::all_gather:
      return hymnCollectiveAllGather;
    case OpType::reduce_scatter:
      return hymnCollectiveReduceScatter;
    case OpType::scan:
      return hymnCollectiveScan;
    case OpType::exscan:
      return hymnCollectiveExscan;
    case OpType::all_to_all:
      return hymnCollectiveAllToAll;
    case OpType::barrier:
      return hymnCollectiveBarrier;
    case OpType::send:
    case OpType::recv:
    case OpType::batch:
    case OpType::probe:
      break;
  }
  return std::nullopt;
}
static_assert(std::ranges::all_of(all_op_types, [](OpType type) {
  return is_collective(type) == c_value(type).has_value();
}));

}  // namespace

Request request_of(hymnCollective_t collective, const hymnCollectiveCall_t& call,
                   const ProcessGroup& group) {
  const std::size_t one = call.count;
  const auto each = [&] { return for_all(call.count, group); };
  const auto in = [&](std::size_t count) { return input(call.sendbuf, count, call.dtype); };
  const auto out = [&](std::size_t count) { return output(call.recvbuf, count, call.dtype); };
  switch (collective) {
    case hymnCollectiveAllReduce:
      return Request::all_reduce(in(one), out(one), reduce_op(call.op));
    case hymnCollectiveBroadcast:
      if (call.sendbuf != nullptr && call.sendbuf != call.recvbuf)
        throw UsageError("a broadcast has a sendbuf that is not its recvbuf",
                         {.remedy = "give its one buffer as recvbuf"});
      return Request::broadcast(out(one), call.root);
    case hymnCollectiveReduce:
      return Request::reduce(in(one), out(one), call.root, reduce_op(call.op));
    case hymnCollectiveGather:
      return Request::gather(in(one), OutputBlocks::equal(out(each())), call.root);
    case hymnCollectiveScatter:
      return Request::scatter(InputBlocks::equal(in(each())), out(one), call.root);
    case hymnCollectiveAllGather:
      return Request::all_gather(in(one), OutputBlocks::equal(out(each())));
    case hymnCollectiveReduceScatter:
      return Request::reduce_scatter(InputBlocks::equal(in(each())), out(one), reduce_op(call.op));
    case hymnCollectiveAllToAll:
      return Request::all_to_all(InputBlocks::equal(in(each())), OutputBlocks::equal(out(each())));
    case hymnCollectiveBarrier:
      return Request::barrier();
    case hymnCollectiveScan:
      return Request::scan(in(one), out(one), reduce_op(call.op));
    case hymnCollectiveExscan:
      return Request::exscan(in(one), out(one), reduce_op(call.op));
  }
  throw UsageError(fmt::format("{} is not a hymnCollective_t", static_cast<int>(collective)));
}

}  // namespace hymn::c_api

namespace {

hymnResult_t carry_out(const Call& call, hymnCollective_t collective,
                       const hymnCollectiveCall_t& of) {
  return call.carry_out(
      [&](const ProcessGroup& group) { return request_of(collective, of, group); });
}

hymnResult_t send(const Call& call, const void* buf, size_t count, hymnDataType_t dtype,
                  int destination, int tag) {
  return call.carry_out([&](const ProcessGroup&) {
    return Request::send(input(buf, count, dtype), destination, tag);
  });
}

hymnResult_t recv(const Call& call, void* buf, size_t count, hymnDataType_t dtype, int source,
                  int tag) {
  return call.carry_out(
      [&](const ProcessGroup&) { return Request::recv(output(buf, count, dtype), source, tag); });
}

hymnResult_t barrier_on(const Call& call, const int* device_ids, size_t n) {
  if (n == 0) return carry_out(call, hymnCollectiveBarrier, {});
  return guarded(call.function, [&] {
    using hymn::detail::GroupState;
    GroupState& group = call.state();
    if (device_ids == nullptr)
      throw hymn::UsageError(
          fmt::format("Invalid function argument: device_ids is NULL, but n is {}", n));
    const hymn::CallOptions options =
        hymn::detail::on_devices(group, std::span(device_ids, n), call.options());
    const auto start = [&] {
      return hymn::Work(
          hymn::detail::WorkStarter(group, options, call.site).start(Request::barrier()));
    };
    if (call.asynchronous) return call.hand_out(start);
    start().wait();
  });
}

}  // namespace

hymnResult_t hymnAllReduce(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                           hymnOp_t op, hymnGroup_t group, hymnStream_t stream) {
  return carry_out(blocking(__func__, group, stream), hymnCollectiveAllReduce,
                   {sendbuf, recvbuf, count, dtype, op, 0});
}
hymnResult_t hymnIAllReduce(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                            hymnOp_t op, hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return carry_out(starting(__func__, group, stream, work), hymnCollectiveAllReduce,
                   {sendbuf, recvbuf, count, dtype, op, 0});
}

hymnResult_t hymnBroadcast(void* buf, size_t count, hymnDataType_t dtype, int root,
                           hymnGroup_t group, hymnStream_t stream) {
  return carry_out(blocking(__func__, group, stream), hymnCollectiveBroadcast,
                   {nullptr, buf, count, dtype, hymnSum, root});
}
hymnResult_t hymnIBroadcast(void* buf, size_t count, hymnDataType_t dtype, int root,
                            hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return carry_out(starting(__func__, group, stream, work), hymnCollectiveBroadcast,
                   {nullptr, buf, count, dtype, hymnSum, root});
}

hymnResult_t hymnReduce(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                        hymnOp_t op, int root, hymnGroup_t group, hymnStream_t stream) {
  return carry_out(blocking(__func__, group, stream), hymnCollectiveReduce,
                   {sendbuf, recvbuf, count, dtype, op, root});
}
hymnResult_t hymnIReduce(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                         hymnOp_t op, int root, hymnGroup_t group, hymnStream_t stream,
                         hymnWork_t* work) {
  return carry_out(starting(__func__, group, stream, work), hymnCollectiveReduce,
                   {sendbuf, recvbuf, count, dtype, op, root});
}

hymnResult_t hymnGather(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                        int root, hymnGroup_t group, hymnStream_t stream) {
  return carry_out(blocking(__func__, group, stream), hymnCollectiveGather,
                   {sendbuf, recvbuf, count, dtype, hymnSum, root});
}
hymnResult_t hymnIGather(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                         int root, hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return carry_out(starting(__func__, group, stream, work), hymnCollectiveGather,
                   {sendbuf, recvbuf, count, dtype, hymnSum, root});
}

hymnResult_t hymnScatter(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                         int root, hymnGroup_t group, hymnStream_t stream) {
  return carry_out(blocking(__func__, group, stream), hymnCollectiveScatter,
                   {sendbuf, recvbuf, count, dtype, hymnSum, root});
}
hymnResult_t hymnIScatter(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                          int root, hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return carry_out(starting(__func__, group, stream, work), hymnCollectiveScatter,
                   {sendbuf, recvbuf, count, dtype, hymnSum, root});
}

hymnResult_t hymnAllGather(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                           hymnGroup_t group, hymnStream_t stream) {
  return carry_out(blocking(__func__, group, stream), hymnCollectiveAllGather,
                   {sendbuf, recvbuf, count, dtype, hymnSum, 0});
}
hymnResult_t hymnIAllGather(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                            hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return carry_out(starting(__func__, group, stream, work), hymnCollectiveAllGather,
                   {sendbuf, recvbuf, count, dtype, hymnSum, 0});
}

hymnResult_t hymnReduceScatter(const void* sendbuf, void* recvbuf, size_t count,
                               hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                               hymnStream_t stream) {
  return carry_out(blocking(__func__, group, stream), hymnCollectiveReduceScatter,
                   {sendbuf, recvbuf, count, dtype, op, 0});
}
hymnResult_t hymnIReduceScatter(const void* sendbuf, void* recvbuf, size_t count,
                                hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                                hymnStream_t stream, hymnWork_t* work) {
  return carry_out(starting(__func__, group, stream, work), hymnCollectiveReduceScatter,
                   {sendbuf, recvbuf, count, dtype, op, 0});
}

hymnResult_t hymnScan(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                      hymnOp_t op, hymnGroup_t group, hymnStream_t stream) {
  return carry_out(blocking(__func__, group, stream), hymnCollectiveScan,
                   {sendbuf, recvbuf, count, dtype, op, 0});
}
hymnResult_t hymnIScan(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                       hymnOp_t op, hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return carry_out(starting(__func__, group, stream, work), hymnCollectiveScan,
                   {sendbuf, recvbuf, count, dtype, op, 0});
}

hymnResult_t hymnExscan(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                        hymnOp_t op, hymnGroup_t group, hymnStream_t stream) {
  return carry_out(blocking(__func__, group, stream), hymnCollectiveExscan,
                   {sendbuf, recvbuf, count, dtype, op, 0});
}
hymnResult_t hymnIExscan(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                         hymnOp_t op, hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return carry_out(starting(__func__, group, stream, work), hymnCollectiveExscan,
                   {sendbuf, recvbuf, count, dtype, op, 0});
}

hymnResult_t hymnAllToAll(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                          hymnGroup_t group, hymnStream_t stream) {
  return carry_out(blocking(__func__, group, stream), hymnCollectiveAllToAll,
                   {sendbuf, recvbuf, count, dtype, hymnSum, 0});
}
hymnResult_t hymnIAllToAll(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                           hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return carry_out(starting(__func__, group, stream, work), hymnCollectiveAllToAll,
                   {sendbuf, recvbuf, count, dtype, hymnSum, 0});
}

hymnResult_t hymnBarrier(hymnGroup_t group, hymnStream_t stream) {
  return carry_out(blocking(__func__, group, stream), hymnCollectiveBarrier, {});
}
hymnResult_t hymnIBarrier(hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return carry_out(starting(__func__, group, stream, work), hymnCollectiveBarrier, {});
}

hymnResult_t hymnBarrierOnDevices(const int* device_ids, size_t n, hymnGroup_t group,
                                  hymnStream_t stream) {
  return barrier_on(blocking(__func__, group, stream), device_ids, n);
}
hymnResult_t hymnIBarrierOnDevices(const int* device_ids, size_t n, hymnGroup_t group,
                                   hymnStream_t stream, hymnWork_t* work) {
  return barrier_on(starting(__func__, group, stream, work), device_ids, n);
}

hymnResult_t hymnSend(const void* buf, size_t count, hymnDataType_t dtype, int destination, int tag,
                      hymnGroup_t group, hymnStream_t stream) {
  return send(blocking(__func__, group, stream), buf, count, dtype, destination, tag);
}
hymnResult_t hymnISend(const void* buf, size_t count, hymnDataType_t dtype, int destination,
                       int tag, hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return send(starting(__func__, group, stream, work), buf, count, dtype, destination, tag);
}

hymnResult_t hymnRecv(void* buf, size_t count, hymnDataType_t dtype, int source, int tag,
                      hymnGroup_t group, hymnStream_t stream, hymnRecvStatus_t* status) {
  Call call = blocking(__func__, group, stream);
  call.status = status;
  return recv(call, buf, count, dtype, source, tag);
}
hymnResult_t hymnIRecv(void* buf, size_t count, hymnDataType_t dtype, int source, int tag,
                       hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return recv(starting(__func__, group, stream, work), buf, count, dtype, source, tag);
}
