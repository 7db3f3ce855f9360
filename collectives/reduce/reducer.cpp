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

bool is_bitwise(ReduceKind kind) { return traits_of(kind).family == ReduceFamily::bitwise; }
bool is_logical(ReduceKind kind) { return traits_of(kind).family == ReduceFamily::logical; }

Accumulator accumulator_for(DataType dtype, ReduceKind kind) {
  const bool average = kind == ReduceKind::avg;
  switch (dtype) {
    case DataType::boolean:
      return Accumulator::boolean;
    case DataType::int8:
      return average ? Accumulator::int64 : Accumulator::int8;
    case DataType::uint8:
      return average ? Accumulator::uint64 : Accumulator::uint8;
    case DataType::int16:  // there are no kernels for 16 bits: results are the same, once narrowed
    case DataType::int32:
      return average ? Accumulator::int64 : Accumulator::int32;
    case DataType::uint16:
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
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::float32:
      return Accumulator::float32;
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
    case DataType::value:
    case DataType::opaque:
      break;
  }
  throw Error(ErrorKind::internal, fmt::format("nothing accumulates {}", to_string(dtype)));
}

std::string refusal_of_boolean(ReduceKind kind) {
  if (kind == ReduceKind::avg)
    return "an average of booleans is not a boolean; convert them to numbers first";
  if (kind == ReduceKind::premul_sum)
    return "a boolean times a factor is not a boolean; convert them to numbers first";
  return {};
}

std::string refusal_of_floating(DataType dtype, ReduceKind kind) {
  switch (traits_of(kind).family) {
    case ReduceFamily::sum:
    case ReduceFamily::product:
    case ReduceFamily::order:
      return {};
    case ReduceFamily::bitwise:
    case ReduceFamily::logical:
    case ReduceFamily::custom:
    case ReduceFamily::opaque:
      break;
  }
  return fmt::format("{} reductions are not defined for floating point ({} of {})",
                     is_logical(kind) ? "logical" : "bitwise", to_string(kind), to_string(dtype));
}

std::string refusal_of_complex(DataType dtype, ReduceKind kind) {
  switch (traits_of(kind).family) {
    case ReduceFamily::sum:
    case ReduceFamily::product:
      return {};
    case ReduceFamily::order:
      return fmt::format("complex numbers have no order ({} of {})", to_string(kind),
                         to_string(dtype));
    case ReduceFamily::bitwise:
    case ReduceFamily::logical:
    case ReduceFamily::custom:
    case ReduceFamily::opaque:
      break;
  }
  return fmt::format("{} reductions are not defined for complex numbers ({} of {})",
                     is_logical(kind) ? "logical" : "bitwise", to_string(kind), to_string(dtype));
}

/// What the program's own function computes of any type whose bytes can be moved.
std::string refusal_of_custom(DataType dtype, Reproducibility level) {
  if (dtype == DataType::opaque) return "unknown type: only a path that knows it can reduce it";
  if (level == Reproducibility::size)
    return "what a custom reduction computes depends on the order of its inputs, and on the number "
           "of ranks, as far as hymn knows; ask for reproducibility 'placement' or less";
  return {};
}

/// As refusal(), but for the level of reproducibility.
std::string refusal_of_cell(DataType dtype, ReduceKind kind) {
  if (traits_of(kind).family == ReduceFamily::opaque)
    return "unknown operation: only a path that knows it can reduce with it";
  switch (traits_of(dtype).family) {
    case DataFamily::boolean:
      return refusal_of_boolean(kind);
    case DataFamily::integer:
      return {};
    case DataFamily::floating:
      return refusal_of_floating(dtype, kind);
    case DataFamily::complex:
      return refusal_of_complex(dtype, kind);
    case DataFamily::float8:
      return fmt::format(
          "{} values are moved but never reduced; convert them to float16, bfloat16 or float32 "
          "first",
          to_string(dtype));
    case DataFamily::value:
      return fmt::format(
          "{} of values that are no numbers: only a custom reduction says what two of them make",
          to_string(kind));
    case DataFamily::opaque:
      break;
  }
  return "unknown type: only a path that knows it can reduce it";
}

/// What its kernels compute: an average, and a sum of products with factors, differ from a sum in
/// what is done before and behind it. What is logical is bitwise once each value is 0 or 1.
ReduceKind combined_kind(ReduceKind kind) {
  if (traits_of(kind).family == ReduceFamily::sum) return ReduceKind::sum;
  if (kind == ReduceKind::land) return ReduceKind::band;
  if (kind == ReduceKind::lor) return ReduceKind::bor;
  return kind == ReduceKind::lxor ? ReduceKind::bxor : kind;
}

