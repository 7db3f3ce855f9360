#include "functional/recorder.hpp"

#include <algorithm>
#include <string>

#include "functional/fail.hpp"
#include "functional/layout.hpp"
#include "functional/storage.hpp"

namespace hymn::functional::detail {
namespace {

thread_local Recorder* recorder_of_this_thread = nullptr;
thread_local bool is_backward_pass = false;

bool lie_alike(const Array& one, const Array& other) {
  return one.offset() == other.offset() && one.shape() == other.shape() &&
         one.strides() == other.strides();
}

/// Whether all elements of the view are between the first and the last of this contiguous array.
bool holds(const Array& whole, const Array& view) {
  if (!whole.is_contiguous() || whole.count() == 0 || view.count() == 0) return false;
  std::int64_t first = view.offset() - whole.offset();
  std::int64_t last = first;
  for (std::size_t i = 0; i < view.dimensions(); ++i)
    (view.strides()[i] < 0 ? first : last) += (view.shape()[i] - 1) * view.strides()[i];
  return first >= 0 && last < whole.count() && view.dtype() == whole.dtype();
}

}  // namespace

Recorder* Recorder::current() { return recorder_of_this_thread; }

Recorder::Recorder() { recorder_of_this_thread = this; }

Recorder::~Recorder() { recorder_of_this_thread = nullptr; }

std::size_t Recorder::add_value(ArraySpec spec, bool is_input) {
  const std::size_t value = captured_.program.values.size();
  captured_.program.values.push_back(std::move(spec));
  if (is_input) captured_.program.inputs.push_back(value);
  return value;
}

std::size_t Recorder::add_value(const Array& array, bool is_input) {
  const std::size_t value = add_value(array.spec(), is_input);
  known_[array.storage().get()].push_back({array, value});
  return value;
}

std::size_t Recorder::value_of(const Array& array) {
  const auto found = known_.find(array.storage().get());
  if (found == known_.end()) return add_value(array, true);
  for (const Known& known : found->second)
    if (lie_alike(known.array, array)) return known.value;
  for (const Known& known : found->second) {
    if (!holds(known.array, array)) continue;
    ProgramNode& node = add_node(NodeKind::view, {known.value});
    node.strides = array.strides();
    node.offset = array.offset() - known.array.offset();
    const std::size_t at = captured_.program.nodes.size() - 1;
    const std::size_t value = add_value(array, false);
    captured_.program.nodes[at].outputs = {value};
    return value;
  }
  return add_value(array, true);
}

std::vector<std::size_t> Recorder::values_of(std::span<const Array> arrays) {
  std::vector<std::size_t> values;
  for (const Array& array : arrays) values.push_back(value_of(array));
  return values;
}

std::size_t Recorder::group_of(const ProgramGroup& group) {
  std::vector<ProgramGroup>& groups = captured_.program.groups;
  const auto found = std::find(groups.begin(), groups.end(), group);
  if (found != groups.end()) return static_cast<std::size_t>(found - groups.begin());
  groups.push_back(group);
  return groups.size() - 1;
}

ProgramNode& Recorder::add_node(NodeKind kind, std::vector<std::size_t> inputs) {
  ProgramNode& node = captured_.program.nodes.emplace_back();
  node.kind = kind;
  node.inputs = std::move(inputs);
  node.is_backward = is_backward_pass;
  return node;
}

void Recorder::record_collective(const Collective& collective, std::span<const Array> inputs,
                                 std::span<const Array> outputs, const Where& where) {
  const ReduceKind kind = collective.reduction.kind();
  if (kind == ReduceKind::custom || kind == ReduceKind::opaque)
    refuse("capture", "a reduction of the program's own cannot be data",
           "gather, and reduce in a functional::apply()");
  captured_.program.rank = where.rank();
  std::vector<std::size_t> taken = values_of(inputs);
  ProgramNode& node = add_node(NodeKind::collective, std::move(taken));
  node.collective = collective;
  node.group = group_of({where.tag(), where.ranks()});
  flights_[outputs.front().storage()->flight().get()] = captured_.program.nodes.size() - 1;
  for (const Array& output : outputs) node.outputs.push_back(add_value(output, false));
}

void Recorder::record_wait(const Flight& flight) {
  const auto found = flights_.find(&flight);
  if (found == flights_.end()) return;  // of a call that was made before
  const ProgramNode& origin = captured_.program.nodes[found->second];
  const bool is_backward = origin.is_backward;
  std::vector<std::size_t> results = origin.outputs;
  add_node(NodeKind::wait, std::move(results)).is_backward = is_backward;
}

void Recorder::record_copy(const Array& from, const Array& to) {
  std::vector<std::size_t> taken = {value_of(from)};
  add_node(NodeKind::copy, std::move(taken)).outputs = {add_value(to, false)};
}

void Recorder::record_step(std::string_view name, std::span<const Array> inputs,
                           const Array& result, const Step& step) {
  std::vector<std::size_t> taken = values_of(inputs);
  ProgramNode& node = add_node(NodeKind::step, std::move(taken));
  node.step = name;
  node.step_number = captured_.steps.size();
  captured_.steps.push_back(step);
  node.outputs = {add_value(result, false)};
}

void Recorder::give(std::span<const Array> outputs) {
  captured_.program.outputs = values_of(outputs);
}

void Recorder::give_the_rest() {
  Program& program = captured_.program;
  std::vector<bool> is_taken(program.values.size());
  for (const ProgramNode& node : program.nodes)
    if (node.kind != NodeKind::wait)
      for (const std::size_t value : node.inputs) is_taken[value] = true;
  for (const ProgramNode& node : program.nodes)
    for (const std::size_t value : node.outputs)
      if (!is_taken[value]) program.outputs.push_back(value);
}

NotRecorded::NotRecorded() : recorder_(recorder_of_this_thread) {
  recorder_of_this_thread = nullptr;
}
NotRecorded::~NotRecorded() { recorder_of_this_thread = recorder_; }

Backward::Backward() : before_(is_backward_pass) { is_backward_pass = true; }
Backward::~Backward() { is_backward_pass = before_; }

}  // namespace hymn::functional::detail

namespace hymn {

Captured capture(const std::function<void()>& function) {
  functional::detail::Recorder recorder;
  function();
  recorder.give_the_rest();
  return recorder.take();
}

Captured capture(std::span<const Array> inputs,
                 const std::function<std::vector<Array>(std::span<const Array> inputs)>& function) {
  functional::detail::Recorder recorder;
  for (const Array& input : inputs) recorder.add_input(input);
  const std::vector<Array> outputs = function(inputs);
  recorder.give(outputs);
  return recorder.take();
}

}  // namespace hymn
