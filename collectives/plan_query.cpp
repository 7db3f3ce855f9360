#include "collectives/plan_query.hpp"

namespace hymn {

std::optional<PlanQuery> plan_query(const Request& request, int ranks) {
  const auto is_even = [](Layout layout) {
    return layout == Layout::whole || layout == Layout::equal;
  };
  const OpType type = request.type;
  if (!is_collective(type) || ranks < 1) return std::nullopt;
  if (type == OpType::barrier) return PlanQuery{.type = type, .memory = request.memory()};
  if (!is_even(request.inputs.layout()) || !is_even(request.outputs.layout())) return std::nullopt;
  const ConstBufferView& in = request.inputs.flat();
  const BufferView& out = request.outputs.flat();
  // One block of every rank, where one side has blocks: told by the other side.
  const bool counts_block = has_input_blocks(type) != has_output_blocks(type);
  const bool counts_output = counts_block && has_input_blocks(type);
  PlanQuery query{
      .type = type, .dtype = counts_output ? out.dtype : in.dtype, .memory = request.memory()};
  // How long these take nobody has measured.
  if (size_of(query.dtype) == 0 || request.op.kind() == ReduceKind::custom ||
      request.op.kind() == ReduceKind::opaque)
    return std::nullopt;
  query.op = request.op.kind();
  query.bytes = (counts_output ? out.count : in.count) * size_of(query.dtype) *
                static_cast<std::size_t>(counts_block ? ranks : 1);
  return query;
}

}  // namespace hymn
