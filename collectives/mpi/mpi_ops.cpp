#include "collectives/mpi/mpi_ops.hpp"

#include <fmt/format.h>

#include <array>
#include <mutex>
#include <utility>

#include "hymn/error.hpp"

namespace hymn {
namespace {

MPI_Datatype make_contiguous(int bytes) {
  MPI_Datatype made = MPI_DATATYPE_NULL;
  check_mpi(PMPI_Type_contiguous(bytes, MPI_BYTE, &made), "MPI_Type_contiguous");
  check_mpi(PMPI_Type_commit(&made), "MPI_Type_commit");
  return made;
}

template <std::size_t cell>
void combine_callback(void* other, void* accumulator, int* count, MPI_Datatype*) {
  constexpr auto form = static_cast<Accumulator>(cell / reduce_kind_count);
  constexpr auto kind = static_cast<ReduceKind>(cell % reduce_kind_count);
  static const CombineFunction combine = combine_function(form, kind);
  combine(accumulator, other, static_cast<std::size_t>(*count));
}

constexpr std::size_t cell_count = accumulator_count * reduce_kind_count;

template <std::size_t... cell>
constexpr std::array<MPI_User_function*, cell_count> callbacks(std::index_sequence<cell...>) {
  return {combine_callback<cell>...};
}

bool is_wide_integer(Accumulator form) {
  return form == Accumulator::int32 || form == Accumulator::uint32 || form == Accumulator::int64 ||
         form == Accumulator::uint64;
}
bool is_signed(Accumulator form) {
  return form == Accumulator::int32 || form == Accumulator::int64;
}
bool is_real(Accumulator form) {
  return form == Accumulator::float32 || form == Accumulator::float64;
}
bool is_complex(Accumulator form) {
  return form == Accumulator::complex64 || form == Accumulator::complex128;
}

// Whether MPI's own operation is taken. Not where hymn defines more than MPI does: NaN and signed
// zero in min and max, the bits of a complex product; and not where MPI cannot be trusted: Open MPI
// 4.1.4 saturates 8-bit sums on machines with AVX, MPICH 4.0.2 takes unsigned integers for signed
// when it compares them.
bool is_as_defined(Accumulator form, ReduceKind kind) {
  switch (kind) {
    case ReduceKind::sum:
      return is_wide_integer(form) || is_real(form) || is_complex(form);
    case ReduceKind::product:
      return is_wide_integer(form) || is_real(form);
    case ReduceKind::min:
    case ReduceKind::max:
      return is_signed(form);
    case ReduceKind::band:
    case ReduceKind::bor:
    case ReduceKind::bxor:
      return is_wide_integer(form);
    case ReduceKind::land:  // this and the next ones are combined by another
    case ReduceKind::lor:
    case ReduceKind::lxor:
    case ReduceKind::avg:
    case ReduceKind::premul_sum:
    case ReduceKind::custom:
    case ReduceKind::opaque:
      break;
  }
  return false;
}

MPI_Op make_op(std::size_t cell) {
  static constexpr auto functions = callbacks(std::make_index_sequence<cell_count>());
  const auto form = static_cast<Accumulator>(cell / reduce_kind_count);
  const auto kind = static_cast<ReduceKind>(cell % reduce_kind_count);
  if (combine_function(form, kind) == nullptr)
    throw Error(ErrorKind::internal, fmt::format("no kernel combines by {}", to_string(kind)));
  MPI_Op made = MPI_OP_NULL;
  check_mpi(PMPI_Op_create(functions[cell], 1, &made), "MPI_Op_create");
  return made;
}

}  // namespace

MPI_Datatype mpi_type(Accumulator form) {
  switch (form) {
    case Accumulator::boolean:
    case Accumulator::uint8:
      return MPI_UINT8_T;
    case Accumulator::int8:
      return MPI_INT8_T;
    case Accumulator::int32:
      return MPI_INT32_T;
    case Accumulator::uint32:
      return MPI_UINT32_T;
    case Accumulator::int64:
      return MPI_INT64_T;
    case Accumulator::uint64:
      return MPI_UINT64_T;
    case Accumulator::float32:
      return MPI_FLOAT;
    case Accumulator::float64:
      return MPI_DOUBLE;
    case Accumulator::complex64:
      return MPI_C_FLOAT_COMPLEX;
    case Accumulator::complex128:
      return MPI_C_DOUBLE_COMPLEX;
    case Accumulator::int128:
    case Accumulator::uint128: {
      static const MPI_Datatype wide = make_contiguous(16);
      return wide;
    }
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op mpi_op(Accumulator form, ReduceKind kind) {
  if (is_as_defined(form, kind)) return mpi_operation(kind);
  static std::mutex mutex;
  static std::array<MPI_Op, cell_count> made = [] {
    std::array<MPI_Op, cell_count> none;
    none.fill(MPI_OP_NULL);
    return none;
  }();
  const std::size_t cell =
      static_cast<std::size_t>(form) * reduce_kind_count + static_cast<std::size_t>(kind);
  std::lock_guard lock(mutex);
  if (made[cell] == MPI_OP_NULL) made[cell] = make_op(cell);
  return made[cell];
}

}  // namespace hymn
