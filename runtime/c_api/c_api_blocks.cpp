// The C API: collectives over blocks of given sizes, one after the other or anywhere. As in
// c_api_collectives.cpp, a blocking and a starting function build the same request.
#include <fmt/format.h>

#include <vector>

#include "runtime/c_api/c_api.hpp"

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace
using hymn::BufferView;
using hymn::ConstBufferView;
using hymn::InputBlocks;
using hymn::OutputBlocks;
using hymn::ProcessGroup;
using hymn::Request;

namespace hymn::c_api {
namespace {

using Counts = std::span<const size_t>;

InputBlocks counted_input(const void* data, Counts counts, hymnDataType_t dtype) {
  return InputBlocks::counted(input(data, sum_of(counts), dtype), counts);
}

OutputBlocks counted_output(void* data, Counts counts, hymnDataType_t dtype) {
  return OutputBlocks::counted(output(data, sum_of(counts), dtype), counts);
}

[[noreturn]] void throw_no_blocks(hymnCollective_t collective, const char* remedy) {
  throw UsageError(
      fmt::format("the collective {} has no blocks of given sizes", static_cast<int>(collective)),
      {.remedy = remedy});
}

}  // namespace

Request request_of(hymnCollective_t collective, const hymnCollectivevCall_t& call,
                   const ProcessGroup& group) {
  const auto counts = [&] { return counts_of(call.counts, group, "counts"); };
  const auto own_in = [&] { return input(call.sendbuf, own_count(counts(), group), call.dtype); };
  const auto own_out = [&] { return output(call.recvbuf, own_count(counts(), group), call.dtype); };
  const auto all_in = [&] { return counted_input(call.sendbuf, counts(), call.dtype); };
  const auto all_out = [&] { return counted_output(call.recvbuf, counts(), call.dtype); };
  switch (collective) {
    case hymnCollectiveGather:
      return Request::gather(own_in(), all_out(), call.root);
    case hymnCollectiveScatter:
      return Request::scatter(all_in(), own_out(), call.root);
    case hymnCollectiveAllGather:
      return Request::all_gather(own_in(), all_out());
    case hymnCollectiveReduceScatter:
      return Request::reduce_scatter(all_in(), own_out(), reduce_op(call.op));
    case hymnCollectiveAllToAll:
      return Request::all_to_all(
          counted_input(call.sendbuf, counts_of(call.counts, group, "sendcounts"), call.dtype),
          counted_output(call.recvbuf, counts_of(call.recvcounts, group, "recvcounts"),
                         call.dtype));
    case hymnCollectiveAllReduce:
    case hymnCollectiveBroadcast:
    case hymnCollectiveReduce:
    case hymnCollectiveBarrier:
    case hymnCollectiveScan:
    case hymnCollectiveExscan:
      break;
  }
  throw_no_blocks(collective, "give one of hymnCollective_t that has, or call hymnCoalesced");
}

}  // namespace hymn::c_api

namespace {

/// What a call over lists is given.
struct ListCall {
  const hymnBlock_t* sends;
  const hymnBlock_t* recvs;
  hymnDataType_t dtype;
  hymnOp_t op;
  int root;
};

/// One for each rank of the group, from the argument called `name`; none for who is no member.
std::span<const hymnBlock_t> blocks_of(const hymnBlock_t* blocks, const ProcessGroup& group,
                                       const char* name) {
  if (!group.is_member()) return {};
  return {need(blocks, name), static_cast<size_t>(group.size())};
}

hymnResult_t carry_out_counted(const Call& call, hymnCollective_t collective,
                               const hymnCollectivevCall_t& of) {
  return call.carry_out(
      [&](const ProcessGroup& group) { return request_of(collective, of, group); });
}

/// Of a call over lists, which refer to it.
struct ListViews {
  std::vector<ConstBufferView> inputs;
  std::vector<BufferView> outputs;
};

bool is_root(const ProcessGroup& group, int root) {
  return group.is_member() && group.global_rank(group.rank()) == root;
}

Request request_of_list(hymnCollective_t collective, const ListCall& call,
                        const ProcessGroup& group, ListViews& views) {
  const auto own_in = [&] {
    // Who is no member is only warned, whatever it gives.
    if (!group.is_member()) return input(nullptr, 0, call.dtype);
    const hymnBlock_t& own = *need(call.sends, "sends");
    return input(own.data, own.count, call.dtype);
  };
  const auto own_out = [&] {
    if (!group.is_member()) return output(nullptr, 0, call.dtype);
    const hymnBlock_t& own = *need(call.recvs, "recvs");
    return output(own.data, own.count, call.dtype);
  };
  const auto all_in = [&] {
    for (const hymnBlock_t& each : blocks_of(call.sends, group, "sends"))
      views.inputs.push_back(input(each.data, each.count, call.dtype));
    return InputBlocks::list(views.inputs);
  };
  const auto all_out = [&] {
    for (const hymnBlock_t& each : blocks_of(call.recvs, group, "recvs"))
      views.outputs.push_back(output(each.data, each.count, call.dtype));
    return OutputBlocks::list(views.outputs);
  };
  switch (collective) {
    case hymnCollectiveGather:
      return Request::gather(own_in(), is_root(group, call.root) ? all_out() : OutputBlocks(),
                             call.root);
    case hymnCollectiveScatter:
      return Request::scatter(is_root(group, call.root) ? all_in() : InputBlocks(), own_out(),
                              call.root);
    case hymnCollectiveAllGather:
      return Request::all_gather(own_in(), all_out());
    case hymnCollectiveReduceScatter:
      return Request::reduce_scatter(all_in(), own_out(), reduce_op(call.op));
    case hymnCollectiveAllToAll: {
      const InputBlocks in = all_in();
      return Request::all_to_all(in, all_out());
    }
    case hymnCollectiveAllReduce:
    case hymnCollectiveBroadcast:
    case hymnCollectiveReduce:
    case hymnCollectiveBarrier:
    case hymnCollectiveScan:
    case hymnCollectiveExscan:
      break;
  }
  throw_no_blocks(collective, "give one of hymnCollective_t that has");
}

hymnResult_t carry_out_list(const Call& call, hymnCollective_t collective, const ListCall& of) {
  ListViews views;
  return call.carry_out(
      [&](const ProcessGroup& group) { return request_of_list(collective, of, group, views); });
}

}  // namespace

