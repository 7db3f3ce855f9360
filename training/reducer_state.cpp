#include "training/reducer_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "hymn/gradient_hooks.hpp"
#include "training/bucket_plan.hpp"
#include "training/model_check.hpp"

namespace hymn::training::detail {

ReducerState::ReducerState(Joinable& self, ProcessGroup group, std::vector<Parameter> parameters,
                           ReducerOptions options)
    : self_(self),
      group_(std::move(group)),
      options_(std::move(options)),
      model_(agreed_model(group_, std::move(parameters), options_)),
      places_(std::make_shared<const GradientPlaces>(group_, model_->gpus(), options_.stream)),
      backward_order_(backward_order(*model_)),
      marks_(model_->size(), options_.static_graph),
      hook_(std::make_shared<const CommHook>(options_.hook ? options_.hook : all_reduce_hook())),
      sparse_(*model_),
      used_(std::make_shared<std::vector<std::uint8_t>>(model_->size(), std::uint8_t{1})) {
  give_up_if_fails([this] {
    buckets_ = make_buckets(backward_order_);
    if (options_.broadcast_parameters)
      broadcast_model(group_.global_rank(0));
    else
      broadcast_buffers();
    places_->settle();
  });
}

ReducerState::~ReducerState() {
  try {
    // Others wait for this rank, and the framework's streams would wait for them.
    if (places_->gpus() > 0 && runs_ && reduces_)
      places_->abort("the reducer of a rank has ended in the midst of an iteration");
  } catch (...) {  // NOLINT: the group may be gone
  }
  for (const auto& buckets : {&buckets_, &old_buckets_})
    if (*buckets) (*buckets)->abandon();
  try {
    // Gradients may have been used in buckets.
    places_->hand_over();
    places_->settle();
    places_->end();
  } catch (...) {  // NOLINT: the driver may be gone, and the group
  }
}

template <class Do>
void ReducerState::give_up_if_fails(Do reduce) {
  try {
    reduce();
  } catch (...) {
    std::string reason = "the reduction of gradients has failed";
    try {
      throw;
    } catch (const Error& error) {
      reason += ": " + error.problem();
    } catch (const std::exception& error) {
      reason += ": " + std::string(error.what());
    } catch (...) {  // what it is nobody can say
    }
    places_->abort(reason);
    if (buckets_) buckets_->abandon();
    throw;
  }
}

std::unique_ptr<BucketQueue> ReducerState::make_buckets(std::span<const std::size_t> order) const {
  return std::make_unique<BucketQueue>(
      model_, *places_,
      plan_buckets(*model_, order, options_.first_bucket_bytes, options_.bucket_bytes), hook_);
}

ErrorContext ReducerState::context(const char* call, const char* remedy) const {
  return {.rank = group_.global_rank(group_.rank()),
          .group = group_.description(),
          .operation = fmt::format("GradientReducer::{}()", call),
          .remedy = remedy};
}

void ReducerState::broadcast_model(int root) { broadcast(true, root); }

void ReducerState::broadcast_buffers() {
  if (!model_->buffers().empty()) broadcast(false, Join::acting_root(self_, group_.global_rank(0)));
}

void ReducerState::broadcast(bool with_parameters, int root) {
  for (int gpu = -1; gpu < places_->gpus(); ++gpu) {
    std::vector<BufferView> values;
    for (std::size_t i = 0; i < model_->buffers().size(); ++i)
      if (model_->gpu_of_buffer(i) == gpu) values.push_back(model_->buffers()[i]);
    for (std::size_t i = 0; with_parameters && i < model_->size(); ++i) {
      const BufferView& data = (*model_)[i].data;
      if (model_->gpu_of(i) == gpu) values.push_back(data.slice(0, data.count));
    }
    if (!values.empty()) (*places_)[gpu]->broadcast(values, options_.bucket_bytes, root);
  }
}

bool ReducerState::is_unused(std::size_t parameter) const {
  require_parameter(parameter, "is_unused");
  return (*used_)[parameter] == 0;
}

void ReducerState::require_parameter(std::size_t parameter, const char* call) const {
  if (parameter < model_->size()) return;
  throw UsageError(fmt::format("there is no parameter {} among {}", parameter, model_->size()),
                   context(call, "count as in the list that the reducer was given, from 0"));
}

void ReducerState::require_kind(std::size_t parameter, bool sparse, const char* call) const {
  require_parameter(parameter, call);
  if (model_->is_sparse(parameter) == sparse) return;
  throw UsageError(fmt::format("the gradient of {} is {}", model_->name_of(parameter),
                               sparse ? "dense" : "sparse"),
                   context(call, sparse ? "say so when the reducer is made (Parameter::sparse_dims)"
                                        : "give it to ready(), and ask for sparse_gradient()"));
}

void ReducerState::require_idle(const char* what, const char* call) const {
  if (runs_)
    throw UsageError(fmt::format("{} in the midst of an iteration", what),
                     context(call, "call finish() first"));
}

void ReducerState::hold_sync() {
  require_idle("no_sync begins", "no_sync");
  ++holds_;
}

void ReducerState::set_sparse_metadata(std::size_t parameter,
                                       std::span<const std::int64_t> indices) {
  constexpr const char* call = "set_sparse_metadata";
  require_kind(parameter, true, call);
  require_idle("indices are declared", call);
  sparse_.declare(parameter, {indices.begin(), indices.end()});
}

void ReducerState::require_may_begin(std::optional<std::span<const std::size_t>> used) const {
  if (runs_)
    throw UsageError("an iteration begins before the last one has ended",
                     context("prepare", "call finish() when all gradients are ready"));
  if (used && !options_.find_unused_parameters)
    throw UsageError("only some parameters are said to take part",
                     context("prepare", "ask for find_unused_parameters, on all ranks"));
  if (used)
    for (const std::size_t parameter : *used) require_parameter(parameter, "prepare");
}

// What is wrong with the call is found before the others hear of an iteration.
void ReducerState::prepare(std::optional<std::span<const std::size_t>> used) {
  require_may_begin(used);
  Join::notify(self_);
  give_up_if_fails([&] { begin(used); });
}

void ReducerState::begin(std::optional<std::span<const std::size_t>> used) {
  reduces_ = is_synced(true);
  if (reduces_) begin_reduction();
  leave_old_buckets();
  marks_.begin(options_.static_graph ? std::nullopt : used);
  runs_ = true;
  if (!reduces_ || marks_.is_learning()) return;
  for (std::size_t i = 0; i < model_->size(); ++i)
    if (!marks_.takes_part(i)) put_gradient(i);
}

bool ReducerState::is_synced(bool has_input) const {
  const bool syncs = holds_ == 0;
  if (!Join::is_running(self_)) return syncs;
  std::uint8_t any = has_input && syncs ? 1 : 0;
  ProcessGroup(group_).all_reduce(view_of(any), ReduceOp::max);
  return any != 0;
}

void ReducerState::begin_reduction() {
  const bool is_same_each_time = options_.static_graph || !options_.find_unused_parameters;
  if (!is_rebuilt_ && reductions_ > 0 && is_same_each_time) rebuild_buckets();
  buckets_->begin({.places = places_, .op = Join::average(self_), .divisor = Join::divisor(self_)});
}

void ReducerState::rebuild_buckets() {
  std::vector<std::size_t> order = first_order_;
  std::erase_if(order, [this](std::size_t parameter) { return model_->is_sparse(parameter); });
  for (const std::size_t parameter : backward_order_)
    if (std::ranges::find(first_order_, parameter) == first_order_.end())
      order.push_back(parameter);
  static_assert(sizeof(std::size_t) == sizeof(std::uint64_t));
  if (!order.empty())
    group_.broadcast(BufferView(order.data(), order.size(), DataType::uint64),
                     Join::acting_root(self_, group_.global_rank(0)));
  std::unique_ptr<BucketQueue> rebuilt = make_buckets(order);
  old_buckets_ = std::exchange(buckets_, std::move(rebuilt));
  is_rebuilt_ = true;
}

// The framework knows only since prepare() that they are left: a rank that has run out of input
// makes others while it shadows.
void ReducerState::leave_old_buckets() {
  if (!old_buckets_) return;
  if (options_.gradient_as_bucket_view)
    for (const std::size_t i : backward_order_)
      place_of(i).copy(old_buckets_->gradient(i), buckets_->gradient(i));
  places_->settle();
  old_buckets_.reset();
}

void ReducerState::ready(std::size_t parameter) {
  require_kind(parameter, false, "ready");
  note_ready(parameter);
}

void ReducerState::ready(std::size_t parameter, const SparseView& gradient) {
  require_kind(parameter, true, "ready");
  sparse_.give(*model_, parameter, gradient);
  note_ready(parameter);
}

void ReducerState::note_ready(std::size_t parameter) {
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
      if (reduces_) give_up_if_fails([&] { put_gradient(parameter); });
      break;
    case ReadyMarks::Ready::too_often:
      throw UsageError(
          fmt::format("{} is ready {}", model_->name_of(parameter),
                      marks_.takes_part(parameter) ? "once more than in an iteration"
                                                   : "though it takes no part in this iteration"),
          context("ready",
                  "end each iteration before the next; static_graph takes several backward "
                  "passes, and checkpoints"));
  }
  if (reduces_) buckets_->step();
}

