// The C API: collectives over blocks of given sizes, and over one buffer for each rank. As in
// c_api_collectives.cpp, each has one function that builds the request, and two that show it to C.
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
      break;
  }
  throw UsageError(
      fmt::format("the collective {} has no blocks of given sizes", static_cast<int>(collective)),
      {.remedy = "give one of hymnCollective_t that has, or call hymnCoalesced"});
}

}  // namespace hymn::c_api

namespace {

hymnResult_t carry_out_counted(const Call& call, hymnCollective_t collective,
                               const hymnCollectivevCall_t& of) {
  return call.carry_out(
      [&](const ProcessGroup& group) { return request_of(collective, of, group); });
}

using Inputs = std::vector<ConstBufferView>;
using Outputs = std::vector<BufferView>;
using Counts = std::span<const size_t>;

/// One view for each rank, of count_of(group rank) elements.
template <class CountOf>
Inputs input_list(const void* const* bufs, const ProcessGroup& group, CountOf&& count_of,
                  hymnDataType_t dtype) {
  need(bufs, "sendbufs");
  Inputs views;
  for (int i = 0; i < group.size(); ++i) views.push_back(input(bufs[i], count_of(i), dtype));
  return views;
}
template <class CountOf>
Outputs output_list(void* const* bufs, const ProcessGroup& group, CountOf&& count_of,
                    hymnDataType_t dtype) {
  need(bufs, "recvbufs");
  Outputs views;
  for (int i = 0; i < group.size(); ++i) views.push_back(output(bufs[i], count_of(i), dtype));
  return views;
}
auto each(size_t count) {
  return [count](int) { return count; };
}
auto from(Counts counts) {
  return [counts](int rank) { return counts[static_cast<size_t>(rank)]; };
}

bool is_root(const ProcessGroup& group, int root) {
  return group.is_member() && group.global_rank(group.rank()) == root;
}

hymnResult_t gather_list(const Call& call, const void* sendbuf, void* const* recvbufs, size_t count,
                         hymnDataType_t dtype, int root) {
  Outputs views;
  return call.carry_out([&](const ProcessGroup& group) {
    const OutputBlocks none;
    if (!is_root(group, root)) return Request::gather(input(sendbuf, count, dtype), none, root);
    views = output_list(recvbufs, group, each(count), dtype);
    return Request::gather(input(sendbuf, count, dtype), OutputBlocks::list(views), root);
  });
}

hymnResult_t scatter_list(const Call& call, const void* const* sendbufs, void* recvbuf,
                          size_t count, hymnDataType_t dtype, int root) {
  Inputs views;
  return call.carry_out([&](const ProcessGroup& group) {
    const InputBlocks none;
    if (!is_root(group, root)) return Request::scatter(none, output(recvbuf, count, dtype), root);
    views = input_list(sendbufs, group, each(count), dtype);
    return Request::scatter(InputBlocks::list(views), output(recvbuf, count, dtype), root);
  });
}

hymnResult_t all_gather_list(const Call& call, const void* sendbuf, void* const* recvbufs,
                             size_t count, hymnDataType_t dtype) {
  Outputs views;
  return call.carry_out([&](const ProcessGroup& group) {
    views = output_list(recvbufs, group, each(count), dtype);
    return Request::all_gather(input(sendbuf, count, dtype), OutputBlocks::list(views));
  });
}

hymnResult_t reduce_scatter_list(const Call& call, const void* const* sendbufs, void* recvbuf,
                                 size_t count, hymnDataType_t dtype, hymnOp_t op) {
  Inputs views;
  return call.carry_out([&](const ProcessGroup& group) {
    views = input_list(sendbufs, group, each(count), dtype);
    return Request::reduce_scatter(InputBlocks::list(views), output(recvbuf, count, dtype),
                                   reduce_op(op));
  });
}

hymnResult_t all_to_all_list(const Call& call, const void* const* sendbufs,
                             const size_t* sendcounts, void* const* recvbufs,
                             const size_t* recvcounts, hymnDataType_t dtype) {
  Inputs in;
  Outputs out;
  return call.carry_out([&](const ProcessGroup& group) {
    in = input_list(sendbufs, group, from(counts_of(sendcounts, group, "sendcounts")), dtype);
    out = output_list(recvbufs, group, from(counts_of(recvcounts, group, "recvcounts")), dtype);
    return Request::all_to_all(InputBlocks::list(in), OutputBlocks::list(out));
  });
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

hymnResult_t hymnGatherList(const void* sendbuf, void* const* recvbufs, size_t count,
                            hymnDataType_t dtype, int root, hymnGroup_t group,
                            hymnStream_t stream) {
  return gather_list(blocking(__func__, group, stream), sendbuf, recvbufs, count, dtype, root);
}
hymnResult_t hymnIGatherList(const void* sendbuf, void* const* recvbufs, size_t count,
                             hymnDataType_t dtype, int root, hymnGroup_t group, hymnStream_t stream,
                             hymnWork_t* work) {
  return gather_list(starting(__func__, group, stream, work), sendbuf, recvbufs, count, dtype,
                     root);
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

hymnResult_t hymnScatterList(const void* const* sendbufs, void* recvbuf, size_t count,
                             hymnDataType_t dtype, int root, hymnGroup_t group,
                             hymnStream_t stream) {
  return scatter_list(blocking(__func__, group, stream), sendbufs, recvbuf, count, dtype, root);
}
hymnResult_t hymnIScatterList(const void* const* sendbufs, void* recvbuf, size_t count,
                              hymnDataType_t dtype, int root, hymnGroup_t group,
                              hymnStream_t stream, hymnWork_t* work) {
  return scatter_list(starting(__func__, group, stream, work), sendbufs, recvbuf, count, dtype,
                      root);
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

hymnResult_t hymnAllGatherList(const void* sendbuf, void* const* recvbufs, size_t count,
                               hymnDataType_t dtype, hymnGroup_t group, hymnStream_t stream) {
  return all_gather_list(blocking(__func__, group, stream), sendbuf, recvbufs, count, dtype);
}
hymnResult_t hymnIAllGatherList(const void* sendbuf, void* const* recvbufs, size_t count,
                                hymnDataType_t dtype, hymnGroup_t group, hymnStream_t stream,
                                hymnWork_t* work) {
  return all_gather_list(starting(__func__, group, stream, work), sendbuf, recvbufs, count, dtype);
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

hymnResult_t hymnReduceScatterList(const void* const* sendbufs, void* recvbuf, size_t count,
                                   hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                                   hymnStream_t stream) {
  return reduce_scatter_list(blocking(__func__, group, stream), sendbufs, recvbuf, count, dtype,
                             op);
}
hymnResult_t hymnIReduceScatterList(const void* const* sendbufs, void* recvbuf, size_t count,
                                    hymnDataType_t dtype, hymnOp_t op, hymnGroup_t group,
                                    hymnStream_t stream, hymnWork_t* work) {
  return reduce_scatter_list(starting(__func__, group, stream, work), sendbufs, recvbuf, count,
                             dtype, op);
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

hymnResult_t hymnAllToAllList(const void* const* sendbufs, const size_t* sendcounts,
                              void* const* recvbufs, const size_t* recvcounts, hymnDataType_t dtype,
                              hymnGroup_t group, hymnStream_t stream) {
  return all_to_all_list(blocking(__func__, group, stream), sendbufs, sendcounts, recvbufs,
                         recvcounts, dtype);
}
hymnResult_t hymnIAllToAllList(const void* const* sendbufs, const size_t* sendcounts,
                               void* const* recvbufs, const size_t* recvcounts,
                               hymnDataType_t dtype, hymnGroup_t group, hymnStream_t stream,
                               hymnWork_t* work) {
  return all_to_all_list(starting(__func__, group, stream, work), sendbufs, sendcounts, recvbufs,
                         recvcounts, dtype);
}
