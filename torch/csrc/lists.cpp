// The backend "hymn": collectives with a tensor for each rank.
#include "backend.hpp"
#include "errors.hpp"
#include "spans.hpp"

namespace hymn_torch {
namespace {

using Blocks = std::vector<hymnBlock_t>;

enum class Side { sent, received };

Blocks blocks_of(Call& call, const Tensors& tensors, Side side) {
  Blocks blocks;
  for (const at::Tensor& tensor : tensors) {
    const std::size_t count = count_of(tensor, call.name());
    void* const data =
        side == Side::sent ? call.buffers().input(tensor) : call.buffers().output(tensor);
    blocks.push_back({data, count});
    if (side == Side::received) call.operation().add_result(tensor);
  }
  return blocks;
}

/// What one collective has of lists.
struct Lists {
  hymnCollective_t collective;
  hymnDataType_t type;
  hymnOp_t op = hymnSum;
  int root = 0;
};

void start(Call& call, const Lists& lists, const Blocks& from, const Blocks& to) {
  call.start([&](hymnWork_t* work) {
    return hymnICollectiveList(lists.collective, from.empty() ? nullptr : from.data(),
                               to.empty() ? nullptr : to.data(), lists.type, lists.op, lists.root,
                               call.group(), call.stream(), work);
  });
}

Backend::WorkPtr run(Call& call, const Lists& lists, const Tensors& sent, const Tensors& received) {
  const Blocks from = blocks_of(call, sent, Side::sent);
  const Blocks to = blocks_of(call, received, Side::received);
  start(call, lists, from, to);
  return call.work();
}

/// One all_gather of several.
struct Part {
  hymnDataType_t type;
  Blocks from;
  Blocks to;
};

/// What hymn would refuse once those before it have been sent.
void require_valid(const Call& call, const Part& part, std::size_t element_bytes) {
  const hymnBlock_t& input = part.from.front();
  const hymnBlock_t& own = part.to[call.rank()];
  const std::string name = std::string("hymn: ") + call.name();
  if (own.count != input.count)
    throw_value_error(name + ": a rank's own output must have as many elements as its input");
  Spans spans;
  for (const hymnBlock_t& block : part.to)
    spans.add_written(block.data, block.count * element_bytes);
  if (input.data != own.data) spans.add_read(input.data, input.count * element_bytes);
  if (!spans.are_apart())
    throw_value_error(name + ": an output overlaps another one, or the input");
}

}  // namespace

Backend::WorkPtr Backend::allgather(TensorLists& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& options) {
  Call call(*this, c10d::OpType::ALLGATHER, "all_gather", "hymn:all_gather", &inputs,
            options.timeout);
  const at::Tensor& input = only(inputs, call.name());
  const Tensors& to = only(outputs, getSize(), call.name());
  const auto type = moved_type(type_of(input, to, call.name()), call.name());
  return run(call, {hymnCollectiveAllGather, type}, inputs, to);
}

// One after the other, as one operation.
Backend::WorkPtr Backend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  Call call(*this, c10d::OpType::ALLGATHER_COALESCED, "all_gather_coalesced",
            "hymn:all_gather_coalesced", &inputs, options.timeout);
  if (inputs.empty() || inputs.size() != outputs.size())
    throw_value_error("hymn: all_gather_coalesced takes a list of outputs for each input");
  std::vector<Part> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (outputs[i].size() != call.size())
      throw_value_error("hymn: all_gather_coalesced takes lists of " + std::to_string(getSize()) +
                        " tensors, one for each rank");
    const auto type = moved_type(type_of(inputs[i], outputs[i], call.name()), call.name());
    parts.push_back({type, blocks_of(call, {inputs[i]}, Side::sent),
                     blocks_of(call, outputs[i], Side::received)});
    require_valid(call, parts.back(), inputs[i].element_size());
  }
  for (const Part& part : parts)
    start(call, {hymnCollectiveAllGather, part.type}, part.from, part.to);
  return call.work();
}

Backend::WorkPtr Backend::gather(TensorLists& outputs, Tensors& inputs,
                                 const c10d::GatherOptions& options) {
  Call call(*this, c10d::OpType::GATHER, "gather", "hymn:gather", &inputs, options.timeout);
  const at::Tensor& input = only(inputs, call.name());
  const int root = call.world_rank(options.rootRank);
  const bool is_root = options.rootRank == getRank();
  if (!is_root && !outputs.empty()) throw_value_error("hymn: gather has outputs on the root alone");
  const Tensors to = is_root ? only(outputs, getSize(), call.name()) : Tensors();
  const auto type = moved_type(type_of(input, to, call.name()), call.name());
  return run(call, {hymnCollectiveGather, type, hymnSum, root}, inputs, to);
}

Backend::WorkPtr Backend::scatter(Tensors& outputs, TensorLists& inputs,
                                  const c10d::ScatterOptions& options) {
  Call call(*this, c10d::OpType::SCATTER, "scatter", "hymn:scatter",
            inputs.empty() ? nullptr : &inputs.front(), options.timeout);
  const at::Tensor& output = only(outputs, call.name());
  const int root = call.world_rank(options.rootRank);
  const bool is_root = options.rootRank == getRank();
  if (!is_root && !inputs.empty()) throw_value_error("hymn: scatter has inputs on the root alone");
  const Tensors from = is_root ? only(inputs, getSize(), call.name()) : Tensors();
  const auto type = moved_type(type_of(output, from, call.name()), call.name());
  return run(call, {hymnCollectiveScatter, type, hymnSum, root}, from, outputs);
}

Backend::WorkPtr Backend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  Call call(*this, c10d::OpType::REDUCE_SCATTER, "reduce_scatter", "hymn:reduce_scatter",
            inputs.empty() ? nullptr : &inputs.front(), options.timeout);
  const at::Tensor& output = only(outputs, call.name());
  const Tensors& from = only(inputs, getSize(), call.name());
  const auto type = reduced_type(type_of(output, from, call.name()), call.name());
  const hymnOp_t op = reduction(options.reduceOp, call.name());
  return run(call, {hymnCollectiveReduceScatter, type, op}, from, outputs);
}

Backend::WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs,
                                   const c10d::AllToAllOptions& options) {
  Call call(*this, c10d::OpType::ALLTOALL, "all_to_all", "hymn:all_to_all", &inputs,
            options.timeout);
  if (inputs.size() != call.size() || outputs.size() != call.size())
    throw_value_error("hymn: all_to_all takes two lists of " + std::to_string(getSize()) +
                      " tensors, one for each rank");
  type_of(inputs.front(), inputs, call.name());
  const auto type = moved_type(type_of(inputs.front(), outputs, call.name()), call.name());
  return run(call, {hymnCollectiveAllToAll, type}, inputs, outputs);
}

}  // namespace hymn_torch
