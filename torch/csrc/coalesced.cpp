// The backend "hymn": several calls as one.
#include <hymn/hymn_coalesced.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "backend.hpp"
#include "errors.hpp"

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

struct Span {
  std::uintptr_t begin;
  std::uintptr_t end;
  bool is_written;
};

void add_span(std::vector<Span>& spans, const at::Tensor& tensor, bool is_written) {
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  if (tensor.is_contiguous() && tensor.nbytes() > 0)
    spans.push_back({begin, begin + tensor.nbytes(), is_written});
}

/// What hymn finds among calls of one type: memory that one writes and another one uses. Tensors
/// that are not contiguous are copied.
void require_apart(const Tensors& outputs, const Tensors& inputs, const char* call) {
  std::vector<Span> spans;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    add_span(spans, outputs[i], true);
    if (!inputs[i].is_alias_of(outputs[i])) add_span(spans, inputs[i], false);
  }
  std::sort(spans.begin(), spans.end(),
            [](const Span& one, const Span& other) { return one.begin < other.begin; });
  std::uintptr_t used = 0;
  std::uintptr_t written = 0;
  for (const Span& span : spans) {
    if (span.begin < written || (span.is_written && span.begin < used))
      throw_value_error(std::string("hymn: ") + call + ": one call writes what another one uses");
    used = std::max(used, span.end);
    if (span.is_written) written = std::max(written, span.end);
  }
}

/// Whatever would be refused once those of the first type have been sent.
void require_all(Call& call, hymnCollective_t collective, const Calls& calls,
                 const Tensors& outputs, const Tensors& inputs) {
  std::set<hymnDataType_t> types;
  for (const hymnCollectiveCall_t& each : calls) types.insert(each.dtype);
  if (types.size() == 1) return;
  require_apart(outputs, inputs, call.name());
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
      return hymnICoalesced(collective, alike.data(), alike.size(), call.group(), nullptr, work);
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
