#include "p2p/mpi/mpi_types.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>

namespace hymn {
namespace {

template <class Handle>
const void* pack_handle(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return handle;
  else
    return reinterpret_cast<const void*>(static_cast<std::intptr_t>(handle));
}

template <class Handle>
Handle unpack_handle(const void* pointer) {
  if constexpr (std::is_pointer_v<Handle>)
    return static_cast<Handle>(const_cast<void*>(pointer));
  else
    return static_cast<Handle>(reinterpret_cast<std::intptr_t>(pointer));
}

/// Of values of that size; one for each size that the program uses, until MPI is finalized.
MPI_Datatype type_of_bytes(std::size_t bytes) {
  static std::mutex mutex;
  static std::map<std::size_t, MPI_Datatype> made;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = made.try_emplace(bytes, MPI_DATATYPE_NULL);
  if (is_new) {
    check_mpi(PMPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &found->second),
              "MPI_Type_contiguous");
    check_mpi(PMPI_Type_commit(&found->second), "MPI_Type_commit");
  }
  return found->second;
}

}  // namespace

MPI_Datatype mpi_type(DataType dtype, const OpaqueType* opaque) {
  switch (dtype) {
    case DataType::boolean:
    case DataType::uint8:
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
      return MPI_UINT8_T;
    case DataType::int8:
      return MPI_INT8_T;
    case DataType::int16:
      return MPI_INT16_T;
    case DataType::uint16:
      return MPI_UINT16_T;
    case DataType::int32:
      return MPI_INT32_T;
    case DataType::uint32:
      return MPI_UINT32_T;
    case DataType::int64:
      return MPI_INT64_T;
    case DataType::uint64:
      return MPI_UINT64_T;
    case DataType::float16:
    case DataType::bfloat16:
      return MPI_UINT16_T;
    case DataType::float32:
      return MPI_FLOAT;
    case DataType::float64:
      return MPI_DOUBLE;
    case DataType::complex64:
      return MPI_C_FLOAT_COMPLEX;
    case DataType::complex128:
      return MPI_C_DOUBLE_COMPLEX;
    case DataType::value:
      return type_of_bytes(opaque->element_bytes);
    case DataType::opaque:
      return unpack_handle<MPI_Datatype>(opaque->handle);
  }
  return MPI_DATATYPE_NULL;
}

// Of half the types it knows the bits alone, and booleans are bytes to it unless it is told so.
MPI_Datatype mpi_arithmetic_type(DataType dtype) {
  switch (traits_of(dtype).family) {
    case DataFamily::boolean:
      return MPI_C_BOOL;
    case DataFamily::integer:
    case DataFamily::complex:
      return mpi_type(dtype, nullptr);
    case DataFamily::floating:
      return dtype == DataType::float32 || dtype == DataType::float64 ? mpi_type(dtype, nullptr)
                                                                      : MPI_DATATYPE_NULL;
    case DataFamily::float8:
    case DataFamily::value:
    case DataFamily::opaque:
      break;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op mpi_operation(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::sum:
      return MPI_SUM;
    case ReduceKind::product:
      return MPI_PROD;
    case ReduceKind::min:
      return MPI_MIN;
    case ReduceKind::max:
      return MPI_MAX;
    case ReduceKind::band:
      return MPI_BAND;
    case ReduceKind::bor:
      return MPI_BOR;
    case ReduceKind::bxor:
      return MPI_BXOR;
    case ReduceKind::land:
      return MPI_LAND;
    case ReduceKind::lor:
      return MPI_LOR;
    case ReduceKind::lxor:
      return MPI_LXOR;
    case ReduceKind::avg:
    case ReduceKind::premul_sum:
    case ReduceKind::custom:
    case ReduceKind::opaque:
      break;
  }
  return MPI_OP_NULL;
}

Verdict knows_types(const Request& request) {
  std::string stranger;
  auto look = [&stranger](const OpaqueType* opaque) {
    if (opaque != nullptr && !opaque->library.empty() && opaque->library != "mpi")
      stranger = opaque->library;
  };
  for (const auto& view : request.inputs.views()) look(view.opaque);
  for (const auto& view : request.outputs.views()) look(view.opaque);
  if (stranger.empty()) return Verdict::yes();
  return Verdict::no("unknown type of the library '" + stranger + "'");
}

const void* type_as_pointer(MPI_Datatype datatype) { return pack_handle(datatype); }
const void* op_as_pointer(MPI_Op op) { return pack_handle(op); }
MPI_Op op_from_pointer(const void* handle) { return unpack_handle<MPI_Op>(handle); }

LargeType::LargeType(MPI_Datatype element, std::size_t count, std::size_t chunk_limit)
    : type_(element), count_(static_cast<int>(count)) {
  if (count <= chunk_limit) return;
  // Whole chunks as one vector, then the remainder behind it.
  const std::size_t chunks = count / chunk_limit;
  const std::size_t rest = count % chunk_limit;
  MPI_Aint low = 0;
  MPI_Aint extent = 0;
  check_mpi(PMPI_Type_get_extent(element, &low, &extent), "MPI_Type_get_extent");
  MPI_Datatype chunk = MPI_DATATYPE_NULL;
  MPI_Datatype whole = MPI_DATATYPE_NULL;
  check_mpi(PMPI_Type_contiguous(static_cast<int>(chunk_limit), element, &chunk),
            "MPI_Type_contiguous");
  check_mpi(PMPI_Type_contiguous(static_cast<int>(chunks), chunk, &whole), "MPI_Type_contiguous");
  int lengths[] = {1, static_cast<int>(rest)};
  MPI_Aint offsets[] = {0, static_cast<MPI_Aint>(chunks * chunk_limit) * extent};
  MPI_Datatype parts[] = {whole, element};
  check_mpi(PMPI_Type_create_struct(2, lengths, offsets, parts, &type_), "MPI_Type_create_struct");
  made_ = true;
  count_ = 1;
  check_mpi(PMPI_Type_commit(&type_), "MPI_Type_commit");
  PMPI_Type_free(&whole);
  PMPI_Type_free(&chunk);
}

// MPI keeps a freed type alive for the messages that still use it.
LargeType::~LargeType() {
  if (made_) PMPI_Type_free(&type_);
}

}  // namespace hymn
