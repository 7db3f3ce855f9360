// Programs as Graphviz draws them.
#include <string>

#include "functional/fail.hpp"
#include "functional/program.hpp"

namespace hymn {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += letter;
  }
  return result + "\"";
}

std::string told(const ArraySpec& value) {
  return std::string(to_string(value.dtype)) + " " + functional::detail::listed(value.shape);
}

std::string label_of(const Program& program, const ProgramNode& node) {
  std::string label = name_of(node);
  if (!functional::detail::makes_call(node)) return label;
  if (reduces(type_of(node))) label += " " + std::string(to_string(reduction_of(node).kind()));
  const ProgramGroup& group = program.groups[node.group];
  return label + " " + group.tag + " " + functional::detail::listed(group.ranks);
}

std::string line(const std::string& from, const std::string& to, const std::string& label) {
  return "  " + from + " -> " + to + " [label=" + quoted(label) + "];\n";
}

}  // namespace

std::string Program::to_dot() const {
  const std::vector<std::size_t> makers = functional::detail::makers_of(*this);
  const auto source = [&](std::size_t value) {
    return makers[value] == functional::detail::no_node ? "v" + std::to_string(value)
                                                        : "n" + std::to_string(makers[value]);
  };
  std::string text = "digraph program {\n";
  for (const std::size_t value : inputs)
    text += "  v" + std::to_string(value) + " [label=" + quoted("input") + "];\n";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string name = "n" + std::to_string(i);
    text += "  " + name + " [shape=box,label=" + quoted(label_of(*this, nodes[i])) + "];\n";
    for (const std::size_t value : nodes[i].inputs)
      text += line(source(value), name, told(values[value]));
    for (const std::size_t call : nodes[i].calls)
      text += line("n" + std::to_string(call), name, "ends");
  }
  if (!outputs.empty()) text += "  outputs [shape=plaintext];\n";
  for (const std::size_t value : outputs)
    text += line(source(value), "outputs", told(values[value]));
  return text + "}\n";
}

}  // namespace hymn
