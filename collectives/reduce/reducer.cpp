// The table of reductions: which cells it has, and the kernels of each. reduce_all is in
// reduce_all.cpp.
#include "collectives/reduce/reducer.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "collectives/reduce/kernel_table.hpp"
#include "hymn/error.hpp"

namespace hymn {

namespace {

enum class Family { unknown, boolean, integer, floating, complex, float8 };

Family family_of(DataType dtype) {
  switch (dtype) {
    case DataType::boolean:
      return Family::boolean;
    case DataType::int8:
    case DataType::uint8:
    case DataType::int32:
    case DataType::uint32:
    case DataType::int64:
    case DataType::uint64:
      return Family::integer;
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::float32:
    case DataType::float64:
      return Family::floating;
    case DataType::complex64:
    case DataType::complex128:
      return Family::complex;
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
      return Family::float8;
    case DataType::opaque:
      break;
  }
  return Family::unknown;
}

bool is_bitwise(ReduceKind kind) {
  return kind == ReduceKind::band || kind == ReduceKind::bor || kind == ReduceKind::bxor;
}

Accumulator accumulator_for(DataType dtype, ReduceKind kind) {
  const bool average = kind == ReduceKind::avg;
  switch (dtype) {
    case DataType::boolean:
      return Accumulator::boolean;
    case DataType::int8:
      return average ? Accumulator::int64 : Accumulator::int8;
    case DataType::uint8:
      return average ? Accumulator::uint64 : Accumulator::uint8;
    case DataType::int32:
      return average ? Accumulator::int64 : Accumulator::int32;
    case DataType::uint32:
      return average ? Accumulator::uint64 : Accumulator::uint32;
    case DataType::int64:
      return average ? Accumulator::int128 : Accumulator::int64;
    case DataType::uint64:
      return average ? Accumulator::uint128 : Accumulator::uint64;
    case DataType::float64:
      return Accumulator::float64;
    case DataType::complex64:
      return Accumulator::complex64;
    case DataType::complex128:
      return Accumulator::complex128;
    default:  // the halves too; refused types do not come here
      return Accumulator::float32;
  }
}

/// As refusal(), but for the level of reproducibility.
std::string refusal_of_cell(DataType dtype, ReduceKind kind) {
  const std::string_view name = to_string(dtype);
  if (kind >= ReduceKind::opaque)
    return "unknown operation: only a path that knows it can reduce with it";
  switch (family_of(dtype)) {
    case Family::unknown:
      return "unknown type: only a path that knows it can reduce it";
    case Family::float8:
      return fmt::format(
          "{} values are moved but never reduced; convert them to float16, bfloat16 or float32 "
          "first",
          name);
    case Family::boolean:
      if (kind == ReduceKind::avg)
        return "an average of booleans is not a boolean; convert them to numbers first";
      if (kind == ReduceKind::premul_sum)
        return "a boolean times a factor is not a boolean; convert them to numbers first";
      return {};
    case Family::integer:
      return {};
    case Family::floating:
      if (!is_bitwise(kind)) return {};
      return fmt::format("bitwise reductions are not defined for floating point ({} of {})",
                         to_string(kind), name);
    case Family::complex:
      if (is_bitwise(kind))
        return fmt::format("bitwise reductions are not defined for complex numbers ({} of {})",
                           to_string(kind), name);
      if (detail::is_order(kind))
        return fmt::format("complex numbers have no order ({} of {})", to_string(kind), name);
      return {};
  }
  return {};
}

bool is_half(DataType dtype) { return dtype == DataType::float16 || dtype == DataType::bfloat16; }

/// Whether `factor` is a whole number from the range of T.
template <class T>
bool holds(double factor) {
  // Both limits are powers of two, or one less than that: exact, once 1 is added to the upper one.
  const double lowest = static_cast<double>(std::numeric_limits<T>::min());
  const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
  return factor >= lowest && factor < end && std::trunc(factor) == factor;
}

bool holds(DataType dtype, double factor) {
  switch (dtype) {
    case DataType::int8:
      return holds<std::int8_t>(factor);
    case DataType::uint8:
      return holds<std::uint8_t>(factor);
    case DataType::int32:
      return holds<std::int32_t>(factor);
    case DataType::uint32:
      return holds<std::uint32_t>(factor);
    case DataType::int64:
      return holds<std::int64_t>(factor);
    case DataType::uint64:
      return holds<std::uint64_t>(factor);
    default:
      return true;
  }
}

void check(DataType dtype, const ReduceOp& op, Reproducibility level) {
  if (const std::string reason = refusal(dtype, op.kind(), level); !reason.empty())
    throw UnsupportedError(reason);
  if (op.kind() == ReduceKind::premul_sum && !holds(dtype, op.factor()))
    throw UsageError(
        fmt::format("the factor {} of premul_sum is not a whole number that {} can hold",
                    op.factor(), to_string(dtype)));
}

const detail::KernelTable& best_kernels() {
  static const detail::KernelTable table = detail::make_kernel_table();
  return table;
}

/// By element type and kind, without premul_sum and opaque, the last two kinds.
using CellTable = std::array<std::array<Reducer, reduce_kind_count - 2>, data_type_count>;

CellTable make_cells(Reproducibility level) {
  CellTable cells{};
  for (std::size_t type = 0; type < cells.size(); ++type)
    for (std::size_t kind = 0; kind < cells[type].size(); ++kind) {
      const auto dtype = static_cast<DataType>(type);
      const ReduceOp op = ReduceOp::of(static_cast<ReduceKind>(kind));
      if (refusal(dtype, op.kind(), level).empty())
        cells[type][kind] = detail::make_reducer(best_kernels(), dtype, op, level);
    }
  return cells;
}

}  // namespace

std::size_t size_of(Accumulator accumulator) noexcept {
  static constexpr std::array<std::size_t, accumulator_count> bytes = {1,  1,  1, 4, 4, 8, 8,
                                                                       16, 16, 4, 8, 8, 16};
  return bytes[static_cast<std::size_t>(accumulator)];
}

bool order_matters(DataType dtype, ReduceKind kind) {
  if (kind == ReduceKind::opaque) return true;
  if (is_bitwise(kind) || detail::is_order(kind)) return false;
  const Family family = family_of(dtype);
  return family != Family::boolean && family != Family::integer;
}

std::string refusal(DataType dtype, ReduceKind kind, Reproducibility level) {
  std::string reason = refusal_of_cell(dtype, kind);
  if (reason.empty() && level == Reproducibility::size && kind == ReduceKind::product &&
      order_matters(dtype, kind))
    reason = fmt::format(
        "a product of {} rounds at each step, so that it depends on the order of its factors and "
        "on the number of ranks; ask for reproducibility 'placement' or less",
        to_string(dtype));
  return reason;
}

detail::KernelTable detail::make_kernel_table() {
  KernelTable table;
  add_integer_kernels(table);
  add_float_kernels(table);
  add_half_kernels(table);
  add_complex_kernels(table);
  add_fold_kernels(table);
  add_exact_kernels(table);
  return table;
}

Reducer detail::make_reducer(const KernelTable& table, DataType dtype, const ReduceOp& op,
                             Reproducibility level) {
  check(dtype, op, level);
  const bool average = op.kind() == ReduceKind::avg;
  const bool scaled = op.kind() == ReduceKind::premul_sum;
  const ConversionKernels& conversion = table.conversion(dtype);
  Reducer reducer;
  reducer.dtype = dtype;
  reducer.kind = average || scaled ? ReduceKind::sum : op.kind();
  reducer.accumulator = accumulator_for(dtype, op.kind());
  reducer.element_bytes = size_of(dtype);
  reducer.accumulator_bytes = size_of(reducer.accumulator);
  reducer.factor = op.factor();
  reducer.load = average  ? conversion.load_average
                 : scaled ? conversion.load_scaled
                          : conversion.load;
  reducer.combine = table.combine(reducer.accumulator, reducer.kind);
  if (reducer.load == nullptr) reducer.fold = table.fold(reducer.accumulator, reducer.kind);
  if (level == Reproducibility::size && reducer.kind == ReduceKind::sum)
    // A half is rounded once, from the exact sum; an average in between, where it is divided.
    reducer.exact =
        is_half(dtype) && !average ? table.exact_to_odd() : table.exact(reducer.accumulator);
  reducer.store = average ? conversion.store_average : conversion.store;
  return reducer;
}

Reducer reducer_for(DataType dtype, const ReduceOp& op, Reproducibility level) {
  // Every defined cell whose factor is 1, made once: small operations ask at each call.
  static const CellTable as_usual = make_cells(Reproducibility::ranks);
  static const CellTable exact = make_cells(Reproducibility::size);
  const CellTable& cells = level == Reproducibility::size ? exact : as_usual;
  const auto type = static_cast<std::size_t>(dtype);
  const auto kind = static_cast<std::size_t>(op.kind());
  if (type < cells.size() && kind < cells.front().size() && cells[type][kind].combine != nullptr)
    return cells[type][kind];
  return detail::make_reducer(best_kernels(), dtype, op, level);
}

CombineFunction combine_function(Accumulator accumulator, ReduceKind kind) {
  if (static_cast<std::size_t>(kind) >= detail::combine_kind_count) return nullptr;
  return best_kernels().combine(accumulator, kind);
}

}  // namespace hymn
