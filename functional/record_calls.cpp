// Calls of ProcessGroup, as they are captured.
#include "functional/fail.hpp"
#include "functional/program.hpp"
#include "functional/recorder.hpp"

namespace hymn::functional::detail {
namespace {

ArraySpec spec_of(const ConstBufferView& view) {
  if (size_of(view.dtype) == 0)
    refuse("capture", "elements of a type of the program's or MPI's own cannot be data",
           "send their bytes");
  return {{static_cast<std::int64_t>(view.count)}, view.dtype};
}

template <class View>
std::vector<std::size_t> counts_of(const Blocks<View>& blocks) {
  return {blocks.counts().begin(), blocks.counts().end()};
}

}  // namespace

void Recorder::called(const ObservedCall& call) {
  // A probe moves nothing.
  if (current() != this || call.requests.front().type == OpType::probe) return;
  captured_.program.rank = call.rank;
  const ProgramGroup group{call.group.tag, call.group.ranks};
  std::vector<std::size_t> nodes;
  for (std::size_t i = 0; i < call.requests.size(); ++i) {
    nodes.push_back(captured_.program.nodes.size());
    record_request(call.requests[i], group, call.requests.size() - 1 - i);
  }
  if (call.work == nullptr)
    add_node(NodeKind::wait, {}).calls = std::move(nodes);
  else
    works_[call.work] = std::move(nodes);
}

void Recorder::waited(const void* work) {
  if (current() != this) return;
  // What was started before, or has been waited for, is none of it.
  if (auto nodes = works_.extract(work))
    add_node(NodeKind::wait, {}).calls = std::move(nodes.mapped());
}

void Recorder::record_request(const Request& request, const ProgramGroup& group, std::size_t more) {
  const ReduceKind kind = request.op.kind();
  if (reduces(request.type) && (kind == ReduceKind::custom || kind == ReduceKind::opaque))
    refuse("capture", "a reduction of the program's own cannot be data");
  const bool is_root = request.peer == captured_.program.rank;
  ProgramCall call{.type = request.type, .peer = request.peer, .tag = request.tag, .more = more};
  if (reduces(request.type)) call.reduction = request.op;
  call.input = request.inputs.layout();
  call.input_counts = counts_of(request.inputs);
  call.output = request.outputs.layout();
  call.output_counts = counts_of(request.outputs);
  std::vector<std::size_t> inputs;
  std::vector<std::size_t> outputs;
  if (takes_inputs(request.type, is_root))
    for (const ConstBufferView& view : request.inputs.views())
      inputs.push_back(add_value(spec_of(view), true));
  if (uses_outputs(request.type, is_root))
    for (const BufferView& view : request.outputs.views())
      outputs.push_back(add_value(spec_of(view), false));
  ProgramNode& node = add_node(NodeKind::call, std::move(inputs));
  node.outputs = std::move(outputs);
  node.call = std::move(call);
  node.group = group_of(group);
}

}  // namespace hymn::functional::detail
