// Calls, references and gradients across workers for programs that use libtorch (docs/rpc.md). Link
// with hymn::rpc and torch.
//
//     distributed::Context context(agent);
//     const at::Tensor there = agent.rpc_sync("worker1", embed, table, words);
//     hymn::torch::backward(agent, context, {loss_of(there)});
//     optimizer.step(context);
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "hymn/rpc.hpp"
#include "hymn/rpc_context.hpp"
#include "hymn/torch_rpc_pass.hpp"

namespace hymn::torch {

/// Computes the gradients of all that the roots depend on, on all workers, and keeps them in the
/// context. Roots are scalars. FAST mode, as torch's: all that was sent in the context with
/// gradients takes part. Throws what a worker has thrown; the context is of no use then.
/// `retain_graph`: backward() will be called again in this context, and adds to the gradients.
inline void backward(const rpc::Agent& agent, const distributed::Context& context,
                     const std::vector<at::Tensor>& roots, bool retain_graph = false) {
  std::vector<detail::Edge> kept;  // their nodes live until the pass has run
  std::vector<detail::TorchGraph::Edge> starts;
  detail::Values ones;
  for (const at::Tensor& root : roots) {
    if (!root.requires_grad() || root.numel() != 1)
      throw UsageError("backward() begins with scalars that require gradients");
    kept.push_back(::torch::autograd::impl::gradient_edge(root));
    starts.push_back(detail::TorchGraph::edge_of(kept.back()));
    ones.push_back(at::ones_like(root.detach()));
  }
  if (starts.empty()) throw UsageError("backward() needs a root");
  static std::atomic<std::uint64_t> passes{0};
  const std::uint64_t pass = (static_cast<std::uint64_t>(agent.self().rank) + 1) << 40 | ++passes;
  detail::ContextGradients::of(context.record())
      ->run(context.record(), {pass, retain_graph}, starts, std::move(ones), true);
}

/// The gradients of this worker's parameters in a context, by parameter.
class Gradients {
 public:
  explicit Gradients(const distributed::detail::ContextPtr& context) {
    for (const auto& [variable, gradient] : detail::ContextGradients::of(context)->gradients())
      entries_.emplace(variable.unsafeGetTensorImpl(), gradient);
  }
  std::size_t size() const { return entries_.size(); }
  bool contains(const at::Tensor& parameter) const {
    return entries_.count(parameter.unsafeGetTensorImpl()) != 0;
  }
  /// Throws UsageError where it has none.
  const at::Tensor& at(const at::Tensor& parameter) const {
    const auto found = entries_.find(parameter.unsafeGetTensorImpl());
    if (found == entries_.end()) throw UsageError("this parameter has no gradient in the context");
    return found->second;
  }

 private:
  std::map<const c10::TensorImpl*, at::Tensor> entries_;
};

inline Gradients get_gradients(const distributed::Context& context) {
  return Gradients(context.record());
}
/// On any worker that the context has reached.
inline Gradients get_gradients(const rpc::Agent& agent, std::uint64_t context) {
  return Gradients(distributed::Context::find(agent, context));
}

/// One worker's part of an optimizer: steps with the gradients of a context. Thread-safe.
class LocalOptimizer {
 public:
  explicit LocalOptimizer(std::unique_ptr<::torch::optim::Optimizer> optimizer)
      : optimizer_(std::move(optimizer)) {}

  void step(const Gradients& gradients) {
    // Threads that step with other contexts take the same parameters.
    const std::lock_guard lock(*mutex_);
    // Also where the step throws.
    struct Restore {
      std::vector<std::pair<at::Tensor, at::Tensor>> gradients{};
      ~Restore() {
        for (auto& [parameter, gradient] : gradients) parameter.mutable_grad() = gradient;
      }
    } before;
    for (auto& group : optimizer_->param_groups())
      for (at::Tensor& parameter : group.params()) {
        at::Tensor& gradient = parameter.mutable_grad();
        before.gradients.emplace_back(parameter, gradient);
        gradient = gradients.contains(parameter) ? gradients.at(parameter) : at::Tensor();
      }
    optimizer_->step();
  }

 private:
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  std::unique_ptr<::torch::optim::Optimizer> optimizer_;
};

namespace detail {

using TensorRefs = std::vector<rpc::RemoteRef<at::Tensor>>;

inline void step_there(const rpc::RemoteRef<std::shared_ptr<LocalOptimizer>>& optimizer,
                       std::uint64_t context) {
  optimizer.local_value()->step(get_gradients(rpc::Agent::current(), context));
}
inline const auto step_function = rpc::register_function("hymn.torch.step", &step_there);

}  // namespace detail

/// A kind of optimizer that workers make for parameters of theirs: registered by all of them, as
/// functions are.
///
///     const OptimizerKind sgd("sgd", [](std::vector<at::Tensor> parameters) {
///       return std::make_unique<torch::optim::SGD>(std::move(parameters), 0.1);
///     });
class OptimizerKind {
 public:
  using Make = std::function<std::unique_ptr<::torch::optim::Optimizer>(std::vector<at::Tensor>)>;
  OptimizerKind(const std::string& name, Make make)
      : make_(rpc::register_function(
            "hymn.torch.optimizer." + name, [make = std::move(make)](detail::TensorRefs refs) {
              std::vector<at::Tensor> parameters;
              for (const auto& ref : refs) parameters.push_back(ref.local_value());
              return std::make_shared<LocalOptimizer>(make(std::move(parameters)));
            })) {}

  using Function = rpc::Function<std::shared_ptr<LocalOptimizer>(detail::TensorRefs)>;
  const Function& function() const { return make_; }

 private:
  Function make_;
};

/// Optimizes parameters of several workers, each where it lives.
class DistributedOptimizer {
 public:
  DistributedOptimizer(rpc::Agent& agent, const OptimizerKind& kind,
                       const detail::TensorRefs& parameters)
      : agent_(agent) {
    std::map<int, detail::TensorRefs> by_owner;
    for (const auto& each : parameters) by_owner[each.owner().rank].push_back(each);
    for (const auto& [rank, refs] : by_owner)
      parts_.push_back(agent.remote(rank, kind.function(), refs));
    for (const auto& part : parts_) part.made().get();
  }

  /// On all workers at the same time; returns when all have. Throws what one of them has thrown.
  void step(const distributed::Context& context) {
    std::vector<Future<void>> steps;
    for (const auto& part : parts_)
      steps.push_back(agent_.rpc_async(part.owner(), detail::step_function, part, context.id()));
    for (const auto& each : steps) each.get();
  }

 private:
  rpc::Agent& agent_;
  std::vector<rpc::RemoteRef<std::shared_ptr<LocalOptimizer>>> parts_;
};

}  // namespace hymn::torch
