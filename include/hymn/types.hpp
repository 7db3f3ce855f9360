// The vocabulary of data: element types, reduction operations, kinds of memory.
//
// Sizes are std::size_t counts of *elements* unless a name says bytes.
#pragma once

#include "hymn/standard.hpp"  // first

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "hymn/described.hpp"
#include "hymn/export.hpp"
#include "hymn/half.hpp"

namespace hymn {

/// The type of one element. docs/dtypes.md says which reductions each one has.
enum class DataType : std::uint8_t {
  boolean,  ///< one byte; any non-zero byte counts as true, results are 0 or 1
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  complex64,   ///< two float32
  complex128,  ///< two float64
  float8_e4m3fn,
  float8_e5m2,
  value,   ///< of any trivially copyable type of the program's: an OpaqueType tells its size
  opaque,  ///< described by an OpaqueType that only some paths understand
};

/// What is true of all element types of a family.
enum class DataFamily : std::uint8_t { boolean, integer, floating, complex, float8, value, opaque };

/// What an element type is.
struct DataTraits {
  std::string_view name{};
  std::size_t bytes = 0;  ///< of one element; 0: it is not known
  DataFamily family = DataFamily::opaque;
};

/// The rows of the table behind traits_of.
constexpr DataTraits define(DataType dtype) {
  switch (dtype) {
    case DataType::boolean:
      return {"boolean", 1, DataFamily::boolean};
    case DataType::int8:
      return {"int8", 1, DataFamily::integer};
    case DataType::uint8:
      return {"uint8", 1, DataFamily::integer};
    case DataType::int16:
      return {"int16", 2, DataFamily::integer};
    case DataType::uint16:
      return {"uint16", 2, DataFamily::integer};
    case DataType::int32:
      return {"int32", 4, DataFamily::integer};
    case DataType::uint32:
      return {"uint32", 4, DataFamily::integer};
    case DataType::int64:
      return {"int64", 8, DataFamily::integer};
    case DataType::uint64:
      return {"uint64", 8, DataFamily::integer};
    case DataType::float16:
      return {"float16", 2, DataFamily::floating};
    case DataType::bfloat16:
      return {"bfloat16", 2, DataFamily::floating};
    case DataType::float32:
      return {"float32", 4, DataFamily::floating};
    case DataType::float64:
      return {"float64", 8, DataFamily::floating};
    case DataType::complex64:
      return {"complex64", 8, DataFamily::complex};
    case DataType::complex128:
      return {"complex128", 16, DataFamily::complex};
    case DataType::float8_e4m3fn:
      return {"float8_e4m3fn", 1, DataFamily::float8};
    case DataType::float8_e5m2:
      return {"float8_e5m2", 1, DataFamily::float8};
    case DataType::value:
      return {"value", 0, DataFamily::value};
    case DataType::opaque:
      return {"opaque", 0, DataFamily::opaque};
  }
  return {};
}

inline constexpr std::size_t data_type_count = detail::described_count<DataType>;
inline constexpr auto all_data_types = detail::all_described<DataType>;

/// Also of a value that no enumerator has: then it is called "unknown".
constexpr const DataTraits& traits_of(DataType dtype) noexcept { return detail::row_of(dtype); }

/// A type of another library (for example an MPI derived datatype) that hymn passes on untouched;
/// or, of DataType::value, how large a value is.
struct OpaqueType {
  const void* handle = nullptr;   ///< meaning known to `library` only; must outlive its use
  std::string_view library;       ///< "mpi"; "" for DataType::value
  std::size_t element_bytes = 0;  ///< distance between two elements
};

/// Size of one element in bytes; 0 for DataType::value and DataType::opaque.
constexpr std::size_t size_of(DataType dtype) noexcept { return traits_of(dtype).bytes; }
/// "float32", "boolean", …
HYMN_API std::string_view to_string(DataType dtype) noexcept;

/// What a reduction computes.
enum class ReduceKind : std::uint8_t {
  sum,
  product,
  min,
  max,
  band,
  bor,
  bxor,
  land,  ///< this and the next two: any value but 0 is true, and the result is 0 or 1
  lor,
  lxor,
  avg,
  premul_sum,
  custom,  ///< what a function of the program's makes of two values: CustomReduction
  opaque,  ///< an operation of another library; only with DataType::opaque or where a path knows it
};

/// What is true of all reductions of a family.
enum class ReduceFamily : std::uint8_t {
  sum,  ///< a sum, perhaps with something done before or behind it
  product,
  order,  ///< of the smallest or the largest
  bitwise,
  logical,
  custom,
  opaque,
};

/// What a reduction is.
struct ReduceTraits {
  std::string_view name{};
  ReduceFamily family = ReduceFamily::opaque;
};

/// The rows of the table behind traits_of.
constexpr ReduceTraits define(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::sum:
      return {"sum", ReduceFamily::sum};
    case ReduceKind::product:
      return {"product", ReduceFamily::product};
    case ReduceKind::min:
      return {"min", ReduceFamily::order};
    case ReduceKind::max:
      return {"max", ReduceFamily::order};
    case ReduceKind::band:
      return {"band", ReduceFamily::bitwise};
    case ReduceKind::bor:
      return {"bor", ReduceFamily::bitwise};
    case ReduceKind::bxor:
      return {"bxor", ReduceFamily::bitwise};
    case ReduceKind::land:
      return {"land", ReduceFamily::logical};
    case ReduceKind::lor:
      return {"lor", ReduceFamily::logical};
    case ReduceKind::lxor:
      return {"lxor", ReduceFamily::logical};
    case ReduceKind::avg:
      return {"avg", ReduceFamily::sum};
    case ReduceKind::premul_sum:
      return {"premul_sum", ReduceFamily::sum};
    case ReduceKind::custom:
      return {"custom", ReduceFamily::custom};
    case ReduceKind::opaque:
      return {"opaque", ReduceFamily::opaque};
  }
  return {};
}

