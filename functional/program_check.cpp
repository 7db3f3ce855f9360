// Whether a program can be one: it may come from a file.
#include <algorithm>
#include <cstdlib>

#include "functional/fail.hpp"
#include "functional/layout.hpp"
#include "functional/program.hpp"

namespace hymn {
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
    if (node.kind != NodeKind::wait && !node.calls.empty()) fail("it is no wait for calls");
    switch (node.kind) {
      case NodeKind::collective:
        return require_collective(node, taken, made);
      case NodeKind::call:
        return require_call(node, taken, made);
      case NodeKind::wait:
        if (!made.empty()) fail("a wait makes nothing");
        return require_calls(node.calls);
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

  void require_calls(const std::vector<std::size_t>& calls) const {
    for (const std::size_t call : calls)
      if (call >= node_ || program_.nodes[call].kind != NodeKind::call)
        fail("it waits for node " + std::to_string(call) + ", which is no call before it");
  }

  void require_call(const ProgramNode& node, std::span<const ArraySpec> taken,
                    std::span<const ArraySpec> made) const {
    if (node.group >= program_.groups.size()) fail("there is no group of this number");
    const ProgramCall& call = node.call;
    const std::vector<int>& ranks = program_.groups[node.group].ranks;
    const bool has_peer = is_message(call.type) || traits_of(call.type).root != RootRole::none;
    const bool is_known = std::ranges::find(ranks, call.peer) != ranks.end() ||
                          (call.peer == any_source && awaits_message(call.type));
    if (!is_collective(call.type) && !is_message(call.type)) fail("it is of no call");
    if (has_peer && !is_known) fail("its peer is not in the group");
    const bool is_root = call.peer == program_.rank;
    if (!takes_inputs(call.type, is_root) && !taken.empty()) fail("its inputs are of another rank");
    if (!uses_outputs(call.type, is_root) && !made.empty()) fail("its outputs are of another rank");
    if (takes_inputs(call.type, is_root))
      require_side({call.input, traits_of(call.type).input, call.input_counts}, taken,
                   ranks.size());
    if (uses_outputs(call.type, is_root))
      require_side({call.output, traits_of(call.type).output, call.output_counts}, made,
                   ranks.size());
    require_following(node);
  }

  // One step is enough: the next node is looked at, too.
  void require_following(const ProgramNode& node) const {
    if (node.call.following == 0) return;
    const ProgramNode* const next =
        node_ + 1 < program_.nodes.size() ? &program_.nodes[node_ + 1] : nullptr;
    if (next == nullptr || next->kind != NodeKind::call || next->group != node.group ||
        next->call.following != node.call.following - 1 ||
        is_message(next->call.type) != is_message(node.call.type))
      fail("the calls that are one with it do not follow");
  }

  struct Side {
    Layout layout;
    SideForm form;
    const std::vector<std::size_t>& counts;
  };
  void require_side(const Side& side, std::span<const ArraySpec> buffers, std::size_t ranks) const {
    const bool are_blocks = side.layout == Layout::equal || side.layout == Layout::counted ||
                            side.layout == Layout::list;
    const bool is_right = side.form == SideForm::none    ? side.layout == Layout::none
                          : side.form == SideForm::whole ? side.layout == Layout::whole
                                                         : are_blocks;
    if (!is_right) fail("a side of the call has another layout");
    const std::size_t wanted = side.layout == Layout::none   ? 0
                               : side.layout == Layout::list ? ranks
                                                             : 1;
    if (buffers.size() != wanted) fail("the call has another number of buffers");
    for (const ArraySpec& buffer : buffers)
      if (buffer.shape.size() != 1 || buffer.dtype != buffers.front().dtype)
        fail("a buffer of the call has more than one dimension, or another dtype");
    if (side.layout == Layout::equal && buffers[0].count() % static_cast<std::int64_t>(ranks) != 0)
      fail("the buffer is no equal blocks");
    if (side.layout == Layout::counted) require_counts(side.counts, buffers[0].count(), ranks);
  }

  void require_counts(const std::vector<std::size_t>& counts, std::int64_t elements,
                      std::size_t ranks) const {
    std::size_t sum = 0;
    for (const std::size_t count : counts) {
      if (count > static_cast<std::size_t>(elements)) fail("a block is larger than its buffer");
      sum += count;
    }
    if (counts.size() != ranks || sum != static_cast<std::size_t>(elements))
      fail("the blocks are not those of the buffer");
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

}  // namespace functional::detail
}  // namespace hymn
