// What DistributedDataParallel does beside the module: between the autograd of libtorch and a
// gradient reducer of hymn's. Programs include hymn/torch.hpp.
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "hymn/hymn_training.h"
#include "hymn/torch_group.hpp"
#include "hymn/torch_outputs.hpp"
#include "hymn/torch_tensors.hpp"

namespace hymn::torch {

/// The same on all ranks.
struct DdpOptions {
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_bytes = std::size_t{25} << 20;
  /// Gradients are views of buckets, so that they need not be copied there and back.
  bool gradient_as_bucket_view = false;
  /// Not all parameters take part in each iteration: those that the outputs of forward() do not
  /// depend on are found, and not waited for.
  bool find_unused_parameters = false;
  /// Each iteration uses the same parameters as the first, as often.
  bool static_graph = false;
  bool broadcast_parameters = true;
  /// Buffers, such as running means, become those of the first rank at the end of each iteration.
  bool broadcast_buffers = true;
  /// Null: averages. It may be freed when the wrapper is made (hymnCommHookFree).
  hymnCommHook_t hook = nullptr;
  /// As those of torch.nn.parallel.DistributedDataParallel, which are for modules on one GPU.
  std::vector<at::Device> device_ids{};
  c10::optional<at::Device> output_device{};
};

namespace detail {

using Node = ::torch::autograd::Node;
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// One parameter as autograd knows it.
struct Leaf {
  std::string name;
  at::Tensor variable;
  std::shared_ptr<Node> accumulator{};  // lives only as long as somebody holds it
  std::uintptr_t hook = 0;
  at::Tensor view{};     ///< of its place in a bucket
  bool is_held = false;  ///< it has a gradient from inside no_sync()
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
    for (const at::Tensor& output : outputs)
      if (output.requires_grad())
        visit(::torch::autograd::impl::gradient_edge(output).function.get());
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

/// A tensor where the reducer keeps that gradient, which it holds for as long as it lives.
inline at::Tensor bucket_view(hymnGradientReducer_t reducer, std::size_t index,
                              const at::Tensor& variable) {
  void* data = nullptr;
  hymnGradMemory_t memory = nullptr;
  check(hymnGradientReducerGradient(reducer, index, &data, &memory));
  return at::from_blob(
      data, variable.sizes(), variable.strides(), [memory](void*) { hymnGradMemoryFree(memory); },
      variable.options().requires_grad(false));
}

inline hymnParameter_t parameter_of(const std::string& name, const at::Tensor& tensor) {
  hymnParameter_t parameter = HYMN_PARAMETER_INIT;
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
    for (const auto& [name, tensor] : parameters) {
      require_host_tensor(tensor, name.c_str());
      leaves_.push_back({name, tensor});
    }
    make_reducer(buffers);
    for (std::size_t i = 0; i < leaves_.size(); ++i) listen_to(i);
  }
  TorchReducer(const TorchReducer&) = delete;
  TorchReducer& operator=(const TorchReducer&) = delete;
  // Gradients that lie in buckets stay: their views keep those.
  ~TorchReducer() {
    for (Leaf& leaf : leaves_) leaf.accumulator->del_post_hook(leaf.hook);
    if (is_running_)
      hymnGroupAbort(group_.handle(), "a module went in the midst of a backward pass");
  }

  void before_forward() {
    // What is missing is named by who looks for it.
    if (syncs() && is_running_) finish();
  }
  void after_forward(const Tensors& outputs) {
    if (syncs() && options_.find_unused_parameters) used_ = reachable_.from(outputs);
  }

  bool set_sync(bool on) { return std::exchange(syncs_, on); }
  hymnGradientReducer_t handle() const { return reducer_.get(); }

 private:
  bool syncs() const { return syncs_ && at::GradMode::is_enabled(); }

