// The C API: collectives over one buffer for all ranks, and sends and receives. Each has one
// function that builds the request, and two that show it to C: blocking and starting.
#include <vector>

#include "runtime/c_api/c_api.hpp"
#include "runtime/group/group_state.hpp"

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace
using hymn::InputBlocks;
using hymn::OutputBlocks;
using hymn::ProcessGroup;
using hymn::Request;

namespace {

hymnResult_t all_reduce(const Call& call, const void* sendbuf, void* recvbuf, size_t count,
                        hymnDataType_t dtype, hymnOp_t op) {
  return call.carry_out([&](const ProcessGroup&) {
    return Request::all_reduce(input(sendbuf, count, dtype), output(recvbuf, count, dtype),
                               reduce_op(op));
  });
}

hymnResult_t broadcast(const Call& call, void* buf, size_t count, hymnDataType_t dtype, int root) {
  return call.carry_out(
      [&](const ProcessGroup&) { return Request::broadcast(output(buf, count, dtype), root); });
}

hymnResult_t reduce(const Call& call, const void* sendbuf, void* recvbuf, size_t count,
                    hymnDataType_t dtype, hymnOp_t op, int root) {
  return call.carry_out([&](const ProcessGroup&) {
    return Request::reduce(input(sendbuf, count, dtype), output(recvbuf, count, dtype), root,
                           reduce_op(op));
  });
}

hymnResult_t gather(const Call& call, const void* sendbuf, void* recvbuf, size_t count,
                    hymnDataType_t dtype, int root) {
  return call.carry_out([&](const ProcessGroup& group) {
    return Request::gather(input(sendbuf, count, dtype),
                           OutputBlocks::equal(output(recvbuf, for_all(count, group), dtype)),
                           root);
  });
}

hymnResult_t scatter(const Call& call, const void* sendbuf, void* recvbuf, size_t count,
                     hymnDataType_t dtype, int root) {
  return call.carry_out([&](const ProcessGroup& group) {
    return Request::scatter(InputBlocks::equal(input(sendbuf, for_all(count, group), dtype)),
                            output(recvbuf, count, dtype), root);
  });
}

hymnResult_t all_gather(const Call& call, const void* sendbuf, void* recvbuf, size_t count,
                        hymnDataType_t dtype) {
  return call.carry_out([&](const ProcessGroup& group) {
    return Request::all_gather(input(sendbuf, count, dtype),
                               OutputBlocks::equal(output(recvbuf, for_all(count, group), dtype)));
  });
}

hymnResult_t reduce_scatter(const Call& call, const void* sendbuf, void* recvbuf, size_t count,
                            hymnDataType_t dtype, hymnOp_t op) {
  return call.carry_out([&](const ProcessGroup& group) {
    return Request::reduce_scatter(InputBlocks::equal(input(sendbuf, for_all(count, group), dtype)),
                                   output(recvbuf, count, dtype), reduce_op(op));
  });
}

hymnResult_t all_to_all(const Call& call, const void* sendbuf, void* recvbuf, size_t count,
                        hymnDataType_t dtype) {
  return call.carry_out([&](const ProcessGroup& group) {
    const size_t total = for_all(count, group);
    return Request::all_to_all(InputBlocks::equal(input(sendbuf, total, dtype)),
                               OutputBlocks::equal(output(recvbuf, total, dtype)));
  });
}

hymnResult_t barrier(const Call& call) {
  return call.carry_out([](const ProcessGroup&) { return Request::barrier(); });
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

hymn::P2POp one_of_batch(const hymnP2POp_t& op) {
  if (op.sendbuf != nullptr && op.recvbuf != nullptr) {
    throw hymn::UsageError("an operation of a batch has both a sendbuf and a recvbuf");
  }
  if (op.sendbuf == nullptr && op.recvbuf == nullptr) {
    throw hymn::UsageError("an operation of a batch has neither a sendbuf nor a recvbuf",
                           {.remedy = "give the address of anything where no elements are moved"});
  }
  if (op.sendbuf != nullptr) {
    return hymn::P2POp::send(input(op.sendbuf, op.count, op.dtype), op.peer, op.tag);
  }
  return hymn::P2POp::recv(output(op.recvbuf, op.count, op.dtype), op.peer, op.tag);
}

}  // namespace

hymnResult_t hymnAllReduce(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                           hymnOp_t op, hymnGroup_t group, hymnStream_t stream) {
  return all_reduce(blocking(__func__, group, stream), sendbuf, recvbuf, count, dtype, op);
}
hymnResult_t hymnIAllReduce(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                            hymnOp_t op, hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return all_reduce(starting(__func__, group, stream, work), sendbuf, recvbuf, count, dtype, op);
}

hymnResult_t hymnBroadcast(void* buf, size_t count, hymnDataType_t dtype, int root,
                           hymnGroup_t group, hymnStream_t stream) {
  return broadcast(blocking(__func__, group, stream), buf, count, dtype, root);
}
hymnResult_t hymnIBroadcast(void* buf, size_t count, hymnDataType_t dtype, int root,
                            hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return broadcast(starting(__func__, group, stream, work), buf, count, dtype, root);
}

hymnResult_t hymnReduce(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                        hymnOp_t op, int root, hymnGroup_t group, hymnStream_t stream) {
  return reduce(blocking(__func__, group, stream), sendbuf, recvbuf, count, dtype, op, root);
}
hymnResult_t hymnIReduce(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                         hymnOp_t op, int root, hymnGroup_t group, hymnStream_t stream,
                         hymnWork_t* work) {
  return reduce(starting(__func__, group, stream, work), sendbuf, recvbuf, count, dtype, op, root);
}

hymnResult_t hymnGather(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                        int root, hymnGroup_t group, hymnStream_t stream) {
  return gather(blocking(__func__, group, stream), sendbuf, recvbuf, count, dtype, root);
}
hymnResult_t hymnIGather(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                         int root, hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return gather(starting(__func__, group, stream, work), sendbuf, recvbuf, count, dtype, root);
}

hymnResult_t hymnScatter(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                         int root, hymnGroup_t group, hymnStream_t stream) {
  return scatter(blocking(__func__, group, stream), sendbuf, recvbuf, count, dtype, root);
}
hymnResult_t hymnIScatter(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                          int root, hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return scatter(starting(__func__, group, stream, work), sendbuf, recvbuf, count, dtype, root);
}

hymnResult_t hymnAllGather(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                           hymnGroup_t group, hymnStream_t stream) {
  return all_gather(blocking(__func__, group, stream), sendbuf, recvbuf, count, dtype);
}
hymnResult_t hymnIAllGather(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                            hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return all_gather(starting(__func__, group, stream, work), sendbuf, recvbuf, count, dtype);
}

hymnResult_t hymnReduceScatter(const void* sendbuf, void* recvbuf, size_t count,
                               hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                               hymnStream_t stream) {
  return reduce_scatter(blocking(__func__, group, stream), sendbuf, recvbuf, count, dtype, op);
}
hymnResult_t hymnIReduceScatter(const void* sendbuf, void* recvbuf, size_t count,
                                hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                                hymnStream_t stream, hymnWork_t* work) {
  return reduce_scatter(starting(__func__, group, stream, work), sendbuf, recvbuf, count, dtype,
                        op);
}

hymnResult_t hymnAllToAll(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                          hymnGroup_t group, hymnStream_t stream) {
  return all_to_all(blocking(__func__, group, stream), sendbuf, recvbuf, count, dtype);
}
hymnResult_t hymnIAllToAll(const void* sendbuf, void* recvbuf, size_t count, hymnDataType_t dtype,
                           hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return all_to_all(starting(__func__, group, stream, work), sendbuf, recvbuf, count, dtype);
}

hymnResult_t hymnBarrier(hymnGroup_t group, hymnStream_t stream) {
  return barrier(blocking(__func__, group, stream));
}
hymnResult_t hymnIBarrier(hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return barrier(starting(__func__, group, stream, work));
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

hymnResult_t hymnIBatch(const hymnP2POp_t* ops, size_t n, hymnGroup_t group, hymnStream_t stream,
                        hymnWork_t* work) {
  const Call call = starting(__func__, group, stream, work);
  return guarded(__func__, [&] {
    ProcessGroup& target = call.checked_group();
    if (n > 0) need(ops, "ops");
    std::vector<hymn::P2POp> batch;
    for (const hymnP2POp_t& op : std::span(ops, n)) batch.push_back(one_of_batch(op));
    call.hand_out([&] {
      return hymn::Work(hymn::detail::GroupState::of(target)->start_batch(
          batch, {.stream = call.stream}, call.site));
    });
  });
}