inline constexpr std::size_t reduce_kind_count = detail::described_count<ReduceKind>;
inline constexpr auto all_reduce_kinds = detail::all_described<ReduceKind>;

/// Also of a value that no enumerator has: then it is called "unknown".
constexpr const ReduceTraits& traits_of(ReduceKind kind) noexcept { return detail::row_of(kind); }

HYMN_API std::string_view to_string(ReduceKind kind) noexcept;

/// A reduction of the program's own. It is associative; where it is also commutative it may be
/// applied in any order, else it is in the order of the group's ranks.
struct CustomReduction {
  /// inout[i] = inout[i] op in[i] for i < count; `inout` comes from lower ranks. The two do not
  /// overlap, and may lie at any address, aligned or not. Any thread of hymn's may call it, several
  /// at a time; it makes no calls of hymn's or MPI's, and throws nothing.
  using Function = void (*)(void* inout, const void* in, std::size_t count, void* context);

  Function function = nullptr;
  void* context = nullptr;        ///< handed to the function
  std::size_t element_bytes = 0;  ///< of one value
  bool commutative = false;
};

/// A reduction operation: its kind, and the factor of premul_sum.
class ReduceOp {
 public:
  static const ReduceOp sum, product, min, max, band, bor, bxor, land, lor, lxor, avg;

  /// Each rank's input is multiplied by *its own* factor before the sum.
  static constexpr ReduceOp premul_sum(double factor) {
    return ReduceOp(ReduceKind::premul_sum, factor, nullptr);
  }
  /// An operation of another library, passed on untouched to a path that understands it.
  static constexpr ReduceOp opaque(const void* handle) {
    return ReduceOp(ReduceKind::opaque, 1.0, handle);
  }
  /// One of the program's own, the same on all ranks; `reduction` must outlive its use.
  /// reduce_by() (hymn/values.hpp) makes one of a callable.
  static constexpr ReduceOp custom(const CustomReduction& reduction) {
    return ReduceOp(ReduceKind::custom, 1.0, &reduction);
  }
  static constexpr ReduceOp of(ReduceKind kind) { return ReduceOp(kind, 1.0, nullptr); }

  constexpr ReduceKind kind() const { return kind_; }
  constexpr double factor() const { return factor_; }
  constexpr const void* handle() const { return handle_; }
  /// Null: it is none of the program's own.
  constexpr const CustomReduction* custom_reduction() const {
    return kind_ == ReduceKind::custom ? static_cast<const CustomReduction*>(handle_) : nullptr;
  }

  constexpr ReduceOp() = default;  // sum

 private:
  constexpr ReduceOp(ReduceKind kind, double factor, const void* handle)
      : kind_(kind), factor_(factor), handle_(handle) {}

  ReduceKind kind_ = ReduceKind::sum;
  double factor_ = 1.0;
  const void* handle_ = nullptr;
};