hymnResult_t hymnGatherv(const void* sendbuf, void* recvbuf, const size_t* counts,
                         hymnDataType_t dtype, int root, hymnGroup_t group, hymnStream_t stream) {
  return carry_out_counted(blocking(__func__, group, stream), hymnCollectiveGather,
                           {sendbuf, recvbuf, counts, nullptr, dtype, 0, root});
}
hymnResult_t hymnIGatherv(const void* sendbuf, void* recvbuf, const size_t* counts,
                          hymnDataType_t dtype, int root, hymnGroup_t group, hymnStream_t stream,
                          hymnWork_t* work) {
  return carry_out_counted(starting(__func__, group, stream, work), hymnCollectiveGather,
                           {sendbuf, recvbuf, counts, nullptr, dtype, 0, root});
}

hymnResult_t hymnScatterv(const void* sendbuf, const size_t* counts, void* recvbuf,
                          hymnDataType_t dtype, int root, hymnGroup_t group, hymnStream_t stream) {
  return carry_out_counted(blocking(__func__, group, stream), hymnCollectiveScatter,
                           {sendbuf, recvbuf, counts, nullptr, dtype, 0, root});
}
hymnResult_t hymnIScatterv(const void* sendbuf, const size_t* counts, void* recvbuf,
                           hymnDataType_t dtype, int root, hymnGroup_t group, hymnStream_t stream,
                           hymnWork_t* work) {
  return carry_out_counted(starting(__func__, group, stream, work), hymnCollectiveScatter,
                           {sendbuf, recvbuf, counts, nullptr, dtype, 0, root});
}

hymnResult_t hymnAllGatherv(const void* sendbuf, void* recvbuf, const size_t* counts,
                            hymnDataType_t dtype, hymnGroup_t group, hymnStream_t stream) {
  return carry_out_counted(blocking(__func__, group, stream), hymnCollectiveAllGather,
                           {sendbuf, recvbuf, counts, nullptr, dtype, 0, 0});
}
hymnResult_t hymnIAllGatherv(const void* sendbuf, void* recvbuf, const size_t* counts,
                             hymnDataType_t dtype, hymnGroup_t group, hymnStream_t stream,
                             hymnWork_t* work) {
  return carry_out_counted(starting(__func__, group, stream, work), hymnCollectiveAllGather,
                           {sendbuf, recvbuf, counts, nullptr, dtype, 0, 0});
}

hymnResult_t hymnReduceScatterv(const void* sendbuf, const size_t* counts, void* recvbuf,
                                hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                                hymnStream_t stream) {
  return carry_out_counted(blocking(__func__, group, stream), hymnCollectiveReduceScatter,
                           {sendbuf, recvbuf, counts, nullptr, dtype, op, 0});
}
hymnResult_t hymnIReduceScatterv(const void* sendbuf, const size_t* counts, void* recvbuf,
                                 hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                                 hymnStream_t stream, hymnWork_t* work) {
  return carry_out_counted(starting(__func__, group, stream, work), hymnCollectiveReduceScatter,
                           {sendbuf, recvbuf, counts, nullptr, dtype, op, 0});
}

hymnResult_t hymnAllToAllv(const void* sendbuf, const size_t* sendcounts, void* recvbuf,
                           const size_t* recvcounts, hymnDataType_t dtype, hymnGroup_t group,
                           hymnStream_t stream) {
  return carry_out_counted(blocking(__func__, group, stream), hymnCollectiveAllToAll,
                           {sendbuf, recvbuf, sendcounts, recvcounts, dtype, 0, 0});
}
hymnResult_t hymnIAllToAllv(const void* sendbuf, const size_t* sendcounts, void* recvbuf,
                            const size_t* recvcounts, hymnDataType_t dtype, hymnGroup_t group,
                            hymnStream_t stream, hymnWork_t* work) {
  return carry_out_counted(starting(__func__, group, stream, work), hymnCollectiveAllToAll,
                           {sendbuf, recvbuf, sendcounts, recvcounts, dtype, 0, 0});
}

hymnResult_t hymnCollectiveList(hymnCollective_t collective, const hymnBlock_t* sends,
                                const hymnBlock_t* recvs, hymnDataType_t dtype, hymnOp_t op,
                                int root, hymnGroup_t group, hymnStream_t stream) {
  return carry_out_list(blocking(__func__, group, stream), collective,
                        {sends, recvs, dtype, op, root});
}
hymnResult_t hymnICollectiveList(hymnCollective_t collective, const hymnBlock_t* sends,
                                 const hymnBlock_t* recvs, hymnDataType_t dtype, hymnOp_t op,
                                 int root, hymnGroup_t group, hymnStream_t stream,
                                 hymnWork_t* work) {
  return carry_out_list(starting(__func__, group, stream, work), collective,
                        {sends, recvs, dtype, op, root});
}
