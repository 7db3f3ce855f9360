// What DistributedDataParallel does beside the module: between the autograd of libtorch and a
// gradient reducer of hymn's. Programs include hymn/torch.hpp.
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "hymn/hymn_training.h"
#include "hymn/torch_group.hpp"
#include "hymn/torch_options.hpp"
#include "hymn/torch_outputs.hpp"
#include "hymn/torch_parameters.hpp"
#include "hymn/torch_pass.hpp"
#include "hymn/torch_sparse.hpp"
#include "hymn/torch_tensors.hpp"

namespace hymn::torch {

namespace detail {

using Node = ::torch::autograd::Node;
/// A pointer, of one kind or another.
using Accumulator =
    decltype(::torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

/// One parameter as autograd knows it.
struct Leaf {
  std::string name;
  at::Tensor variable;
  bool is_sparse = false;                 ///< its gradient
  at::Tensor values = variable.detach();  ///< as they lay when the wrapper was made
  Accumulator accumulator{};              // lives only as long as somebody holds it
  std::uintptr_t hook = 0;
  at::Tensor view{};  ///< of its place in a bucket; a sparse one has none
};

/// Which leaves an output depends on.
class Reachable {
 public:
  void add(Node* accumulator, std::size_t leaf) { leaves_.emplace(accumulator, leaf); }

  std::vector<std::size_t> from(const Tensors& outputs) const {
    std::vector<std::size_t> found;
    std::unordered_set<Node*> seen;
    std::vector<Node*> open;
    const auto visit = [&](Node* node) {
      if (node == nullptr || !seen.insert(node).second) return;
      open.push_back(node);
      if (const auto leaf = leaves_.find(node); leaf != leaves_.end())
        found.push_back(leaf->second);
    };
    // What nothing else holds lives as long as its edge.
    std::vector<::torch::autograd::Edge> ends;
    for (const at::Tensor& output : outputs)
      if (output.requires_grad()) {
        ends.push_back(::torch::autograd::impl::gradient_edge(output));
        visit(ends.back().function.get());
      }
    while (!open.empty()) {
      Node* const node = open.back();
      open.pop_back();
      for (const auto& edge : node->next_edges()) visit(edge.function.get());
    }
    return found;
  }

 private:
  std::unordered_map<Node*, std::size_t> leaves_;
};

/// A tensor where the reducer keeps that gradient, which it holds for as long as it lives: the last
/// one, where that has not moved.
inline at::Tensor bucket_view(hymnGradientReducer_t reducer, std::size_t index,
                              const at::Tensor& variable, const at::Tensor& last) {
  void* data = nullptr;
  check_own(hymnGradientReducerGradient(reducer, index, &data, nullptr));
  if (last.defined() && last.data_ptr() == data) return last;
  hymnGradMemory_t memory = nullptr;
  check_own(hymnGradientReducerGradient(reducer, index, &data, &memory));
  return at::from_blob(
      data, variable.sizes(), variable.strides(), [memory](void*) { hymnGradMemoryFree(memory); },
      variable.options().requires_grad(false));
}

inline hymnParameter_t parameter_of(const std::string& name, const at::Tensor& tensor,
                                    bool has_sparse_gradient = false) {
  hymnParameter_t parameter = HYMN_PARAMETER_INIT;
  parameter.sparse_dimensions = has_sparse_gradient ? 1 : 0;
  parameter.name = name.c_str();
  parameter.data = tensor.data_ptr();
  parameter.dtype = data_type_of(tensor.scalar_type());
  parameter.shape = tensor.sizes().data();
  parameter.strides = tensor.strides().data();
  parameter.dimensions = tensor.sizes().size();
  return parameter;
}

/// The reducer always keeps gradients in its buckets: autograd may put a new tensor in the place
/// of a gradient at any time, which is copied there when it is ready. Called by one thread at a
/// time, but for what autograd calls.
class TorchReducer {
 public:
  TorchReducer(const NamedTensors& parameters, const NamedTensors& buffers, const Group& group,
               const DdpOptions& options)
      : options_(options), group_(group) {
    together(group, [&] {
      require_apart(parameters);
      for (const NamedTensor& each : require_devices(parameters, options)) {
        require_usable(each);
        leaves_.push_back({each.name, each.tensor, each.has_sparse_gradient});
      }
      for (const NamedTensor& each : buffers) {
        require_usable(each);
        buffers_.push_back({each.name, each.tensor, each.tensor.detach()});
      }
    });
    make_reducer(buffers);
    for (std::size_t i = 0; i < leaves_.size(); ++i) listen_to(i);
  }
  TorchReducer(const TorchReducer&) = delete;
  TorchReducer& operator=(const TorchReducer&) = delete;
  // Gradients that lie in buckets stay: their views keep those.
  ~TorchReducer() {
    for (Leaf& leaf : leaves_) leaf.accumulator->del_post_hook(leaf.hook);
    if (is_running_) give_up("a wrapped module went before its last iteration had ended");
  }

  void before_forward() {
    if (!syncs_ || !at::GradMode::is_enabled()) return;
    require_finished("forward()");
    or_give_up([this] { require_unmoved(); });
    is_known_unmoved_ = true;
  }
  void after_forward(const Tensors& outputs) {
    if (!at::GradMode::is_enabled() || !options_.find_unused_parameters) return;
    used_ = reachable_.from(outputs);
    if (used_.empty()) listen_to(outputs);
  }
  /// What is missing in the last iteration is named by who looks for it, in this call.
  void require_finished(const char* call) {
    if (!is_running_) return;
    if (is_ending_)
      or_give_up([] {
        throw Error(hymnUsageError,
                    "the last backward pass was ended by an exception before its gradients were "
                    "reduced: make a new group and a new wrapper");
      });
    finish(call);
  }
  void give_up(const std::string& reason) { hymnGroupAbort(group_.handle(), reason.c_str()); }

  /// As DistributedDataParallel's.
  void set_sparse_metadata(const std::string& name, const at::Tensor& indices) {
    const auto leaf = std::find_if(leaves_.begin(), leaves_.end(),
                                   [&](const Leaf& each) { return each.name == name; });
    if (leaf == leaves_.end())
      throw Error(hymnUsageError, "no parameter that is trained is called " + name);
    const at::Tensor rows = indices.to(at::kCPU, at::kLong).reshape({-1}).contiguous();
    check_own(hymnGradientReducerSetSparseMetadata(
        handle(), static_cast<std::size_t>(leaf - leaves_.begin()), rows.data_ptr<std::int64_t>(),
        static_cast<std::size_t>(rows.numel())));
  }
  bool set_sync(bool on) { return std::exchange(syncs_, on); }
  hymnGradientReducer_t handle() const { return reducer_.get(); }

 private:
  /// The other ranks wait for what this one does not begin.
  template <class Do>
  void or_give_up(Do act) {
    try {
      act();
    } catch (const std::exception& error) {
      give_up(error.what());
      throw;
    }
  }

  /// What a hook of the program's has thrown is told as it is.
  void check_reduction(const char* call, hymnResult_t result) const {
    if (result == hymnSuccess) return;
    const std::string problem = last_problem(call);
    options_.hook.rethrow();
    throw Error(result, problem);
  }
  static constexpr const char* pass = "backward()";
  void check_pass(hymnResult_t result) const { check_reduction(pass, result); }

  void require_unmoved() const {
    for (const Leaf& leaf : leaves_) {
      if (!leaf.variable.requires_grad())
        throw Error(hymnUsageError, leaf.name +
                                        " requires no gradient any more, and did when it "
                                        "was wrapped: wrap the module anew");
      detail::require_unmoved(leaf.name, leaf.variable, leaf.values);
      // Another type or device brings another one, which nobody listens to.
      if (::torch::autograd::impl::grad_accumulator(leaf.variable) != leaf.accumulator)
        throw_moved(leaf.name, leaf.variable, leaf.values);
    }
    for (const Buffer& each : buffers_)
      detail::require_unmoved(each.name, each.tensor, each.values);
  }

  void make_reducer(const NamedTensors& buffers) {
    std::vector<hymnParameter_t> parameters;
    for (const Leaf& leaf : leaves_)
      parameters.push_back(parameter_of(leaf.name, leaf.variable, leaf.is_sparse));
    std::vector<hymnParameter_t> others;
    for (const NamedTensor& each : buffers) others.push_back(parameter_of(each.name, each.tensor));
    hymnReducerOptions_t options = HYMN_REDUCER_OPTIONS_INIT;
    options.first_bucket_bytes = options_.first_bucket_bytes;
    options.bucket_bytes = options_.bucket_bytes;
    options.gradient_as_bucket_view = 1;
    options.find_unused_parameters = options_.find_unused_parameters ? 1 : 0;
    options.static_graph = options_.static_graph ? 1 : 0;
    options.broadcast_parameters = options_.broadcast_parameters ? 1 : -1;
    options.hook = options_.hook.get();
    options.buffers = others.data();
    options.buffer_count = others.size();
    hymnGradientReducer_t reducer = nullptr;
    check_in("DistributedDataParallel()",
             hymnGradientReducerCreate(group_.handle(), parameters.data(), parameters.size(),
                                       &options, &reducer));
    reducer_.reset(reducer);
  }

  void listen_to(std::size_t index) {
    using ::torch::autograd::Variable;
    using ::torch::autograd::utils::LambdaPostHook;
    Leaf& leaf = leaves_[index];
    leaf.accumulator = ::torch::autograd::impl::grad_accumulator(leaf.variable);
    reachable_.add(leaf.accumulator.get(), index);
    leaf.hook = leaf.accumulator->add_post_hook(std::make_unique<LambdaPostHook>(
        [this, index](const std::vector<Variable>& outputs, const std::vector<Variable>&) {
          note(index);
          return outputs;
        }));
  }

  /// No parameter takes part here, and the other ranks wait all the same. The graph may outlive
  /// this.
  void listen_to(const Tensors& outputs) {
    for (const at::Tensor& output : outputs)
      if (output.requires_grad())
        output.register_hook([self = std::weak_ptr(self_)](const at::Tensor&) {
          if (const auto reducer = self.lock()) (*reducer)->note_pass();
        });
  }
  void note_pass() {
    const std::lock_guard lock(mutex_);
    if (!syncs_ || is_running_) return;
    const c10::NoGradGuard no_grad;
    begin();
  }

  /// Autograd has accumulated this gradient.
  void note(std::size_t index) {
    const std::lock_guard lock(mutex_);
    if (!syncs_) return;
    const c10::NoGradGuard no_grad;
    if (!is_running_) begin();
    or_give_up([&] { give(index); });
  }

  void begin() {
    // Where forward() has not looked, as inside no_sync().
    if (!is_known_unmoved_) or_give_up([this] { require_unmoved(); });
    std::vector<std::size_t> held;
    if (options_.find_unused_parameters) {
      held = held_alone();
      std::vector<std::size_t> all = used_;
      all.insert(all.end(), held.begin(), held.end());
      check_pass(hymnGradientReducerPrepareUsed(handle(), all.data(), all.size()));
    } else {
      check_pass(hymnGradientReducerPrepare(handle()));
    }
    is_running_ = true;
    or_give_up([&] {
      move_views();
      for (const std::size_t index : held) give(index);
      if (options_.find_unused_parameters && used_.empty()) queue_finish();
    });
  }

  /// Those that have a gradient from before, as from inside no_sync(), and get nothing more in this
  /// iteration: it counts.
  std::vector<std::size_t> held_alone() const {
    const std::unordered_set<std::size_t> used(used_.begin(), used_.end());
    std::vector<std::size_t> held;
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      if (gradient_of(leaves_[i].variable).defined() && used.count(i) == 0) held.push_back(i);
    return held;
  }

  /// Buckets are made anew after the first iteration.
  void move_views() {
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      Leaf& leaf = leaves_[i];
      if (leaf.is_sparse) continue;
      const at::Tensor before = leaf.view;
      leaf.view = bucket_view(handle(), i, leaf.variable, before);
      at::Tensor& gradient = leaf.variable.mutable_grad();
      if (!before.defined() || !gradient.defined() || !is_same_memory(gradient, before)) continue;
      // A pass whose gradients go elsewhere leaves those of the parameters as they are.
      gradient = GradientPlace::current() != nullptr ? gradient.clone() : leaf.view;
    }
  }

  static bool is_same_memory(const at::Tensor& a, const at::Tensor& b) {
    return a.data_ptr() == b.data_ptr() && a.strides() == b.strides();
  }

  void give(std::size_t index) {
    Leaf& leaf = leaves_[index];
    int is_complete = 0;
    if (leaf.is_sparse) {
      check_pass(sparse_.give(handle(), index, leaf.variable, &is_complete));
    } else {
      put_in_bucket(leaf);
      check_pass(hymnGradientReducerReady(handle(), index, &is_complete));
    }
    const bool is_learning = options_.static_graph && !has_learned_;
    if (is_complete != 0 || is_learning) queue_finish();
  }
  void queue_finish() {
    if (std::exchange(is_ending_, true)) return;
    if (GradientPlace* const place = GradientPlace::current())
      place->at_end([this] { finish(pass); });
    else
      ::torch::autograd::Engine::get_default_engine().queue_callback([this] { finish(pass); });
  }

  void put_in_bucket(Leaf& leaf) const {
    at::Tensor& gradient = gradient_of(leaf.variable);
    if (!gradient.defined()) {
      leaf.view.zero_();
      return;
    }
    require_host_tensor(gradient, ("the gradient of " + leaf.name).c_str());
    if (gradient.sizes() != leaf.view.sizes())
      throw Error(hymnUsageError, "the gradient of " + leaf.name + " is of sizes " +
                                      sizes_text(gradient) + ", and the parameter of " +
                                      sizes_text(leaf.view));
    if (is_same_memory(gradient, leaf.view)) return;
    leaf.view.copy_(gradient);
    if (keeps_views()) gradient = leaf.view;
  }
  /// The gradients of a pass of its own outlast the bucket's next iteration.
  bool keeps_views() const {
    return options_.gradient_as_bucket_view && GradientPlace::current() == nullptr;
  }

  void finish(const char* call) {
    const c10::NoGradGuard no_grad;
    is_running_ = is_ending_ = is_known_unmoved_ = false;
    check_reduction(call, hymnGradientReducerFinish(handle()));
    has_learned_ = true;
    for (std::size_t i = 0; i < leaves_.size(); ++i) take_average(i);
  }

  void take_average(std::size_t index) {
    int is_unused = 0;
    check_own(hymnGradientReducerIsUnused(handle(), index, &is_unused));
    if (is_unused != 0) return;
    Leaf& leaf = leaves_[index];
    at::Tensor& gradient = gradient_of(leaf.variable);
    if (leaf.is_sparse)
      gradient = sparse_.take(handle(), index, leaf.variable);
    else if (keeps_views())
      gradient = leaf.view;
    else if (gradient.defined())
      gradient.copy_(leaf.view);
    else
      gradient = leaf.view.clone();
  }

  struct Buffer {
    std::string name;
    at::Tensor tensor;
    at::Tensor values;  ///< as Leaf's
  };

  const DdpOptions options_;
  const Group group_;
  std::vector<Buffer> buffers_;
  std::vector<Leaf> leaves_;
  Reachable reachable_;
  SparseGradients sparse_;
  Owned<hymnGradientReducer_t> reducer_{nullptr, &hymnGradientReducerFree};
  const std::shared_ptr<TorchReducer*> self_ = std::make_shared<TorchReducer*>(this);
  std::mutex mutex_;               // threads of autograd call note()
  std::vector<std::size_t> used_;  // by the last forward()
  bool syncs_ = true;
  bool is_known_unmoved_ = false;  // since the last iteration's end
  bool is_running_ = false;        // an iteration of the reducer's has begun
  bool is_ending_ = false;         // its end is queued
  bool has_learned_ = false;       // of a static graph
};

}  // namespace detail
}  // namespace hymn::torch
