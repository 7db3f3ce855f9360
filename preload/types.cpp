#include "preload/types.hpp"

#include <memory>
#include <vector>

#include "preload/quiet.hpp"

namespace hymn::preload {
namespace {

DataType integer_of(std::size_t size, bool is_signed) {
  switch (size) {
    case 1:
      return is_signed ? DataType::int8 : DataType::uint8;
    case 2:
      return is_signed ? DataType::int16 : DataType::uint16;
    case 4:
      return is_signed ? DataType::int32 : DataType::uint32;
    case 8:
      return is_signed ? DataType::int64 : DataType::uint64;
    default:
      return DataType::opaque;
  }
}

DataType dtype_of(Family family, std::size_t size, bool is_signed) {
  switch (family) {
    case Family::c_integer:
    case Family::fortran_integer:
      return integer_of(size, is_signed);
    case Family::byte:
      return DataType::uint8;
    case Family::floating:
      return size == 4 ? DataType::float32 : size == 8 ? DataType::float64 : DataType::opaque;
    case Family::complex:
      return size == 8 ? DataType::complex64 : size == 16 ? DataType::complex128 : DataType::opaque;
    case Family::none:
    case Family::logical:
    case Family::pair:
      break;
  }
  return DataType::opaque;
}

/// Of MPI's own types, which stay, the one that this thread has asked for last.
struct LastType {
  MPI_Datatype type{};
  const TypeInfo* info = nullptr;
};
constinit thread_local LastType last_type{};

/// Whether it stays, and must not be freed: those that MPI_Type_create_f90_real and its like give
/// are predefined, too.
bool is_of_mpi(int combiner) {
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
         combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

/// A handle that the caller must free, unless it is MPI's own.
void release(MPI_Datatype type) {
  int counts[3] = {};
  int combiner = MPI_COMBINER_NAMED;
  PMPI_Type_get_envelope(type, &counts[0], &counts[1], &counts[2], &combiner);
  if (!is_of_mpi(combiner)) PMPI_Type_free(&type);
}

/// MPI tells that of no type, but it packs nothing of those that are not.
bool is_committed(MPI_Datatype type) {
  std::byte nothing{};
  std::byte to{};
  int place = 0;
  return PMPI_Pack(&nothing, 0, type, &to, 1, &place, quiet_comm()) == MPI_SUCCESS;
}

}  // namespace

Types::Types() {
  PMPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, forget, &key_, nullptr);
  for (const MPI_Datatype type :
       {MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT8_T, MPI_INT16_T,
        MPI_INT32_T, MPI_INT64_T, MPI_AINT, MPI_OFFSET, MPI_COUNT})
    add(type, Family::c_integer);
  for (const MPI_Datatype type :
       {MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG,
        MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T})
    add(type, Family::c_integer, false);
  for (const MPI_Datatype type :
       {MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8})
    add(type, Family::fortran_integer);
  for (const MPI_Datatype type : {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_REAL, MPI_REAL4,
                                  MPI_REAL8, MPI_DOUBLE_PRECISION})
    add(type, Family::floating);
  for (const MPI_Datatype type :
       {MPI_C_COMPLEX, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_C_LONG_DOUBLE_COMPLEX,
        MPI_CXX_FLOAT_COMPLEX, MPI_CXX_DOUBLE_COMPLEX, MPI_CXX_LONG_DOUBLE_COMPLEX, MPI_COMPLEX,
        MPI_COMPLEX8, MPI_COMPLEX16, MPI_DOUBLE_COMPLEX})
    add(type, Family::complex);
  for (const MPI_Datatype type : {MPI_C_BOOL, MPI_CXX_BOOL, MPI_LOGICAL})
    add(type, Family::logical);
  for (const MPI_Datatype type :
       {MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT, MPI_LONG_DOUBLE_INT,
        MPI_2REAL, MPI_2DOUBLE_PRECISION, MPI_2INTEGER})
    add(type, Family::pair);
  for (const MPI_Datatype type : {MPI_CHAR, MPI_WCHAR, MPI_CHARACTER, MPI_PACKED})
    add(type, Family::none);
  add(MPI_BYTE, Family::byte);
}

// What this MPI does not have is MPI_DATATYPE_NULL, or of no size.
void Types::add(MPI_Datatype type, Family family, bool is_signed) {
  if (type == MPI_DATATYPE_NULL) return;
  int size = 0;
  MPI_Aint low = 0;
  MPI_Aint extent = 0;
  if (PMPI_Type_size(type, &size) != MPI_SUCCESS || size <= 0) return;
  PMPI_Type_get_extent(type, &low, &extent);
  TypeInfo info;
  info.size = static_cast<std::size_t>(size);
  info.is_known = true;
  info.is_flat = low == 0 && extent == size;
  info.family = family;
  info.dtype = dtype_of(family, info.size, is_signed);
  predefined_.emplace(type, info);
}

TypeInfo Types::find(MPI_Datatype type) {
  LastType& last = last_type;
  if (last.type == type && last.info != nullptr) [[likely]]
    return *last.info;
  const auto found = predefined_.find(type);
  if (found != predefined_.end()) {
    last = {type, &found->second};
    return found->second;
  }
  return type == MPI_DATATYPE_NULL ? TypeInfo() : look(type);
}

// Null: not yet, or MPI refuses.
const TypeInfo* Types::known(MPI_Datatype type) const {
  void* value = nullptr;
  int is_known = 0;
  if (PMPI_Type_get_attr(type, key_, &value, &is_known) != MPI_SUCCESS) return nullptr;
  return is_known != 0 ? static_cast<const TypeInfo*>(value) : nullptr;
}

// What is known once stays: no thread has it taken away while it reads.
TypeInfo Types::look(MPI_Datatype type) {
  if (const TypeInfo* const info = known(type)) return *info;
  const std::lock_guard lock(describing_);
  if (const TypeInfo* const info = known(type)) return *info;
  auto info = std::make_unique<TypeInfo>(describe(type));
  const TypeInfo described = *info;
  // It may be committed later.
  if (!described.is_known) return described;
  if (PMPI_Type_set_attr(type, key_, info.get()) == MPI_SUCCESS) info.release();
  return described;
}

TypeInfo Types::describe(MPI_Datatype type) {
  // An int does not hold all sizes.
  MPI_Count size = 0;
  TypeInfo info;
  if (!is_committed(type) || PMPI_Type_size_x(type, &size) != MPI_SUCCESS || size < 0) return info;
  info.size = static_cast<std::size_t>(size);
  info.is_known = true;
  info.is_flat = is_flat(type);
  return info;
}

// That size and extent agree is not enough: a struct may list its members in another order than
// they lie in.
bool Types::is_flat(MPI_Datatype type) {
  const auto found = predefined_.find(type);
  if (found != predefined_.end()) return found->second.is_flat;
  int integers = 0;
  int addresses = 0;
  int types = 0;
  int combiner = 0;
  if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS)
    return false;
  if (combiner != MPI_COMBINER_CONTIGUOUS && combiner != MPI_COMBINER_DUP) return false;
  int count = 0;
  MPI_Datatype inner = MPI_DATATYPE_NULL;
  if (PMPI_Type_get_contents(type, integers, addresses, types, &count, nullptr, &inner) !=
      MPI_SUCCESS)
    return false;
  const bool flat = is_flat(inner);
  release(inner);
  return flat;
}

int Types::forget(MPI_Datatype, int, void* value, void*) {
  delete static_cast<TypeInfo*>(value);
  return MPI_SUCCESS;
}

void Types::end() {
  last_type = {};
  if (key_ != MPI_KEYVAL_INVALID) PMPI_Type_free_keyval(&key_);
}

}  // namespace hymn::preload
