#include "functional/program.hpp"

#include <algorithm>
#include <cstdlib>

#include "functional/fail.hpp"
#include "functional/layout.hpp"

namespace hymn {

std::string name_of(const ProgramNode& node) {
  switch (node.kind) {
    case NodeKind::collective:
      return std::string(traits_of(node.collective.operation).name);
    case NodeKind::step:
      return "step '" + node.step + "'";
    case NodeKind::wait:
    case NodeKind::view:
    case NodeKind::copy:
      break;
  }
  return std::string(traits_of(node.kind).name);
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
namespace {

// Far more than there is; products of two of them do not overflow.
constexpr std::int64_t most_elements = std::int64_t{1} << 42;
constexpr std::size_t most_ranks = std::size_t{1} << 20;
constexpr std::size_t most_dimensions = 64;

class Checker {
 public:
  explicit Checker(const Program& program) : program_(program), is_made_(program.values.size()) {}

  void check() {
    for (const ProgramGroup& group : program_.groups) require_group(group);
    for (const ArraySpec& value : program_.values) require_size(value);
    for (const std::size_t value : program_.inputs) make(value);
    for (; node_ < program_.nodes.size(); ++node_) require_node(program_.nodes[node_]);
    for (const std::size_t value : program_.outputs) take(value);
    if (std::ranges::find(is_made_, false) != is_made_.end())
      fail("a value is neither an input nor made by a node");
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    const bool is_at_a_node = node_ < program_.nodes.size();
    refuse("Program", (is_at_a_node ? "node " + std::to_string(node_) + ": " : "") + problem);
  }

  void require_group(const ProgramGroup& group) const {
    std::vector<int> ranks = group.ranks;
    std::ranges::sort(ranks);
    const bool are_different = std::ranges::adjacent_find(ranks) == ranks.end();
    if (ranks.empty() || ranks.size() > most_ranks || !are_different || ranks.front() < 0)
      fail("the ranks of a group are not different ones");
    if (!std::ranges::binary_search(ranks, program_.rank))
      fail("rank " + std::to_string(program_.rank) + " is not in the group " + listed(group.ranks));
  }

  void require_size(const ArraySpec& value) const {
    if (size_of(value.dtype) == 0) fail("a value has no known type");
    if (value.shape.size() > most_dimensions) fail("a value has too many dimensions");
    std::int64_t count = 1;
    for (const std::int64_t size : value.shape) {
      if (size < 0 || size > most_elements) fail("the shape of a value is no shape");
      count = size == 0 ? 0 : count;
      if (count > 0 && count > most_elements / size) fail("a value has too many elements");
      count *= size;
    }
  }

  const ArraySpec& take(std::size_t value) const {
    if (value >= program_.values.size()) fail("there is no value " + std::to_string(value));
    if (!is_made_[value]) fail("value " + std::to_string(value) + " is taken before it is made");
    return program_.values[value];
  }

  const ArraySpec& make(std::size_t value) {
    if (value >= program_.values.size()) fail("there is no value " + std::to_string(value));
    if (is_made_[value]) fail("value " + std::to_string(value) + " is made twice");
    is_made_[value] = true;
    return program_.values[value];
  }

  void require_node(const ProgramNode& node) {
    std::vector<ArraySpec> taken;
    for (const std::size_t value : node.inputs) taken.push_back(take(value));
    std::vector<ArraySpec> made;
    for (const std::size_t value : node.outputs) made.push_back(make(value));
    const bool makes_one = made.size() == 1;
    switch (node.kind) {
      case NodeKind::collective:
        return require_collective(node, taken, made);
      case NodeKind::wait:
        if (!made.empty()) fail("a wait makes nothing");
        return;
      case NodeKind::view:
        if (!makes_one || taken.size() != 1) fail("a view is of one value");
        return require_view(node, taken.front(), made.front());
      case NodeKind::copy:
        if (!makes_one || taken.size() != 1 || taken != made) fail("a copy is as what it is of");
        return;
      case NodeKind::step:
        if (!makes_one) fail("a step makes one value");
        return;
    }
  }

  void require_collective(const ProgramNode& node, std::span<const ArraySpec> taken,
                          const std::vector<ArraySpec>& made) const {
    if (node.group >= program_.groups.size()) fail("there is no group of this number");
    for (const Splits* splits : {&node.collective.input_splits, &node.collective.output_splits})
      if (splits->has_value())
        for (const std::int64_t size : **splits)
          if (size > most_elements) fail("a split size is no size");
    std::vector<ArraySpec> results;
    try {
      results =
          results_of(node.collective, taken, where_of(program_.groups[node.group], program_.rank));
    } catch (const Error& error) {
      fail(error.what());
    }
    if (results != made) fail("its results have another shape or dtype");
  }

  /// So many steps of this many elements can be told.
  void require_distance(std::int64_t elements, std::int64_t steps) const {
    const bool is_far = elements < -most_elements || elements > most_elements ||
                        (steps > 0 && std::abs(elements) > most_elements / steps);
    if (is_far) fail("the view reaches out of what it is of");
  }

  void require_view(const ProgramNode& node, const ArraySpec& whole, const ArraySpec& view) const {
    if (node.strides.size() != view.shape.size() || whole.dtype != view.dtype)
      fail("the view has another dtype, or not a stride for each dimension");
    if (view.count() == 0) return;
    std::int64_t first = node.offset;
    std::int64_t last = node.offset;
    require_distance(node.offset, 1);
    for (std::size_t i = 0; i < view.shape.size(); ++i) {
      const std::int64_t steps = view.shape[i] - 1;
      require_distance(node.strides[i], steps);
      (node.strides[i] < 0 ? first : last) += steps * node.strides[i];
    }
    if (first < 0 || last >= whole.count()) fail("the view reaches out of what it is of");
  }

  const Program& program_;
  std::vector<bool> is_made_;
  std::size_t node_ = 0;
};

}  // namespace

void require_sound(const Program& program) { Checker(program).check(); }

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
    if (node.kind == NodeKind::collective)
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
