// hymn's types as MPI's, and MPI's handles as pointers.
#pragma once

#include "base/private.hpp"
#include "hymn/request.hpp"
#include "p2p/mpi/mpi_channel.hpp"
#include "p2p/verdict.hpp"

namespace hymn {

/// The MPI type that moves one element of this view, without changing a bit of it.
template <class Pointer>
MPI_Datatype mpi_type(const BasicBufferView<Pointer>& view);
MPI_Datatype mpi_type(DataType dtype, const OpaqueType* opaque);
template <class Pointer>
MPI_Datatype mpi_type(const BasicBufferView<Pointer>& view) {
  return mpi_type(view.dtype, view.opaque);
}

/// The MPI type of elements that MPI itself can reduce as what they are; MPI_DATATYPE_NULL where it
/// knows none of the kind.
HYMN_PRIVATE MPI_Datatype mpi_arithmetic_type(DataType dtype);
/// MPI's operation on numbers; MPI_OP_NULL where MPI has none of the kind.
HYMN_PRIVATE MPI_Op mpi_operation(ReduceKind kind);

/// Whether all opaque types of the request are MPI's.
Verdict knows_types(const Request& request);

/// MPI handles are pointers in some libraries and integers in others.
const void* type_as_pointer(MPI_Datatype datatype);
const void* op_as_pointer(MPI_Op op);
MPI_Op op_from_pointer(const void* handle);

/// Elements of one type as one: for messages of more elements than an MPI call can count.
class LargeType {
 public:
  LargeType(MPI_Datatype element, std::size_t count, std::size_t chunk_limit);
  LargeType(const LargeType&) = delete;
  LargeType& operator=(const LargeType&) = delete;
  ~LargeType();

  MPI_Datatype type() const { return type_; }
  int count() const { return count_; }

 private:
  MPI_Datatype type_;
  int count_;
  bool made_ = false;
};

}  // namespace hymn