inline constexpr ReduceOp ReduceOp::sum = ReduceOp::of(ReduceKind::sum);
inline constexpr ReduceOp ReduceOp::product = ReduceOp::of(ReduceKind::product);
inline constexpr ReduceOp ReduceOp::min = ReduceOp::of(ReduceKind::min);
inline constexpr ReduceOp ReduceOp::max = ReduceOp::of(ReduceKind::max);
inline constexpr ReduceOp ReduceOp::band = ReduceOp::of(ReduceKind::band);
inline constexpr ReduceOp ReduceOp::bor = ReduceOp::of(ReduceKind::bor);
inline constexpr ReduceOp ReduceOp::bxor = ReduceOp::of(ReduceKind::bxor);
inline constexpr ReduceOp ReduceOp::land = ReduceOp::of(ReduceKind::land);
inline constexpr ReduceOp ReduceOp::lor = ReduceOp::of(ReduceKind::lor);
inline constexpr ReduceOp ReduceOp::lxor = ReduceOp::of(ReduceKind::lxor);
inline constexpr ReduceOp ReduceOp::avg = ReduceOp::of(ReduceKind::avg);

/// Where a buffer lives.
enum class MemoryKind : std::uint8_t { host, pinned, device, managed };

HYMN_API std::string_view to_string(MemoryKind memory) noexcept;

namespace detail {

/// std::complex<Part>, by what it is made of: to name it needs <complex>, which brings the streams.
template <class T, class Part>
concept ComplexOf = requires(const T number) {
  requires std::same_as<typename T::value_type, Part> && sizeof(T) == 2 * sizeof(Part);
  { number.real() } -> std::same_as<Part>;
  { number.imag() } -> std::same_as<Part>;
};

template <class T>
consteval DataType deduce_data_type() {
  if constexpr (std::same_as<T, bool>)
    return DataType::boolean;
  else if constexpr (std::same_as<T, std::byte>)
    return DataType::uint8;
  else if constexpr (std::integral<T> && sizeof(T) == 1)
    return std::is_signed_v<T> ? DataType::int8 : DataType::uint8;
  else if constexpr (std::integral<T> && sizeof(T) == 2)
    return std::is_signed_v<T> ? DataType::int16 : DataType::uint16;
  else if constexpr (std::integral<T> && sizeof(T) == 4)
    return std::is_signed_v<T> ? DataType::int32 : DataType::uint32;
  else if constexpr (std::integral<T> && sizeof(T) == 8)
    return std::is_signed_v<T> ? DataType::int64 : DataType::uint64;
  else if constexpr (std::same_as<T, float>)
    return DataType::float32;
  else if constexpr (std::same_as<T, double>)
    return DataType::float64;
  else if constexpr (std::same_as<T, float16>)
    return DataType::float16;
  else if constexpr (std::same_as<T, bfloat16>)
    return DataType::bfloat16;
  else if constexpr (ComplexOf<T, float>)
    return DataType::complex64;
  else if constexpr (ComplexOf<T, double>)
    return DataType::complex128;
  else if constexpr (std::same_as<T, float8_e4m3fn>)
    return DataType::float8_e4m3fn;
  else if constexpr (std::same_as<T, float8_e5m2>)
    return DataType::float8_e5m2;
  else
    return DataType::opaque;
}

}  // namespace detail

/// A C++ type that has a DataType.
template <class T>
concept Element = detail::deduce_data_type<std::remove_cv_t<T>>() != DataType::opaque;

template <Element T>
inline constexpr DataType data_type_of = detail::deduce_data_type<std::remove_cv_t<T>>();

/// How far the results of reductions are the same, bit by bit; each level includes those before it.
/// It matters where the order of the steps does: in floating-point sums, products and averages.
/// docs/reproducibility.md says what each level costs, and what it leaves undefined.
enum class Reproducibility : std::uint8_t {
  ranks,      ///< on all ranks of one call; every reduction keeps this
  runs,       ///< from run to run: same ranks, same placement on hosts and cores, same settings
  placement,  ///< at a given number of ranks: for every path, algorithm, split of messages,
              ///< placement
  size,       ///< depends on the values alone, not on how many ranks hold them or in which order:
              ///< sums are exact and rounded once; products are refused
};

inline constexpr std::size_t reproducibility_count = 4;

/// "ranks", "runs", "placement" or "size".
HYMN_API std::string_view to_string(Reproducibility level) noexcept;

/// How far the collective calls of different ranks are compared; docs/checks.md tells what each
/// level finds, and what it costs.
enum class CheckLevel : std::uint8_t {
  off,
  info,    ///< each call is told to one rank, which gives the group up when calls differ
  detail,  ///< the members of the group meet before each call: nothing is sent when calls differ
};

/// "off", "info" or "detail".
HYMN_API std::string_view to_string(CheckLevel level) noexcept;

/// Which threads may call MPI, as MPI_THREAD_SINGLE … MPI_THREAD_MULTIPLE; docs/threads.md tells
/// what follows for groups. Ordered.
enum class ThreadLevel : std::uint8_t { single, funneled, serialized, multiple };

/// "single", "funneled", "serialized" or "multiple".
HYMN_API std::string_view to_string(ThreadLevel level) noexcept;

}  // namespace hymn
