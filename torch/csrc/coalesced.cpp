// The backend "hymn": several calls as one.
#include <hymn/hymn_coalesced.h>

#include <set>
#include <utility>

#include "backend.hpp"
#include "errors.hpp"
#include "spans.hpp"

namespace hymn_torch {
namespace {

using Calls = std::vector<hymnCollectiveCall_t>;

hymnResult_t start_one(hymnCollective_t collective, const hymnCollectiveCall_t& one,
                       hymnGroup_t group, hymnWork_t* work) {
  switch (collective) {
    case hymnCollectiveAllReduce:
      return hymnIAllReduce(one.sendbuf, one.recvbuf, one.count, one.dtype, one.op, group, nullptr,
                            work);
    case hymnCollectiveAllGather:
      return hymnIAllGather(one.sendbuf, one.recvbuf, one.count, one.dtype, group, nullptr, work);
    default:
      return hymnIReduceScatter(one.sendbuf, one.recvbuf, one.count, one.dtype, one.op, group,
                                nullptr, work);
  }
}

/// Where the smaller one of a call's buffers lies within the other, in a call in place.
bool is_in_place(const char* from, std::size_t from_bytes, const char* to, std::size_t to_bytes,
                 std::size_t rank) {
  if (from_bytes == to_bytes) return from == to;
  return from_bytes < to_bytes ? from == to + rank * from_bytes : to == from + rank * to_bytes;
}

/// What hymn finds among calls of one type, and in each of them: memory that one writes and another
/// one uses. Tensors that are not contiguous were copied.
void require_apart(const Call& call, const Calls& calls, const Tensors& outputs,
                   const Tensors& inputs) {
  Spans spans;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto* const from = static_cast<const char*>(calls[i].sendbuf);
    const auto* const to = static_cast<const char*>(calls[i].recvbuf);
    const std::size_t from_bytes = inputs[i].nbytes();
    const std::size_t to_bytes = outputs[i].nbytes();
    spans.add_written(to, to_bytes);
    if (is_in_place(from, from_bytes, to, to_bytes, call.rank()))
      spans.add_read_around(from, from_bytes, to, to_bytes);
    else
      spans.add_read(from, from_bytes);
  }
  if (!spans.are_apart())
    throw_value_error(std::string("hymn: ") + call.name() +
                      ": one call writes what another one uses");
}

/// Whatever would be refused once those of the first type have been sent.
void require_all(Call& call, hymnCollective_t collective, const Calls& calls,
                 const Tensors& outputs, const Tensors& inputs) {
  std::set<hymnDataType_t> types;
  for (const hymnCollectiveCall_t& each : calls) types.insert(each.dtype);
  if (types.size() == 1) return;
  require_apart(call, calls, outputs, inputs);
  if (collective == hymnCollectiveAllGather) return;
  for (const hymnDataType_t type : types) call.require_reduction(type, calls.front().op);
}

/// Starts them, those of one type together: hymn's coalesced calls are alike. Between the beginning
/// and the end of coalescing they are gathered one by one.
Backend::WorkPtr run(Call& call, hymnCollective_t collective, Calls calls, const Tensors& outputs,
                     const Tensors& inputs) {
  if (call.is_gathered()) {
    for (const hymnCollectiveCall_t& one : calls)
      call.start([&](hymnWork_t* work) { return start_one(collective, one, call.group(), work); });
    return call.work();
  }
  require_all(call, collective, calls, outputs, inputs);
  while (!calls.empty()) {
    Calls alike, others;
    for (const hymnCollectiveCall_t& each : calls)
      (each.dtype == calls.front().dtype ? alike : others).push_back(each);
    call.start([&](hymnWork_t* work) {
      return hymnICoalesced(collective, alike.data(), alike.size(), call.group(), call.stream(),
                            work);
    });
    calls = std::move(others);
  }
  return call.work();
}

void require_pairs(const Tensors& outputs, const Tensors& inputs, const char* call) {
  if (outputs.empty() || outputs.size() != inputs.size())
    throw_value_error(std::string("hymn: ") + call + " takes as many inputs as outputs, not none");
}

}  // namespace

