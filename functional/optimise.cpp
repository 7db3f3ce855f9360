// Less waiting, with the same bits.
//
// A program is put in order anew: which collectives are coalesced is settled first, by what each of
// them comes from; then they are started one after the other, in their order, each as soon as what
// it takes is there. What else there is to do is done before a wait is needed.
#include <algorithm>
#include <map>
#include <utility>

#include "functional/program.hpp"

namespace hymn {
namespace {

using functional::Collective;
using functional::Operation;
using functional::detail::no_node;

using Nodes = std::vector<std::size_t>;

/// Nothing: it has none.
const Operation* coalesced_form(Operation operation) {
  static constexpr Operation forms[] = {Operation::all_reduce_coalesced,
                                        Operation::all_gather_into_tensor_coalesced,
                                        Operation::reduce_scatter_tensor_coalesced};
  switch (operation) {
    case Operation::all_reduce:
    case Operation::all_reduce_coalesced:
      return &forms[0];
    case Operation::all_gather_tensor:
    case Operation::all_gather_into_tensor_coalesced:
      return &forms[1];
    case Operation::reduce_scatter_tensor:
    case Operation::reduce_scatter_tensor_coalesced:
      return &forms[2];
    case Operation::broadcast:
    case Operation::all_to_all_single:
    case Operation::permute_tensor:
      return nullptr;
  }
  return nullptr;
}

/// No order of the steps can change a bit of it.
bool is_exact(const Collective& collective, DataType dtype, std::size_t ranks) {
  if (!reduces(traits_of(collective.operation).type) || ranks <= 2) return true;
  const DataFamily family = traits_of(dtype).family;
  if (family != DataFamily::floating && family != DataFamily::complex) return true;
  return traits_of(collective.reduction.kind()).family == ReduceFamily::order;
}

class Optimiser {
 public:
  Optimiser(const Program& program, const OptimiseOptions& options)
      : program_(program),
        options_(options),
        makers_(functional::detail::makers_of(program)),
        flights_(functional::detail::flights_of(program)) {}

  Program run() {
    coalesce();
    result_ = program_;
    result_.nodes.clear();
    is_done_.resize(program_.nodes.size());
    has_ended_.resize(program_.nodes.size());
    for (const Nodes& bundle : bundles_) start(bundle);
    finish();
    return std::move(result_);
  }

 private:
  bool is(NodeKind kind, std::size_t node) const { return program_.nodes[node].kind == kind; }

  // --- What is coalesced.

  void coalesce() {
    latest_.resize(program_.nodes.size());
    for (std::size_t node = 0; node < program_.nodes.size(); ++node) {
      for (const std::size_t value : program_.nodes[node].inputs)
        latest_[node] = std::max(latest_[node], bundles_before(value));
      if (!is(NodeKind::collective, node)) continue;
      if (!bundles_.empty() && belong_together(bundles_.back(), node))
        bundles_.back().push_back(node);
      else
        bundles_.push_back({node});
      bundle_of_[node] = bundles_.size() - 1;
    }
  }

  /// So many bundles have been started when a value is there.
  std::size_t bundles_before(std::size_t value) const {
    const std::size_t maker = makers_[value];
    if (maker == no_node) return 0;
    return is(NodeKind::collective, maker) ? bundle_of_.at(maker) + 1 : latest_[maker];
  }

  bool belong_together(const Nodes& bundle, std::size_t node) const {
    const ProgramNode& first = program_.nodes[bundle.front()];
    const ProgramNode& next = program_.nodes[node];
    const Operation* form = coalesced_form(first.collective.operation);
    if (form == nullptr || form != coalesced_form(next.collective.operation)) return false;
    const DataType dtype = program_.values[first.inputs[0]].dtype;
    const bool are_alike =
        first.group == next.group && first.is_backward == next.is_backward &&
        dtype == program_.values[next.inputs[0]].dtype &&
        first.collective.reduction.kind() == next.collective.reduction.kind() &&
        first.collective.reduction.factor() == next.collective.reduction.factor();
    if (!are_alike) return false;
    const std::size_t ranks = program_.groups[first.group].ranks.size();
    if (!options_.groups_are_reproducible && !is_exact(first.collective, dtype, ranks))
      return false;
    // Or the first would wait for what was started after all that it needs itself.
    return latest_[node] <= latest_[bundle.front()];
  }

  // --- In order anew.