void ReducerState::put_gradient(std::size_t parameter) {
  if (model_->is_sparse(parameter)) return;
  const BufferView place = buckets_->gradient(parameter);
  place_of(parameter).touch();
  if (!marks_.has_gradient(parameter))
    place_of(parameter).clear(place);
  else if (!options_.gradient_as_bucket_view)
    place_of(parameter).copy((*model_)[parameter].gradient, place);
  buckets_->note_ready(parameter);
}

void ReducerState::put_what_is_left(std::size_t parameter) {
  const BufferView place = buckets_->gradient(parameter);
  place_of(parameter).touch();
  if (!marks_.has_gradient(parameter))
    place_of(parameter).clear(place);
  else if (!options_.gradient_as_bucket_view)
    place_of(parameter).copy((*model_)[parameter].gradient, place);
  else if (old_buckets_)
    place_of(parameter).copy(old_buckets_->gradient(parameter), place);
  buckets_->note_ready(parameter);
}

void ReducerState::require_all_ready() {
  const std::vector<std::size_t> missing = marks_.missing();
  if (missing.empty()) return;
  const std::string problem =
      fmt::format("{} {} not ready", model_->names_of(missing), missing.size() == 1 ? "is" : "are");
  // The others wait for what cannot come.
  if (reduces_) places_->abort(problem);
  throw UsageError(problem, context("finish",
                                    "each that takes part is to be ready; with "
                                    "find_unused_parameters not all take part"));
}

