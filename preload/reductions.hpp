// MPI's operations as hymn's.
#pragma once

#include <cstddef>

#include "hymn/types.hpp"
#include "preload/mpi.hpp"
#include "preload/reasons.hpp"
#include "preload/staging.hpp"

namespace hymn::preload {

/// What hymn calls it; ReduceKind::custom: an operation of the program, or of pairs.
ReduceKind kind_of_op(MPI_Op op);

/// How values of one type are reduced by one operation: by hymn itself where it has the type and
/// means the same by the operation, else by what MPI does with two buffers (MPI_Reduce_local),
/// which calls functions of the program, too. It stays where it is while a call uses it.
class Reduction {
 public:
  /// `keep_bits`: sums and products of floating-point numbers are MPI's.
  Reduction(MPI_Op op, MPI_Datatype type, const TypeInfo& info, bool keep_bits);
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  /// Why it is left to MPI; the same on all ranks.
  Reason reason() const { return reason_; }
  const ReduceOp& op() const { return op_; }
  /// MPI allows other orders of the ranks.
  bool commutes() const { return commutes_; }
  /// A view of `count` elements as they travel.
  template <class View, class Data>
  View view(Data* data, std::size_t count) const {
    View made(data, count, dtype_);
    if (dtype_ == DataType::value) made.opaque = &value_;
    return made;
  }

 private:
  void use_mpi();
  static void combine(void* inout, const void* in, std::size_t count, void* reduction);
  void combine_flat(std::byte* lower, const std::byte* higher, int count) const;
  void combine_packed(std::byte* lower, const std::byte* higher, int count) const;

  MPI_Op mpi_op_;
  MPI_Datatype type_;
  TypeInfo info_;
  std::size_t at_once_ = 1;  ///< elements for one call of MPI_Reduce_local
  bool commutes_ = true;
  Reason reason_ = Reason::carried;
  ReduceOp op_{};
  DataType dtype_;
  OpaqueType value_{};
  CustomReduction custom_{};
};

}  // namespace hymn::preload