  void start(const Nodes& bundle) {
    for (const std::size_t node : bundle) prepare(node);
    ProgramNode together = program_.nodes[bundle.front()];
    for (std::size_t i = 1; i < bundle.size(); ++i) {
      const ProgramNode& next = program_.nodes[bundle[i]];
      together.collective.operation = *coalesced_form(together.collective.operation);
      append(together.inputs, next.inputs);
      append(together.outputs, next.outputs);
      append(together.collective.dimensions, next.collective.dimensions);
    }
    for (const std::size_t node : bundle) {
      is_done_[node] = true;
      started_[node] = bundle;
    }
    result_.nodes.push_back(std::move(together));
  }

  template <class Number>
  static void append(std::vector<Number>& list, const std::vector<Number>& more) {
    list.insert(list.end(), more.begin(), more.end());
  }

  /// Does all that it comes from, and waits for what it takes.
  void prepare(std::size_t node) {
    for (const std::size_t value : program_.nodes[node].inputs) {
      const std::size_t maker = makers_[value];
      if (maker != no_node && !is_done_[maker]) perform(maker);
    }
    for (const std::size_t value : program_.nodes[node].inputs) wait_for(flights_[value]);
  }

  /// A view, a copy or a step.
  void perform(std::size_t node) {
    if (is(NodeKind::view, node)) {
      const std::size_t maker = makers_[program_.nodes[node].inputs[0]];
      if (maker != no_node && !is_done_[maker]) perform(maker);
    } else {
      prepare(node);
    }
    if (is_done_[node]) return;  // before a wait
    is_done_[node] = true;
    result_.nodes.push_back(program_.nodes[node]);
  }

  void wait_for(std::size_t flight) {
    if (flight == no_node || has_ended_[flight]) return;
    do_what_needs_no_wait();
    const Nodes& bundle = started_.at(flight);
    ProgramNode wait;
    wait.kind = NodeKind::wait;
    wait.is_backward = program_.nodes[flight].is_backward;
    for (const std::size_t node : bundle) {
      append(wait.inputs, program_.nodes[node].outputs);
      has_ended_[node] = true;
    }
    result_.nodes.push_back(std::move(wait));
  }

  void do_what_needs_no_wait() {
    for (std::size_t node = 0; node < program_.nodes.size(); ++node) {
      const bool is_work = is(NodeKind::copy, node) || is(NodeKind::step, node);
      if ((is_work || is(NodeKind::view, node)) && !is_done_[node] && needs_no_wait(node)) {
        is_done_[node] = true;
        result_.nodes.push_back(program_.nodes[node]);
      }
    }
  }

  bool needs_no_wait(std::size_t node) const {
    for (const std::size_t value : program_.nodes[node].inputs) {
      const std::size_t maker = makers_[value];
      const std::size_t flight = flights_[value];
      if (maker != no_node && !is_done_[maker]) return false;
      if (!is(NodeKind::view, node) && flight != no_node && !has_ended_[flight]) return false;
    }
    return true;
  }

  void finish() {
    for (std::size_t node = 0; node < program_.nodes.size(); ++node)
      if (!is_done_[node] && !is(NodeKind::wait, node)) perform(node);
    for (const Nodes& bundle : bundles_) wait_for(bundle.front());
  }

  const Program& program_;
  const OptimiseOptions& options_;
  Nodes makers_;
  Nodes flights_;
  std::vector<std::size_t> latest_;  // for each node, how many bundles it waits for
  std::vector<Nodes> bundles_;
  std::map<std::size_t, std::size_t> bundle_of_;
  std::map<std::size_t, Nodes> started_;
  std::vector<bool> is_done_;
  std::vector<bool> has_ended_;
  Program result_;
};

}  // namespace

Program optimised(const Program& program, const OptimiseOptions& options) {
  functional::detail::require_sound(program);
  const auto is_call = [](const ProgramNode& node) { return node.kind == NodeKind::call; };
  if (std::ranges::any_of(program.nodes, is_call)) return program;
  return Optimiser(program, options).run();
}

std::vector<Program> optimised(std::span<const Program> of_all_ranks,
                               const OptimiseOptions& options) {
  std::vector<Program> results;
  for (const Program& program : of_all_ranks) results.push_back(optimised(program, options));
  if (find_mismatch(of_all_ranks).empty() && find_mismatch(results).empty()) return results;
  return {of_all_ranks.begin(), of_all_ranks.end()};
}

}  // namespace hymn
