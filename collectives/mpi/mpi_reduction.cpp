#include "collectives/mpi/mpi_reduction.hpp"

#include <cstring>

namespace hymn {

MpiReduction::MpiReduction(const Request& request, const void* input, void* output,
                           std::size_t count, const MpiChannel& channel, MpiKept& kept)
    : source_(input), target_(output) {
  const ConstBufferView& view = request.inputs.views().front();
  bytes_ = view.element_bytes();
  if (request.op.kind() == ReduceKind::opaque) {
    type_ = mpi_type(view);
    op_ = op_from_pointer(request.op.handle());
    return;
  }
  if (const auto* custom = request.op.custom_reduction()) {
    kept.custom = std::make_unique<MpiCustom>(*custom, channel.gate);
    type_ = kept.custom->type();
    op_ = kept.custom->op();
    return;
  }
  reducer_ = reducer_for(view.dtype, request.op);
  type_ = mpi_type(reducer_.accumulator);
  op_ = mpi_op(reducer_.accumulator, reducer_.kind);
  bytes_ = reducer_.accumulator_bytes;
  if (!reducer_.needs_load()) return;
  void* accumulators = output;
  if (accumulators == nullptr || reducer_.accumulator_bytes != reducer_.element_bytes) {
    kept.staging = std::make_unique_for_overwrite<std::byte[]>(count * bytes_);
    accumulators = kept.staging.get();
  }
  source_ = accumulators;
  if (output != nullptr) target_ = accumulators;
}

void MpiReduction::load(const void* input, std::size_t count) const {
  if (reducer_.needs_load())
    reducer_.load(const_cast<void*>(source_), input, count, reducer_.factor);
}

void MpiReduction::finish(void* output, const void* accumulators, std::size_t count,
                          int ranks) const {
  if (output == nullptr || count == 0) return;
  if (reducer_.needs_store())
    reducer_.store(output, accumulators, count, ranks);
  else if (output != accumulators)
    std::memcpy(output, accumulators, count * bytes_);
}

// MPI only copies for one rank alone, but a minimum of one NaN is the canonical one.
Verdict mpi_can_reduce_among(int ranks) {
  if (ranks > 1) return Verdict::yes();
  return Verdict::no("one rank alone: MPI would copy without reducing");
}

Verdict mpi_can_reduce(const Request& request, GroupShape shape) {
  const bool opaque_type = request.inputs.dtype() == DataType::opaque;
  const bool opaque_op = request.op.kind() == ReduceKind::opaque;
  if (opaque_op) return Verdict::yes();
  if (opaque_type) return Verdict::no("an MPI type needs an MPI operation");
  if (Verdict ranks = mpi_can_reduce_among(shape.size); !ranks.ok) return ranks;
  std::string reason = refusal(request.inputs.dtype(), request.op.kind());
  return reason.empty() ? Verdict::yes() : Verdict::no(std::move(reason));
}

}  // namespace hymn
