#include "training/reducer_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "hymn/coalesce.hpp"
#include "training/bucket_plan.hpp"
#include "training/model_check.hpp"

namespace hymn::training::detail {
namespace {

void copy(const BufferView& from, const BufferView& to) {
  if (from.data != to.data && from.count != 0) std::memcpy(to.data, from.data, from.bytes());
}
void clear(const BufferView& view) {
  if (view.count != 0) std::memset(view.data, 0, view.bytes());
}

}  // namespace

ReducerState::ReducerState(const Joinable& self, ProcessGroup group,
                           std::vector<Parameter> parameters, ReducerOptions options)
    : self_(self),
      group_(std::move(group)),
      options_(std::move(options)),
      model_(agreed_model(group_, std::move(parameters), options_)),
      marks_(model_->size(), options_.static_graph),
      used_(model_->size(), 1) {
  buckets_ = std::make_unique<BucketQueue>(
      model_,
      plan_buckets(*model_, backward_order(model_->size()), options_.first_bucket_bytes,
                   options_.bucket_bytes),
      options_.hook);
  if (options_.broadcast_parameters) broadcast_parameters(group_.global_rank(0));
}

ErrorContext ReducerState::context(const char* call, const char* remedy) const {
  return {.rank = group_.global_rank(group_.rank()),
          .group = group_.description(),
          .operation = fmt::format("GradientReducer::{}()", call),
          .remedy = remedy};
}

void ReducerState::broadcast_parameters(int root) {
  std::vector<BufferView> values;
  for (std::size_t i = 0; i < model_->size(); ++i) {
    const BufferView& data = (*model_)[i].data;
    values.push_back(data.slice(0, data.count));
  }
  if (!values.empty()) broadcast_coalesced(group_, values, options_.bucket_bytes, root);
}

bool ReducerState::is_unused(std::size_t parameter) const {
  require_parameter(parameter, "is_unused");
  return used_[parameter] == 0;
}

void ReducerState::require_parameter(std::size_t parameter, const char* call) const {
  if (parameter < model_->size()) return;
  throw UsageError(fmt::format("there is no parameter {} among {}", parameter, model_->size()),
                   context(call, "count as in the list that the reducer was given, from 0"));
}

void ReducerState::set_sync(bool on) {
  if (runs_)
    throw UsageError("no_sync begins or ends in the midst of an iteration",
                     context("no_sync", "call finish() first"));
  syncs_ = on;
}

void ReducerState::prepare(std::optional<std::span<const std::size_t>> used) {
  if (runs_)
    throw UsageError("an iteration begins before the last one has ended",
                     context("prepare", "call finish() when all gradients are ready"));
  if (used && !options_.find_unused_parameters)
    throw UsageError("only some parameters are said to take part",
                     context("prepare", "ask for find_unused_parameters, on all ranks"));
  if (used)
    for (const std::size_t parameter : *used) require_parameter(parameter, "prepare");
  reduces_ = is_synced(true);
  if (reduces_) begin_reduction();
  marks_.begin(options_.static_graph ? std::nullopt : used);
  runs_ = true;
  if (!reduces_ || marks_.is_learning()) return;
  for (std::size_t i = 0; i < model_->size(); ++i)
    if (!marks_.takes_part(i)) put_gradient(i);
}

bool ReducerState::is_synced(bool has_input) const {
  if (!Join::is_running(self_)) return syncs_;
  std::uint8_t syncs = has_input && syncs_ ? 1 : 0;
  ProcessGroup(group_).all_reduce(view_of(syncs), ReduceOp::max);
  return syncs != 0;
}

void ReducerState::begin_reduction() {
  const bool is_same_each_time = options_.static_graph || !options_.find_unused_parameters;
  if (!is_rebuilt_ && reductions_ > 0 && is_same_each_time) rebuild_buckets();
  buckets_->begin({.group = group_, .op = Join::average(self_), .divisor = Join::divisor(self_)});
}

void ReducerState::rebuild_buckets() {
  is_rebuilt_ = true;
  std::vector<std::uint64_t> order(first_order_.begin(), first_order_.end());
  for (const std::size_t parameter : backward_order(model_->size()))
    if (std::ranges::find(first_order_, parameter) == first_order_.end())
      order.push_back(parameter);
  if (!order.empty())
    group_.broadcast(BufferView(order), Join::acting_root(self_, group_.global_rank(0)));
  auto rebuilt = std::make_unique<BucketQueue>(
      model_,
      plan_buckets(*model_, std::vector<std::size_t>(order.begin(), order.end()),
                   options_.first_bucket_bytes, options_.bucket_bytes),
      options_.hook);
  if (options_.gradient_as_bucket_view)
    for (std::size_t i = 0; i < model_->size(); ++i)
      copy(buckets_->gradient(i), rebuilt->gradient(i));
  buckets_ = std::move(rebuilt);
}

void ReducerState::ready(std::size_t parameter) {
  require_parameter(parameter, "ready");
  if (!runs_ && options_.gradient_as_bucket_view)
    throw UsageError(
        fmt::format("{} is ready before prepare() has said where its gradient is to be",
                    model_->name_of(parameter)),
        context("ready", "with gradient_as_bucket_view, call prepare() before each backward pass"));
  if (!runs_) prepare({});
  switch (marks_.note(parameter)) {
    case ReadyMarks::Ready::partly:
      break;
    case ReadyMarks::Ready::wholly:
      if (reduces_) put_gradient(parameter);
      break;
    case ReadyMarks::Ready::too_often:
      throw UsageError(
          fmt::format("{} is ready {}", model_->name_of(parameter),
                      marks_.takes_part(parameter) ? "once more than in an iteration"
                                                   : "though it takes no part in this iteration"),
          context("ready",
                  "call finish() after each iteration; static_graph takes several "
                  "backward passes, and checkpoints"));
  }
  if (reduces_) buckets_->step();
}

void ReducerState::put_gradient(std::size_t parameter) {
  const BufferView place = buckets_->gradient(parameter);
  if (!marks_.has_gradient(parameter))
    clear(place);
  else if (!options_.gradient_as_bucket_view)
    copy((*model_)[parameter].gradient, place);
  buckets_->note_ready(parameter);
}

void ReducerState::require_all_ready() {
  const std::vector<std::size_t> missing = marks_.missing();
  if (missing.empty()) return;
  const std::string problem =
      fmt::format("{} {} not ready", model_->names_of(missing), missing.size() == 1 ? "is" : "are");
  // The others wait for what cannot come.
  if (reduces_) group_.abort(problem);
  throw UsageError(problem, context("finish",
                                    "call ready() for each, or say which take part "
                                    "(find_unused_parameters)"));
}

void ReducerState::finish() {
  if (!runs_)
    throw UsageError("no iteration has begun",
                     context("finish", "call prepare(), or ready() for what is ready, before"));
  runs_ = false;
  require_all_ready();
  if (!reduces_) return;
  if (marks_.is_learning()) {
    marks_.learn();
    for (std::size_t i = 0; i < model_->size(); ++i) put_gradient(i);
  }
  if (reductions_ == 0) first_order_ = marks_.order();
  Work asking = ask_who_is_used(marks_.gradients());
  const std::vector<BufferView> results = wait_for_all();
  if (asking.valid()) asking.wait();
  put_back(results);
  marks_.forget_gradients();
  ++reductions_;
}

Work ReducerState::ask_who_is_used(std::span<const std::uint8_t> mine) {
  const bool changes = options_.find_unused_parameters && !options_.static_graph;
  const bool is_learnt_now = options_.static_graph && reductions_ == 0;
  if (mine.empty() || (!changes && !is_learnt_now)) return {};
  used_.assign(mine.begin(), mine.end());
  return group_.all_reduce_async(BufferView(used_), ReduceOp::max);
}

std::vector<BufferView> ReducerState::wait_for_all() {
  std::vector<BufferView> results(buckets_->size());
  std::exception_ptr first;
  for (std::size_t bucket = 0; bucket < results.size(); ++bucket) {
    try {
      results[bucket] = buckets_->wait(bucket);
    } catch (...) {
      // Nothing may be in flight in the buckets when the next iteration begins.
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  return results;
}

void ReducerState::put_back(std::span<const BufferView> results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Bucket& bucket = (*buckets_)[i];
    for (const Slot& slot : bucket.slots()) {
      if (is_unused(slot.parameter)) continue;
      copy(bucket.part(results[i], slot), gradient(slot.parameter));
    }
  }
}

BufferView ReducerState::gradient(std::size_t parameter) const {
  require_parameter(parameter, "gradient");
  return options_.gradient_as_bucket_view ? buckets_->gradient(parameter)
                                          : (*model_)[parameter].gradient;
}

void ReducerState::shadow() {
  if (!is_synced(false)) return;
  begin_reduction();
  for (std::size_t i = 0; i < model_->size(); ++i) {
    clear(buckets_->gradient(i));
    buckets_->note_ready(i);
  }
  Work asking = ask_who_is_used(std::vector<std::uint8_t>(model_->size()));
  wait_for_all();
  if (asking.valid()) asking.wait();
  ++reductions_;
}

}  // namespace hymn::training::detail