LoadFunction load_for(const detail::ConversionKernels& conversion, ReduceKind kind) {
  if (kind == ReduceKind::avg) return conversion.load_average;
  if (kind == ReduceKind::premul_sum) return conversion.load_scaled;
  return is_logical(kind) ? conversion.load_truth : conversion.load;
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
    case DataType::int16:
      return holds<std::int16_t>(factor);
    case DataType::uint16:
      return holds<std::uint16_t>(factor);
    case DataType::int32:
      return holds<std::int32_t>(factor);
    case DataType::uint32:
      return holds<std::uint32_t>(factor);
    case DataType::int64:
      return holds<std::int64_t>(factor);
    case DataType::uint64:
      return holds<std::uint64_t>(factor);
    case DataType::boolean:
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::float32:
    case DataType::float64:
    case DataType::complex64:
    case DataType::complex128:
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
    case DataType::value:
    case DataType::opaque:
      break;
  }
  return true;
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

/// By element type and kind. Without a kernel: it is made when it is asked for, or refused.
using CellTable = std::array<std::array<Reducer, reduce_kind_count>, data_type_count>;

/// Whether it is the same for all calls; a premul_sum has a factor of its own, and what is custom a
/// function.
bool is_same_for_all(ReduceKind kind) { return kind != ReduceKind::premul_sum && !is_custom(kind); }

Reducer custom_reducer(DataType dtype, const CustomReduction& custom, Reproducibility level) {
  if (const std::string reason = refusal_of_custom(dtype, level); !reason.empty())
    throw UnsupportedError(reason);
  Reducer reducer;
  reducer.dtype = dtype;
  reducer.kind = ReduceKind::custom;
  reducer.element_bytes = reducer.accumulator_bytes = custom.element_bytes;
  reducer.combine = Combiner(custom);
  return reducer;
}

CellTable make_cells(Reproducibility level) {
  CellTable cells{};
  for (const DataType dtype : all_data_types)
    for (const ReduceKind kind : all_reduce_kinds)
      if (is_same_for_all(kind) && refusal(dtype, kind, level).empty())
        cells[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(kind)] =
            detail::make_reducer(best_kernels(), dtype, ReduceOp::of(kind), level);
  return cells;
}

}  // namespace

std::size_t size_of(Accumulator accumulator) noexcept {
  static constexpr std::array<std::size_t, accumulator_count> bytes = {1,  1,  1, 4, 4, 8, 8,
                                                                       16, 16, 4, 8, 8, 16};
  return bytes[static_cast<std::size_t>(accumulator)];
}

bool order_matters(DataType dtype, ReduceKind kind) {
  if (kind == ReduceKind::opaque || is_custom(kind)) return true;
  if (is_bitwise(kind) || detail::is_order(kind)) return false;
  const DataFamily family = traits_of(dtype).family;
  return family != DataFamily::boolean && family != DataFamily::integer;
}

std::string refusal(DataType dtype, ReduceKind kind, Reproducibility level) {
  if (is_custom(kind)) return refusal_of_custom(dtype, level);
  std::string reason = refusal_of_cell(dtype, kind);
  if (reason.empty() && level == Reproducibility::size && kind == ReduceKind::product &&
      order_matters(dtype, kind))
    reason = fmt::format(
        "a product of {} rounds at each step, so that it depends on the order of its factors and "
        "on the number of ranks; ask for reproducibility 'placement' or less",
        to_string(dtype));
  if (reason.empty() &&
      combine_function(accumulator_for(dtype, kind), combined_kind(kind)) == nullptr)
    reason = fmt::format("there is no kernel for {} of {}", to_string(kind), to_string(dtype));
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
  const ConversionKernels& conversion = table.conversion(dtype);
  Reducer reducer;
  reducer.dtype = dtype;
  reducer.kind = combined_kind(op.kind());
  reducer.accumulator = accumulator_for(dtype, op.kind());
  reducer.element_bytes = size_of(dtype);
  reducer.accumulator_bytes = size_of(reducer.accumulator);
  reducer.factor = op.factor();
  reducer.load = load_for(conversion, op.kind());
  reducer.combine = table.combine(reducer.accumulator, reducer.kind);
  if (reducer.combine == nullptr)
    throw Error(ErrorKind::internal, fmt::format("there is no kernel for {} of {}",
                                                 to_string(op.kind()), to_string(dtype)));
  if (reducer.load == nullptr) reducer.fold = table.fold(reducer.accumulator, reducer.kind);
  if (level == Reproducibility::size && reducer.kind == ReduceKind::sum)
    // A half is rounded once, from the exact sum; an average in between, where it is divided.
    reducer.exact =
        is_half(dtype) && !average ? table.exact_to_odd() : table.exact(reducer.accumulator);
  reducer.store = average ? conversion.store_average : conversion.store;
  return reducer;
}

Reducer reducer_for(DataType dtype, const ReduceOp& op, Reproducibility level) {
  if (const auto* custom = op.custom_reduction()) return custom_reducer(dtype, *custom, level);
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
  if (static_cast<std::size_t>(kind) >= reduce_kind_count) return nullptr;
  return best_kernels().combine(accumulator, kind);
}

}  // namespace hymn
