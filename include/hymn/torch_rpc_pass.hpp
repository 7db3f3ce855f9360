// Backward passes through several workers. Programs include hymn/torch_rpc.hpp.
#pragma once

#include "hymn/standard.hpp"  // first

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "hymn/torch_pass.hpp"
#include "hymn/torch_rpc_tensor.hpp"

namespace hymn::torch::detail {

using Values = std::vector<at::Tensor>;

/// Autograd's graph, as distributed::BackwardRun wants it.
class TorchGraph {
 public:
  using Node = ::torch::autograd::Node*;
  using Value = at::Tensor;
  struct Edge {
    Node node = nullptr;
    std::size_t input = 0;
  };

  TorchGraph(GradientPlace& place, bool keeps_graph) : place_(&place), keeps_graph_(keeps_graph) {}

  static Edge edge_of(const ::torch::autograd::Edge& edge) {
    return {edge.function.get(), edge.input_nr};
  }
  std::vector<Edge> next(Node node) const {
    std::vector<Edge> edges;
    for (const auto& edge : node->next_edges()) edges.push_back(edge_of(edge));
    return edges;
  }
  std::size_t inputs(Node node) const { return node->num_inputs(); }
  std::uint64_t order(Node node) const { return node->sequence_nr(); }

  void add(at::Tensor& sum, at::Tensor&& more) const {
    if (!more.defined()) return;
    if (!sum.defined())
      sum = std::move(more);
    else
      sum = sum.is_sparse() ? more + sum : sum + more;
  }

  Values run(Node node, Values&& inputs) const {
    for (const auto& hook : node->pre_hooks()) inputs = (*hook)(inputs);
    // What follows the node may look at what came in.
    const Values came = inputs;
    Values outputs;
    if (auto* const leaf = dynamic_cast<::torch::autograd::AccumulateGrad*>(node))
      accumulate(leaf->variable, came.front());
    else
      outputs = fitting(*node, (*node)(std::move(inputs)));
    if (!keeps_graph_) node->release_variables();
    for (const auto& hook : node->post_hooks()) outputs = (*hook)(outputs, came);
    return outputs;
  }

 private:
  void accumulate(const at::Tensor& variable, at::Tensor gradient) const {
    if (!gradient.defined()) return;
    gradient = ::torch::autograd::AccumulateGrad::callHooks(variable, std::move(gradient));
    at::Tensor& sum = place_->gradient(variable);
    sum = sum.defined() ? (sum.is_sparse() ? gradient + sum : sum + gradient)
                        : gradient.detach().clone();
  }

  /// Of what was broadcast, and of what was computed in another type.
  static Values fitting(const ::torch::autograd::Node& node, Values gradients) {
    for (std::size_t i = 0; i < gradients.size() && i < node.num_outputs(); ++i) {
      const auto& edge = node.next_edge(i);
      at::Tensor& gradient = gradients[i];
      if (!edge.is_valid() || !gradient.defined() || gradient.is_sparse()) continue;
      const auto& wanted = edge.function->input_metadata(edge.input_nr);
      if (!wanted.is_same_shape(gradient)) gradient = wanted.reduce_grad(gradient);
      const auto type = c10::typeMetaToScalarType(wanted.options().dtype());
      if (gradient.scalar_type() != type) gradient = gradient.to(type);
    }
    return gradients;
  }

  GradientPlace* place_;
  bool keeps_graph_;
};

/// What one context has on one worker: its gradients, and how far its pass is.
class ContextGradients final : public distributed::ContextData, public GradientPlace {
 public:
  using Dict = std::vector<std::pair<at::Tensor, at::Tensor>>;

  static std::shared_ptr<ContextGradients> of(const distributed::detail::ContextPtr& context) {
    return std::static_pointer_cast<ContextGradients>(
        context->data([] { return std::make_shared<ContextGradients>(); }));
  }

  at::Tensor& gradient(const at::Tensor& variable) override {
    const std::lock_guard lock(gradients_mutex_);
    auto& [kept, sum] = gradients_[variable.unsafeGetTensorImpl()];
    kept = variable;
    return sum;
  }
  void at_end(std::function<void()> callback) override { ends_.push_back(std::move(callback)); }
  void await(Future<void> gradients) { awaited_.push_back(std::move(gradients)); }

