#include "preload/reductions.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>

namespace hymn::preload {
namespace {

/// Null for MPI_MINLOC, MPI_MAXLOC and operations of the program.
std::optional<ReduceKind> kind_of(MPI_Op op) {
  if (op == MPI_SUM) return ReduceKind::sum;
  if (op == MPI_MAX) return ReduceKind::max;
  if (op == MPI_MIN) return ReduceKind::min;
  if (op == MPI_PROD) return ReduceKind::product;
  if (op == MPI_LAND) return ReduceKind::land;
  if (op == MPI_LOR) return ReduceKind::lor;
  if (op == MPI_LXOR) return ReduceKind::lxor;
  if (op == MPI_BAND) return ReduceKind::band;
  if (op == MPI_BOR) return ReduceKind::bor;
  if (op == MPI_BXOR) return ReduceKind::bxor;
  return std::nullopt;
}

/// The table of section 5.9.2 of MPI 3.1.
bool is_defined(ReduceKind kind, Family family) {
  const bool is_integer = family == Family::c_integer || family == Family::fortran_integer;
  switch (traits_of(kind).family) {
    case ReduceFamily::order:
      return is_integer || family == Family::floating;
    case ReduceFamily::sum:
    case ReduceFamily::product:
      return is_integer || family == Family::floating || family == Family::complex;
    case ReduceFamily::logical:
      return family == Family::c_integer || family == Family::logical;
    case ReduceFamily::bitwise:
      return is_integer || family == Family::byte;
    case ReduceFamily::custom:
    case ReduceFamily::opaque:
      break;
  }
  return false;
}

bool has_rounding(ReduceKind kind, Family family) {
  const ReduceFamily of = traits_of(kind).family;
  return (of == ReduceFamily::sum || of == ReduceFamily::product) &&
         (family == Family::floating || family == Family::complex);
}

/// What functions may expect of the addresses that they are given.
bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % alignof(std::max_align_t) == 0;
}

}  // namespace

ReduceKind kind_of_op(MPI_Op op) { return kind_of(op).value_or(ReduceKind::custom); }

Reduction::Reduction(MPI_Op op, MPI_Datatype type, const TypeInfo& info, bool keep_bits)
    : mpi_op_(op), type_(type), info_(info), dtype_(info.dtype) {
  if (op == MPI_OP_NULL || info.size == 0) {
    reason_ = Reason::bad_arguments;
    return;
  }
  const std::optional<ReduceKind> kind = kind_of(op);
  if (!kind) {
    if ((op == MPI_MINLOC || op == MPI_MAXLOC) && info.family != Family::pair)
      reason_ = Reason::operation;
    else if (op == MPI_REPLACE || op == MPI_NO_OP)
      reason_ = Reason::operation;
    else
      use_mpi();
    return;
  }
  if (!is_defined(*kind, info.family)) {
    reason_ = Reason::operation;
  } else if (keep_bits && has_rounding(*kind, info.family)) {
    reason_ = Reason::bits;
  } else if (dtype_ == DataType::opaque) {
    use_mpi();
    // In the order of ranks, as hymn's own sums.
    custom_.commutative = custom_.commutative && !has_rounding(*kind, info.family);
  } else {
    op_ = ReduceOp::of(*kind);
  }
}

void Reduction::use_mpi() {
  MPI_Aint low = 0;
  MPI_Aint extent = 0;
  PMPI_Type_get_extent(type_, &low, &extent);
  // Gaps need memory, too.
  const std::size_t spread = info_.is_flat ? 1 : static_cast<std::size_t>(std::abs(extent));
  constexpr std::size_t most_flat = std::numeric_limits<int>::max() / 2;
  const std::size_t most = info_.is_flat ? most_flat : std::size_t{1} << 26;
  at_once_ = std::max<std::size_t>(most / std::max(info_.size, spread), 1);
  int commutes = 0;
  PMPI_Op_commutative(mpi_op_, &commutes);
  commutes_ = commutes != 0;
  dtype_ = DataType::value;
  value_ = {.handle = nullptr, .library = {}, .element_bytes = info_.size};
  custom_ = {
      .function = combine, .context = this, .element_bytes = info_.size, .commutative = commutes_};
  op_ = ReduceOp::custom(custom_);
}

void Reduction::combine(void* inout, const void* in, std::size_t count, void* reduction) {
  const auto& self = *static_cast<const Reduction*>(reduction);
  auto* lower = static_cast<std::byte*>(inout);
  const auto* higher = static_cast<const std::byte*>(in);
  while (count != 0) {
    const std::size_t now = std::min(count, self.at_once_);
    if (self.info_.is_flat)
      self.combine_flat(lower, higher, static_cast<int>(now));
    else
      self.combine_packed(lower, higher, static_cast<int>(now));
    lower += now * self.info_.size;
    higher += now * self.info_.size;
    count -= now;
  }
}

// MPI leaves lower op higher in the higher of two buffers; it is wanted in the lower one.
void Reduction::combine_flat(std::byte* lower, const std::byte* higher, int count) const {
  Scratch scratch;
  const std::size_t bytes = static_cast<std::size_t>(count) * info_.size;
  const std::byte* first = lower;
  if (!is_aligned(lower)) {
    std::byte* const copy = scratch.take(bytes);
    std::memcpy(copy, lower, bytes);
    first = copy;
  }
  std::byte* const both = scratch.take(bytes);
  std::memcpy(both, higher, bytes);
  PMPI_Reduce_local(const_cast<std::byte*>(first), both, count, type_, mpi_op_);
  std::memcpy(lower, both, bytes);
}

void Reduction::combine_packed(std::byte* lower, const std::byte* higher, int count) const {
  Scratch scratch;
  MPI_Aint low = 0;
  MPI_Aint extent = 0;
  MPI_Aint true_low = 0;
  MPI_Aint true_extent = 0;
  PMPI_Type_get_extent(type_, &low, &extent);
  PMPI_Type_get_true_extent(type_, &true_low, &true_extent);
  // An extent may be negative: the last element then comes first in memory.
  const MPI_Aint span = extent * (count - 1);
  const MPI_Aint before = std::min<MPI_Aint>(span, 0);
  const auto bytes = static_cast<std::size_t>(std::max<MPI_Aint>(span, 0) - before + true_extent);
  const auto place = [&] {
    // Functions may look at the gaps, too, as they could if they were the program's.
    std::byte* const block = scratch.take(bytes);
    std::memset(block, 0, bytes);
    return block - before - true_low;
  };
  std::byte* const first = place();
  std::byte* const both = place();
  const auto elements = [&](std::byte* data) {
    return Elements{data, static_cast<std::size_t>(count), type_, info_};
  };
  unpack(lower, elements(first));
  unpack(higher, elements(both));
  PMPI_Reduce_local(first, both, count, type_, mpi_op_);
  pack(elements(both), lower);
}

}  // namespace hymn::preload
