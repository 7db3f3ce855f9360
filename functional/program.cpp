#include "functional/program.hpp"

#include <algorithm>

#include "functional/fail.hpp"

namespace hymn {

std::string name_of(const ProgramNode& node) {
  switch (node.kind) {
    case NodeKind::collective:
      return std::string(traits_of(node.collective.operation).name);
    case NodeKind::call:
      return std::string(traits_of(node.call.type).name);
    case NodeKind::step:
      return "step '" + node.step + "'";
    case NodeKind::wait:
    case NodeKind::view:
    case NodeKind::copy:
      break;
  }
  return std::string(traits_of(node.kind).name);
}

OpType type_of(const ProgramNode& node) {
  return node.kind == NodeKind::call ? node.call.type : traits_of(node.collective.operation).type;
}

ReduceOp reduction_of(const ProgramNode& node) {
  return node.kind == NodeKind::call ? node.call.reduction : node.collective.reduction;
}

std::optional<DataType> dtype_of(const Program& program, const ProgramNode& node) {
  const std::vector<std::size_t>& some = node.inputs.empty() ? node.outputs : node.inputs;
  if (some.empty()) return std::nullopt;
  return program.values[some.front()].dtype;
}

std::size_t Program::count(std::string_view name) const {
  return count(name, false) + count(name, true);
}

std::size_t Program::count(std::string_view name, bool is_backward) const {
  return static_cast<std::size_t>(
      std::count_if(nodes.begin(), nodes.end(), [&](const ProgramNode& node) {
        return node.is_backward == is_backward &&
               (name_of(node) == name || traits_of(node.kind).name == name);
      }));
}

namespace functional::detail {

std::vector<std::size_t> makers_of(const Program& program) {
  std::vector<std::size_t> makers(program.values.size(), no_node);
  for (std::size_t node = 0; node < program.nodes.size(); ++node)
    for (const std::size_t value : program.nodes[node].outputs) makers[value] = node;
  return makers;
}

std::vector<std::size_t> flights_of(const Program& program) {
  std::vector<std::size_t> flights(program.values.size(), no_node);
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const ProgramNode& node = program.nodes[i];
    if (makes_call(node))
      for (const std::size_t value : node.outputs) flights[value] = i;
    if (node.kind == NodeKind::view) flights[node.outputs[0]] = flights[node.inputs[0]];
  }
  return flights;
}

std::string described(const Program& program, std::size_t node) {
  const ProgramNode& what = program.nodes[node];
  std::string text = "node " + std::to_string(node) + " (" + name_of(what);
  for (std::size_t i = 0; i < what.inputs.size(); ++i) {
    const ArraySpec& value = program.values[what.inputs[i]];
    text +=
        (i == 0 ? " of " : ", ") + std::string(to_string(value.dtype)) + " " + listed(value.shape);
  }
  return text + ")";
}

}  // namespace functional::detail
}  // namespace hymn
