// How a reduction's buffers, type and operation are given to MPI.
#pragma once

#include "collectives/mpi/mpi_collective.hpp"
#include "collectives/mpi/mpi_ops.hpp"

namespace hymn {

/// Either MPI reduces the user's buffers as they are, or load() first brings the input into
/// accumulators (in the output where they have its size, else in staging), which MPI reduces in
/// place of the input and finish() turns into the result.
class MpiReduction {
 public:
  /// `input` holds `count` elements; `output` as many, or is null where this rank gets no result.
  MpiReduction(const Request& request, const void* input, void* output, std::size_t count,
               const MpiChannel& channel, MpiKept& kept);

  /// When the operation starts, with the same input: before that it need not be there.
  void load(const void* input, std::size_t count) const;
  /// What to send: accumulators, or the user's input.
  const void* source() const { return source_; }
  /// Where MPI's result goes; null where there is none. May be equal to source(): then in place.
  void* target() const { return target_; }
  MPI_Datatype type() const { return type_; }
  MPI_Op op() const { return op_; }
  std::size_t element_bytes() const { return bytes_; }
  /// Turns `count` accumulators at `accumulators` into results at `output`.
  void finish(void* output, const void* accumulators, std::size_t count, int ranks) const;

 private:
  Reducer reducer_{};
  const void* source_ = nullptr;
  void* target_ = nullptr;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  MPI_Op op_ = MPI_OP_NULL;
  std::size_t bytes_ = 0;
};

/// Whether MPI reduces for so many ranks; and whether it reduces this at all.
Verdict mpi_can_reduce_among(int ranks);
Verdict mpi_can_reduce(const Request& request, GroupShape shape);

}  // namespace hymn
