// Reductions of the program's own, as MPI's types and operations.
#pragma once

#include <memory>

#include "hymn/types.hpp"
#include "p2p/mpi/mpi_channel.hpp"
#include "p2p/mpi/mpi_types.hpp"

namespace hymn {

/// One call's. MPI hands no context to a function that it calls, but the type of the elements: so
/// that is made for the call, and has an attribute that says what is to be done.
class MpiCustom {
 public:
  MpiCustom(const CustomReduction& custom, std::shared_ptr<MpiGate> gate);
  MpiCustom(const MpiCustom&) = delete;
  MpiCustom& operator=(const MpiCustom&) = delete;
  ~MpiCustom();

  MPI_Datatype type() const { return type_; }
  MPI_Op op() const { return op_; }

 private:
  CustomReduction custom_;
  std::shared_ptr<MpiGate> gate_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  MPI_Op op_ = MPI_OP_NULL;
};

}  // namespace hymn