  void make_reducer(const NamedTensors& buffers) {
    std::vector<hymnParameter_t> parameters;
    for (const Leaf& leaf : leaves_) parameters.push_back(parameter_of(leaf.name, leaf.variable));
    std::vector<hymnParameter_t> others;
    for (const auto& [name, tensor] : buffers) others.push_back(parameter_of(name, tensor));
    hymnReducerOptions_t options = HYMN_REDUCER_OPTIONS_INIT;
    options.first_bucket_bytes = options_.first_bucket_bytes;
    options.bucket_bytes = options_.bucket_bytes;
    options.gradient_as_bucket_view = 1;
    options.find_unused_parameters = options_.find_unused_parameters ? 1 : 0;
    options.static_graph = options_.static_graph ? 1 : 0;
    options.broadcast_parameters = options_.broadcast_parameters ? 1 : -1;
    options.hook = options_.hook;
    options.buffers = others.data();
    options.buffer_count = others.size();
    hymnGradientReducer_t reducer = nullptr;
    check(hymnGradientReducerCreate(group_.handle(), parameters.data(), parameters.size(), &options,
                                    &reducer));
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

  /// Autograd has accumulated this gradient.
  void note(std::size_t index) {
    const std::lock_guard lock(mutex_);
    if (!syncs_) {
      leaves_[index].is_held = true;
      return;
    }
    const c10::NoGradGuard no_grad;
    if (!is_running_) begin();
    give(index);
  }

  void begin() {
    std::vector<std::size_t> held;
    if (options_.find_unused_parameters) {
      held = held_alone();
      std::vector<std::size_t> all = used_;
      all.insert(all.end(), held.begin(), held.end());
      check(hymnGradientReducerPrepareUsed(handle(), all.data(), all.size()));
    } else {
      check(hymnGradientReducerPrepare(handle()));
    }
    is_running_ = true;
    move_views();
    for (const std::size_t index : held) give(index);
  }

  /// Those that have a gradient from before, and get nothing more in this iteration.
  std::vector<std::size_t> held_alone() const {
    const std::unordered_set<std::size_t> used(used_.begin(), used_.end());
    std::vector<std::size_t> held;
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      if (leaves_[i].is_held && used.count(i) == 0) held.push_back(i);
    return held;
  }

  /// Buckets are made anew after the first iteration.
  void move_views() {
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      Leaf& leaf = leaves_[i];
      const at::Tensor before = leaf.view;
      leaf.view = bucket_view(handle(), i, leaf.variable);
      at::Tensor& gradient = leaf.variable.mutable_grad();
      if (before.defined() && gradient.defined() && is_same_memory(gradient, before))
        gradient = leaf.view;
    }
  }

  static bool is_same_memory(const at::Tensor& a, const at::Tensor& b) {
    return a.data_ptr() == b.data_ptr() && a.strides() == b.strides();
  }

  void give(std::size_t index) {
    put_in_bucket(leaves_[index]);
    int is_complete = 0;
    check(hymnGradientReducerReady(handle(), index, &is_complete));
    const bool is_learning = options_.static_graph && !has_learned_;
    if ((is_complete != 0 || is_learning) && !std::exchange(is_ending_, true))
      ::torch::autograd::Engine::get_default_engine().queue_callback([this] { finish(); });
  }

  void put_in_bucket(Leaf& leaf) const {
    at::Tensor& gradient = leaf.variable.mutable_grad();
    if (!gradient.defined()) {
      leaf.view.zero_();
      return;
    }
    require_host_tensor(gradient, ("the gradient of " + leaf.name).c_str());
    if (is_same_memory(gradient, leaf.view)) return;
    leaf.view.copy_(gradient);
    if (options_.gradient_as_bucket_view) gradient = leaf.view;
  }

  void finish() {
    const c10::NoGradGuard no_grad;
    is_running_ = is_ending_ = false;
    check(hymnGradientReducerFinish(handle()));
    has_learned_ = true;
    for (std::size_t i = 0; i < leaves_.size(); ++i) take_average(i);
  }

  void take_average(std::size_t index) {
    int is_unused = 0;
    check(hymnGradientReducerIsUnused(handle(), index, &is_unused));
    if (is_unused != 0) return;
    Leaf& leaf = leaves_[index];
    leaf.is_held = false;
    at::Tensor& gradient = leaf.variable.mutable_grad();
    if (options_.gradient_as_bucket_view)
      gradient = leaf.view;
    else if (gradient.defined())
      gradient.copy_(leaf.view);
    else
      gradient = leaf.view.clone();
  }

  const DdpOptions options_;
  const Group group_;
  std::vector<Leaf> leaves_;
  Reachable reachable_;
  std::unique_ptr<std::remove_pointer_t<hymnGradientReducer_t>,
                  hymnResult_t (*)(hymnGradientReducer_t)>
      reducer_{nullptr, &hymnGradientReducerFree};
  std::mutex mutex_;               // threads of autograd call note()
  std::vector<std::size_t> used_;  // by the last forward()
  bool syncs_ = true;
  bool is_running_ = false;   // an iteration of the reducer's has begun
  bool is_ending_ = false;    // its end is queued
  bool has_learned_ = false;  // of a static graph
};

}  // namespace detail
}  // namespace hymn::torch
