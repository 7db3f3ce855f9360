// Gradients of computations that several workers have made together: what all frameworks need for
// that. docs/rpc.md; hymn/torch_rpc.hpp has it for libtorch.
//
// A context is a forward and a backward pass. Calls that are made in it carry its number; each
// message with values that have gradients is recorded, at the end that sends it, with what its
// values depend on. The backward pass follows messages the other way.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hymn/rpc.hpp"
#include "hymn/standard_parts.hpp"

namespace hymn::distributed {

/// What a framework keeps for one context on one worker. Made when it is first asked for.
class HYMN_API ContextData {
 public:
  virtual ~ContextData();
  ContextData(const ContextData&) = delete;
  ContextData& operator=(const ContextData&) = delete;

 protected:
  ContextData() = default;
};

/// A recorded message: what each of its values depends on, as the framework tells it.
using Sent = std::vector<std::shared_ptr<void>>;

namespace detail {

/// One context on one worker. Thread-safe.
class HYMN_API ContextRecord {
 public:
  explicit ContextRecord(std::uint64_t id);
  ContextRecord(const ContextRecord&) = delete;
  ContextRecord& operator=(const ContextRecord&) = delete;
  ~ContextRecord();

  std::uint64_t id() const { return id_; }
  /// By number of the message.
  void add_send(std::uint64_t message, Sent sent);
  std::map<std::uint64_t, Sent> sends() const;
  /// It goes nowhere any more.
  void release();
  bool is_released() const;
  std::shared_ptr<ContextData> data(const std::function<std::shared_ptr<ContextData>()>& make);

 private:
  struct Parts;
  const std::uint64_t id_;
  std::unique_ptr<Parts> parts_;
};
using ContextPtr = std::shared_ptr<ContextRecord>;

}  // namespace detail

/// A pass that this worker begins. While it lives, calls of the thread that has made it belong to
/// it, and calls that those make. When it goes, on whatever way, all workers forget it. One at a
/// time in a thread.
class HYMN_API Context {
 public:
  explicit Context(const rpc::Agent& agent);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  /// The same on all workers.
  std::uint64_t id() const { return record_->id(); }
  const detail::ContextPtr& record() const { return record_; }

  /// That of the call that this thread carries out, or else has made; null where there is none.
  static detail::ContextPtr current();
  /// By number, on any worker that it has reached. Throws UsageError where there is none.
  static detail::ContextPtr find(const rpc::Agent& agent, std::uint64_t id);
  /// Those that this worker knows.
  static std::size_t count(const rpc::Agent& agent);

 private:
  std::shared_ptr<rpc::detail::AgentState> agent_;
  detail::ContextPtr record_;
  detail::ContextPtr before_;
};

/// Runs a graph backwards, in FAST mode: every recorded message is taken to get a gradient, so that
/// a node runs once, when all that depends on it has. `Graph` says what nodes are:
///
///     using Node = …;     what nodes are known by: pointers
///     using Value = …;    a gradient
///     struct Edge { Node node; std::size_t input; };
///     std::vector<Edge> next(Node);            where its outputs go
///     std::size_t inputs(Node);
///     std::uint64_t order(Node);               the largest runs first
///     void add(Value& sum, Value&& more);
///     std::vector<Value> run(Node, std::vector<Value>&&);   for each of next(): its gradient
///
/// For one thread at a time.
template <class Graph>
class BackwardRun {
 public:
  using Node = typename Graph::Node;
  using Value = typename Graph::Value;
  using Edge = typename Graph::Edge;

  explicit BackwardRun(Graph graph) : graph_(std::move(graph)) {}
  Graph& graph() { return graph_; }

  /// All that gradients will be given for, of roots and of messages. Before anything is run.
  void expect(const std::vector<Edge>& starts) {
    std::vector<Node> open;
    const auto depend = [&](const Edge& edge) {
      if (edge.node == Node{}) return;
      if (++waits_for_[edge.node] == 1) open.push_back(edge.node);
    };
    for (const Edge& edge : starts) depend(edge);
    while (!open.empty()) {
      const Node node = open.back();
      open.pop_back();
      for (const Edge& edge : graph_.next(node)) depend(edge);
    }
  }

  /// Gradients for some of those, and all nodes that are ready then.
  void give(const std::vector<Edge>& starts, std::vector<Value> gradients) {
    for (std::size_t i = 0; i < starts.size(); ++i) pass(starts[i], std::move(gradients[i]));
    while (!ready_.empty()) {
      const Node node = ready_.top().second;
      ready_.pop();
      const auto edges = graph_.next(node);
      auto inputs = std::move(inputs_[node]);
      inputs_.erase(node);
      auto outputs = graph_.run(node, std::move(inputs));
      outputs.resize(edges.size());
      for (std::size_t i = 0; i < edges.size(); ++i) pass(edges[i], std::move(outputs[i]));
    }
  }

 private:
  void pass(const Edge& edge, Value&& gradient) {
    if (edge.node == Node{}) return;
    auto& inputs = inputs_[edge.node];
    if (inputs.empty()) inputs.resize(graph_.inputs(edge.node));
    graph_.add(inputs[edge.input], std::move(gradient));
    if (--waits_for_[edge.node] == 0) ready_.emplace(graph_.order(edge.node), edge.node);
  }

  Graph graph_;
  std::unordered_map<Node, std::size_t> waits_for_;
  std::unordered_map<Node, std::vector<Value>> inputs_;
  std::priority_queue<std::pair<std::uint64_t, Node>> ready_;
};

}  // namespace hymn::distributed

namespace hymn::rpc::detail {

/// For formats of values that have gradients. True where what is packed belongs to a context: then
/// `depends_on` is kept with the message, and the number of the value in it is given.
HYMN_API bool record_value(Packed& packed, std::shared_ptr<void> depends_on, std::uint64_t& number);

}  // namespace hymn::rpc::detail
