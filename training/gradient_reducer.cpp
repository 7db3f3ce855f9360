#include "hymn/gradient_reducer.hpp"

#include "training/reducer_state.hpp"

namespace hymn::training {
namespace {

class ReducerHook final : public JoinHook {
 public:
  explicit ReducerHook(detail::ReducerState& state) : state_(state) {}

  void main_hook() override { state_.shadow(); }
  // Who has run out earlier has not taken the steps of its optimizer.
  void post_hook(bool is_last_joiner) override {
    ProcessGroup group = state_.group();
    std::int32_t root = is_last_joiner ? group.rank() : -1;
    group.all_reduce(view_of(root), ReduceOp::max);
    state_.broadcast_model(group.global_rank(root));
  }

 private:
  detail::ReducerState& state_;
};

}  // namespace

GradientReducer::GradientReducer(ProcessGroup group, std::vector<Parameter> parameters,
                                 ReducerOptions options)
    : state_(std::make_unique<detail::ReducerState>(*this, std::move(group), std::move(parameters),
                                                    std::move(options))) {}
GradientReducer::~GradientReducer() = default;

void GradientReducer::prepare() { state_->prepare({}); }
void GradientReducer::prepare(std::span<const std::size_t> used) { state_->prepare(used); }
void GradientReducer::ready(std::size_t parameter) { state_->ready(parameter); }
void GradientReducer::ready(std::size_t parameter, const SparseView& gradient) {
  state_->ready(parameter, gradient);
}
void GradientReducer::set_sparse_metadata(std::size_t parameter,
                                          std::span<const std::int64_t> indices) {
  state_->set_sparse_metadata(parameter, indices);
}
void GradientReducer::finish() { state_->finish(); }

BufferView GradientReducer::gradient(std::size_t parameter) const {
  return state_->gradient(parameter);
}
const SparseTensor& GradientReducer::sparse_gradient(std::size_t parameter) const {
  return state_->sparse_gradient(parameter);
}
std::shared_ptr<void> GradientReducer::gradient_owner(std::size_t parameter) const {
  return state_->gradient_owner(parameter);
}
bool GradientReducer::is_complete() const { return state_->is_complete(); }
bool GradientReducer::is_unused(std::size_t parameter) const {
  return state_->is_unused(parameter);
}

std::vector<std::vector<std::size_t>> GradientReducer::buckets() const {
  std::vector<std::vector<std::size_t>> buckets(state_->buckets().size());
  for (std::size_t i = 0; i < buckets.size(); ++i)
    for (const detail::Slot& slot : state_->buckets()[i].slots())
      buckets[i].push_back(slot.parameter);
  return buckets;
}

void GradientReducer::hold_sync() { state_->hold_sync(); }
void GradientReducer::release_sync() noexcept { state_->release_sync(); }

std::unique_ptr<JoinHook> GradientReducer::join_hook(const JoinArguments&) {
  return std::make_unique<ReducerHook>(*state_);
}
ProcessGroup GradientReducer::join_group() const { return state_->group(); }

}  // namespace hymn::training