void ReducerState::finish() {
  if (!runs_)
    throw UsageError("no iteration has begun",
                     context("finish", "call prepare(), or ready() for what is ready, before"));
  runs_ = false;
  require_all_ready();
  if (!reduces_) return;
  give_up_if_fails([this] { reduce_the_rest(); });
}

void ReducerState::reduce_the_rest() {
  if (marks_.is_learning()) {
    marks_.learn();
    for (std::size_t i = 0; i < model_->size(); ++i) put_gradient(i);
  }
  if (reductions_ == 0) first_order_ = marks_.order();
  const auto mine = marks_.gradients();
  ask_who_is_used({mine.begin(), mine.end()});
  put_back(buckets_->wait());
  places_->settle();
  sparse_.reduce(buckets_->averaging());
  marks_.forget_gradients();
  ++reductions_;
  broadcast_buffers();
}

void ReducerState::ask_who_is_used(std::vector<std::uint8_t> mine) {
  const bool changes = options_.find_unused_parameters && !options_.static_graph;
  const bool is_learnt_now = options_.static_graph && reductions_ == 0;
  if (mine.empty() || (!changes && !is_learnt_now)) return;
  *used_ = std::move(mine);
  buckets_->note({group_.all_reduce_async(BufferView(*used_), ReduceOp::max), used_});
}

void ReducerState::put_back(std::span<const BufferView> results) {
  places_->hand_over();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Bucket& bucket = (*buckets_)[i];
    for (const Slot& slot : bucket.slots()) {
      if (is_unused(slot.parameter)) continue;
      bucket.place().copy(bucket.part(results[i], slot), gradient(slot.parameter));
    }
  }
}

const SparseTensor& ReducerState::sparse_gradient(std::size_t parameter) const {
  require_kind(parameter, true, "sparse_gradient");
  return sparse_.average(parameter);
}

BufferView ReducerState::gradient(std::size_t parameter) const {
  require_kind(parameter, false, "gradient");
  return options_.gradient_as_bucket_view ? buckets_->gradient(parameter)
                                          : (*model_)[parameter].gradient;
}

std::shared_ptr<void> ReducerState::gradient_owner(std::size_t parameter) const {
  require_kind(parameter, false, "gradient_owner");
  return options_.gradient_as_bucket_view ? buckets_->memory_of(parameter) : nullptr;
}

void ReducerState::shadow() {
  if (!is_synced(false)) return;
  begin_reduction();
  for (const std::size_t i : backward_order_) put_what_is_left(i);
  // A static graph is asked for once: what this rank will use is not known.
  const auto left = marks_.gradients();
  ask_who_is_used(options_.static_graph ? std::vector<std::uint8_t>(model_->size(), 1)
                                        : std::vector<std::uint8_t>(left.begin(), left.end()));
  buckets_->wait();
  places_->hand_over();
  places_->settle();
  sparse_.reduce(buckets_->averaging());
  marks_.forget_gradients();
  ++reductions_;
  broadcast_buffers();
}

}  // namespace hymn::training::detail
