#include <string>

#include "functional/fail.hpp"
#include "functional/program.hpp"
#include "functional/recorder.hpp"
#include "functional/replay_call.hpp"
#include "hymn/capture.hpp"
#include "hymn/world.hpp"

namespace hymn {
namespace {

using functional::Where;
using functional::detail::refuse;

class Replayer {
 public:
  Replayer(const Captured& captured, World& world)
      : captured_(captured),
        program_(captured.program),
        values_(program_.values.size()),
        flights_(functional::detail::flights_of(program_)),
        calls_(program_, values_) {
    for (const ProgramGroup& group : program_.groups) groups_.push_back(where_of(world, group));
  }

  void give(std::span<const Array> inputs) {
    if (inputs.size() != program_.inputs.size())
      refuse("replay", std::to_string(inputs.size()) + " inputs for a program of " +
                           std::to_string(program_.inputs.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ArraySpec& spec = program_.values[program_.inputs[i]];
      if (!inputs[i].valid() || inputs[i].spec() != spec)
        refuse("replay",
               "input " + std::to_string(i) + " is not " + std::string(to_string(spec.dtype)) +
                   " " + functional::detail::listed(spec.shape),
               "a program is replayed with inputs of the shapes and dtypes it was captured with");
      values_[program_.inputs[i]] = inputs[i];
    }
  }

  void play() {
    for (const ProgramNode& node : program_.nodes) play(node);
    calls_.wait_for_all();
  }

  std::vector<Array> outputs() const { return of(program_.outputs); }

 private:
  /// One that lives may have its ranks in another order (ProcessGroup::split). In place of one that
  /// had no tag of the program's there is one of the replay's.
  static Where where_of(World& world, const ProgramGroup& group) {
    ProcessGroup found = world.find_group(group.tag, group.ranks);
    if (found.valid()) return found;
    const std::string tag = (group.tag.starts_with("hymn:") ? "replay of " : "") + group.tag;
    return Where::expanded(world, {tag, group.ranks, group.ranks.size()});
  }

  std::vector<Array> of(std::span<const std::size_t> values) const {
    std::vector<Array> arrays;
    for (const std::size_t value : values) arrays.push_back(values_[value]);
    return arrays;
  }

  /// Results of calls, unlike those of functional collectives, do not wait by themselves.
  void wait_for_inputs(const ProgramNode& node) {
    if (node.kind == NodeKind::view) return;
    for (const std::size_t value : node.inputs) {
      const std::size_t flight = flights_[value];
      if (flight != functional::detail::no_node && program_.nodes[flight].kind == NodeKind::call)
        calls_.wait(std::span(&flight, 1));
    }
  }

  void play(const ProgramNode& node) {
    wait_for_inputs(node);
    const std::vector<Array> inputs = of(node.inputs);
    switch (node.kind) {
      case NodeKind::collective:
        return collect(node, inputs);
      case NodeKind::call:
        return calls_.start(static_cast<std::size_t>(&node - program_.nodes.data()),
                            groups_[node.group].group());
      case NodeKind::wait:
        for (const Array& input : inputs) input.wait();
        return calls_.wait(node.calls);
      case NodeKind::view:
        values_[node.outputs[0]] = inputs[0].contiguous().as_strided(
            program_.values[node.outputs[0]].shape, node.strides, node.offset);
        return;
      case NodeKind::copy:
        values_[node.outputs[0]] = inputs[0].clone();
        return;
      case NodeKind::step:
        return step(node, inputs);
    }
  }

  void collect(const ProgramNode& node, std::span<const Array> inputs) {
    const auto run = [&] { return call(node.collective, inputs, groups_[node.group]); };
    std::vector<Array> results;
    if (node.is_backward) {
      const functional::detail::Backward backward;
      results = run();
    } else {
      results = run();
    }
    for (std::size_t i = 0; i < results.size(); ++i) values_[node.outputs[i]] = results[i];
  }

  void step(const ProgramNode& node, std::span<const Array> inputs) {
    const functional::Step* function =
        node.step_number < captured_.steps.size() ? &captured_.steps[node.step_number] : nullptr;
    if (function == nullptr || !*function)
      refuse("replay", "there is no function for step '" + node.step + "'",
             "give it in Captured::steps: it cannot be read from a file");
    values_[node.outputs[0]] =
        functional::apply(node.step, inputs, program_.values[node.outputs[0]], *function);
  }

  const Captured& captured_;
  const Program& program_;
  std::vector<Where> groups_;
  std::vector<Array> values_;
  std::vector<std::size_t> flights_;
  functional::detail::ReplayedCalls calls_;
};

}  // namespace

std::vector<Array> replay(const Captured& captured, World& world, std::span<const Array> inputs) {
  functional::detail::require_sound(captured.program);
  if (captured.program.rank != -1 && captured.program.rank != world.rank())
    refuse("replay", "the program is that of rank " + std::to_string(captured.program.rank));
  Replayer player(captured, world);
  player.give(inputs);
  player.play();
  return player.outputs();
}

}  // namespace hymn