  Dict gradients() const {
    const std::lock_guard lock(gradients_mutex_);
    Dict dict;
    for (const auto& [tensor, entry] : gradients_)
      if (entry.second.defined()) dict.push_back(entry);
    return dict;
  }

  struct Pass {
    std::uint64_t number = 0;  ///< the same on all workers
    bool keeps_graph = false;
  };

  /// Runs what these gradients make ready, and returns when other workers have done their part.
  /// `roots`: where the pass begins, on the worker that begins it.
  void run(const distributed::detail::ContextPtr& context, const Pass& pass,
           const std::vector<TorchGraph::Edge>& starts, Values gradients, bool are_roots) {
    std::vector<std::function<void()>> ends;
    std::vector<Future<void>> awaited;
    const at::AutoGradMode without_gradients(false);
    {
      const std::lock_guard lock(run_mutex_);
      const Scope scope(*this);
      begin(context, pass, starts, are_roots);
      run_->give(starts, std::move(gradients));
      ends.swap(ends_);
      awaited.swap(awaited_);
    }
    const Scope scope(*this);
    for (const auto& end : ends) end();
    for (const auto& each : awaited) each.get();
  }

  std::uint64_t pass() const { return pass_.number; }
  bool keeps_graph() const { return pass_.keeps_graph; }

 private:
  void begin(const distributed::detail::ContextPtr& context, const Pass& pass,
             const std::vector<TorchGraph::Edge>& starts, bool are_roots) {
    if (run_ && pass_.number == pass.number) return;
    pass_ = pass;
    run_.emplace(TorchGraph(*this, pass.keeps_graph));
    std::vector<TorchGraph::Edge> expected;
    if (are_roots) expected = starts;
    for (const auto& [message, sent] : context->sends())
      for (const auto& edge : sent)
        expected.push_back(TorchGraph::edge_of(*std::static_pointer_cast<Edge>(edge)));
    run_->expect(expected);
  }

  mutable std::mutex gradients_mutex_;
  std::map<const c10::TensorImpl*, std::pair<at::Tensor, at::Tensor>> gradients_;

  std::mutex run_mutex_;  // of what follows
  Pass pass_;
  std::optional<distributed::BackwardRun<TorchGraph>> run_;
  std::vector<std::function<void()>> ends_;
  std::vector<Future<void>> awaited_;
};

/// The message that has carried these values gets their gradients.
inline void propagate(std::uint64_t context_id, std::uint64_t message, std::uint64_t pass,
                      bool keeps_graph, Values gradients) {
  const auto context = distributed::Context::find(rpc::Agent::current(), context_id);
  const auto sends = context->sends();
  const auto sent = sends.find(message);
  if (sent == sends.end() || sent->second.size() != gradients.size())
    throw UsageError("gradients have come for a message that was not sent");
  std::vector<TorchGraph::Edge> starts;
  for (const auto& edge : sent->second)
    starts.push_back(TorchGraph::edge_of(*std::static_pointer_cast<Edge>(edge)));
  ContextGradients::of(context)->run(context, {pass, keeps_graph}, starts, std::move(gradients),
                                     false);
}
inline const auto propagate_there = rpc::register_function("hymn.torch.propagate", &propagate);

inline ::torch::autograd::variable_list ReceivedFrom::apply(
    ::torch::autograd::variable_list&& gradients) {
  const auto state = agent_.lock();
  if (!state) throw UsageError("the agent has ended that these tensors came by");
  const rpc::Agent there(state);
  rpc::Agent agent(state);
  const auto context = distributed::Context::find(agent, context_);
  const auto data = ContextGradients::of(context);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (!gradients[i].defined())
      gradients[i] = input_metadata(static_cast<std::uint32_t>(i)).zeros_like();
  data->await(agent.rpc_async(from_, propagate_there, context_, message_, data->pass(),
                              data->keeps_graph(), Values(gradients)));
  return {};
}

}  // namespace hymn::torch::detail
