// Calls of ProcessGroup, as they are captured.
#include "functional/fail.hpp"
#include "functional/program.hpp"
#include "functional/recorder.hpp"

namespace hymn::functional::detail {
namespace {

/// Complex elements that are gathered count as pairs of reals: some ranks may give the one, and
/// take the other.
struct Counted {
  DataType dtype;
  std::size_t each = 1;
};
Counted counted_as(OpType type, DataType dtype) {
  if (type == OpType::all_gather && dtype == DataType::complex64) return {DataType::float32, 2};
  if (type == OpType::all_gather && dtype == DataType::complex128) return {DataType::float64, 2};
  return {dtype};
}

ArraySpec spec_of(OpType type, const ConstBufferView& view) {
  const Counted as = counted_as(type, view.dtype);
  return {{static_cast<std::int64_t>(as.each * view.count)}, as.dtype};
}

template <class View>
std::vector<std::size_t> counts_of(OpType type, const Blocks<View>& blocks) {
  std::vector<std::size_t> counts(blocks.counts().begin(), blocks.counts().end());
  for (std::size_t& count : counts) count *= counted_as(type, blocks.dtype()).each;
  return counts;
}

/// All that is wrong with it is told before anything is kept, and before it starts.
void require_data(const Request& request) {
  const ReduceKind kind = request.op.kind();
  if (reduces(request.type) && (kind == ReduceKind::custom || kind == ReduceKind::opaque))
    refuse("capture", "a reduction of the program's own cannot be data");
  const auto require = [](const auto& blocks) {
    for (const auto& view : blocks.views())
      if (size_of(view.dtype) == 0)
        refuse("capture", "elements of a type of the program's or MPI's own cannot be data",
               "send their bytes");
  };
  require(request.inputs);
  require(request.outputs);
}

}  // namespace

void Recorder::called(const ObservedCall& call) {
  if (current() != this || call.requests.empty()) return;
  if (call.requests.front().type == OpType::probe) return;  // it moves nothing
  for (const Request& request : call.requests) require_data(request);
  captured_.program.rank = call.rank;
  const ProgramGroup group{call.group.tag, call.group.ranks};
  std::vector<std::size_t> nodes;
  for (std::size_t i = 0; i < call.requests.size(); ++i) {
    nodes.push_back(captured_.program.nodes.size());
    record_request(call.requests[i], group, call.requests.size() - 1 - i);
  }
  if (call.work == 0)
    add_node(NodeKind::wait, {}).calls = std::move(nodes);
  else
    works_[call.work] = std::move(nodes);
}

void Recorder::waits(std::uint64_t work) {
  if (current() != this) return;
  // What was started before, or has been waited for, is none of it.
  if (auto nodes = works_.extract(work))
    add_node(NodeKind::wait, {}).calls = std::move(nodes.mapped());
}

void Recorder::record_request(const Request& request, const ProgramGroup& group,
                              std::size_t following) {
  const bool is_root = request.peer == captured_.program.rank;
  ProgramCall call{
      .type = request.type, .peer = request.peer, .tag = request.tag, .following = following};
  if (reduces(request.type)) call.reduction = request.op;
  call.input = request.inputs.layout();
  call.input_counts = counts_of(request.type, request.inputs);
  call.output = request.outputs.layout();
  call.output_counts = counts_of(request.type, request.outputs);
  std::vector<std::size_t> inputs;
  std::vector<std::size_t> outputs;
  if (takes_inputs(request.type, is_root))
    for (const ConstBufferView& view : request.inputs.views())
      inputs.push_back(add_value(spec_of(request.type, view), true));
  if (uses_outputs(request.type, is_root))
    for (const BufferView& view : request.outputs.views())
      outputs.push_back(add_value(spec_of(request.type, view), false));
  ProgramNode& node = add_node(NodeKind::call, std::move(inputs));
  node.outputs = std::move(outputs);
  node.call = std::move(call);
  node.group = group_of(group);
}

}  // namespace hymn::functional::detail
