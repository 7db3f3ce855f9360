// What the preload knows of an MPI datatype.
#pragma once

#include <cstddef>
#include <mutex>
#include <unordered_map>

#include "hymn/types.hpp"
#include "preload/mpi.hpp"

namespace hymn::preload {

/// What MPI's operations are defined for.
enum class Family : unsigned char {
  none,  ///< it can be moved only
  c_integer,
  fortran_integer,
  floating,
  complex,
  logical,
  byte,
  pair,  ///< of MPI_MINLOC and MPI_MAXLOC
};

struct TypeInfo {
  std::size_t size = 0;   ///< bytes of the values of one element
  bool is_known = false;  ///< false: not committed, or none; its size says nothing
  bool is_flat = false;   ///< elements lie in memory as they travel: no gaps, in their order
  Family family = Family::none;
  /// The same numbers in hymn; DataType::opaque: it has none.
  DataType dtype = DataType::opaque;
};

/// All that a program can use; thread-safe once made.
class Types {
 public:
  Types();
  /// A type that is not committed, or none, is not known.
  TypeInfo find(MPI_Datatype type);
  /// Before MPI ends.
  void end();

 private:
  void add(MPI_Datatype type, Family family, bool is_signed = true);
  TypeInfo look(MPI_Datatype type);
  TypeInfo describe(MPI_Datatype type);
  bool is_flat(MPI_Datatype type);
  static int forget(MPI_Datatype type, int key, void* value, void* extra);

  const TypeInfo* known(MPI_Datatype type) const;

  std::unordered_map<MPI_Datatype, TypeInfo> predefined_;
  int key_ = MPI_KEYVAL_INVALID;
  std::mutex describing_{};  ///< two threads may meet a type at the same time
};

}  // namespace hymn::preload