Backend::WorkPtr Backend::allreduce_coalesced(Tensors& tensors,
                                              const c10d::AllreduceCoalescedOptions& options) {
  Call call(*this, c10d::OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced",
            "hymn:all_reduce_coalesced", &tensors, options.timeout);
  require_pairs(tensors, tensors, call.name());
  const hymnOp_t op = reduction(options.reduceOp, call.name());
  Calls calls;
  for (const at::Tensor& tensor : tensors) {
    const std::size_t count = count_of(tensor, call.name());
    const auto type = reduced_type(tensor.scalar_type(), call.name());
    void* const data = call.buffers().in_place(tensor);
    call.operation().add_result(tensor);
    calls.push_back({data, data, count, type, op, 0});
  }
  return run(call, hymnCollectiveAllReduce, std::move(calls), tensors, tensors);
}

Backend::WorkPtr Backend::HYMN_TORCH_ALL_GATHER_SINGLES(Tensors& outputs, Tensors& inputs,
                                                        const c10d::AllgatherOptions& options) {
  Call call(*this, c10d::OpType::COALESCED, "all_gather_into_tensor_coalesced",
            "hymn:all_gather_into_tensor_coalesced", &inputs, options.timeout);
  require_pairs(outputs, inputs, call.name());
  Calls calls;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t count = count_of(inputs[i], call.name());
    if (count_of(outputs[i], call.name()) != count * call.size())
      throw_value_error(
          "hymn: all_gather_into_tensor_coalesced: an output must have as many "
          "elements as the inputs of all ranks");
    const auto type = moved_type(type_of(outputs[i], {inputs[i]}, call.name()), call.name());
    const void* const from = call.buffers().input(inputs[i]);
    void* const to = call.buffers().output(outputs[i]);
    call.operation().add_result(outputs[i]);
    calls.push_back({from, to, count, type, hymnSum, 0});
  }
  return run(call, hymnCollectiveAllGather, std::move(calls), outputs, inputs);
}

Backend::WorkPtr Backend::HYMN_TORCH_REDUCE_SCATTER_SINGLES(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  Call call(*this, c10d::OpType::COALESCED, "reduce_scatter_tensor_coalesced",
            "hymn:reduce_scatter_tensor_coalesced", &inputs, options.timeout);
  require_pairs(outputs, inputs, call.name());
  const hymnOp_t op = reduction(options.reduceOp, call.name());
  Calls calls;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t count = count_of(outputs[i], call.name());
    if (count_of(inputs[i], call.name()) != count * call.size())
      throw_value_error(
          "hymn: reduce_scatter_tensor_coalesced: an input must have as many "
          "elements as the outputs of all ranks");
    const auto type = reduced_type(type_of(outputs[i], {inputs[i]}, call.name()), call.name());
    const void* const from = call.buffers().input(inputs[i]);
    void* const to = call.buffers().output(outputs[i]);
    call.operation().add_result(outputs[i]);
    calls.push_back({from, to, count, type, op, 0});
  }
  return run(call, hymnCollectiveReduceScatter, std::move(calls), outputs, inputs);
}

// Calls of this thread are gathered by hymn; all of them are one operation here, too.
void Backend::cancel_coalescing() {
  gathers_on_ = std::thread::id();
  std::exchange(gathered_, nullptr)->cancel();
}

// An exception in between may have left the last calls without an end.
void Backend::startCoalescing() {
  if (gathers_here()) {
    cancel_coalescing();
    check(hymnCoalesceCancel(group()));
  }
  check(hymnCoalesceBegin(group(), nullptr));
  gathered_ = std::make_shared<Operation>();
  gathered_->set_gathering(true);
  gathered_->set_limit(group_->limit());
  gathers_on_ = std::this_thread::get_id();
}

Backend::WorkPtr Backend::endCoalescing() {
  if (!gathers_here())
    throw_value_error("hymn: the end of coalescing without its beginning on this thread");
  hymnWork_t work = nullptr;
  const PythonSite site;
  std::shared_ptr<PendingOperation> pending = make_pending();
  const hymnResult_t ended = hymnICoalesceEnd(group(), &work);
  if (ended != hymnSuccess) {
    const std::string text = hymnGetLastError();
    cancel_coalescing();
    throw_error(ended, text);
  }
  gathers_on_ = std::thread::id();
  const std::shared_ptr<Operation> gathered = std::exchange(gathered_, nullptr);
  if (gathered->has_gathered())
    gathered->add_work(work);
  else
    hymnWorkFree(work);  // nothing to wait for
  // Other threads that have one of the calls may see its end from when it is not gathered any more.
  WorkPtr all = make_work(c10d::OpType::COALESCED, "hymn:coalesced", std::nullopt, gathered,
                          std::move(pending));
  gathered->set_gathering(false);
  return all;
}

}  // namespace hymn_torch
