// Kernels of integers and booleans.
//
// Sums and products wrap: they are computed on unsigned types, where that is defined, for signed
// ones too. A boolean is one byte that load makes 0 or 1.
#include "base/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/integer_kernels.cpp"
#include <cstdint>
#include <type_traits>

#include "collectives/reduce/kernel_table.hpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again and again.
#include "collectives/reduce/loops-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hymn::HWY_NAMESPACE {
namespace {

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

struct Sum {
  template <class U>
  U operator()(U a, U b) const {
    return static_cast<U>(a + b);
  }
};

struct Product {
  template <class U>
  U operator()(U a, U b) const {
    return static_cast<U>(a * b);
  }
};

struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};

struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

struct And {
  template <class U>
  U operator()(U a, U b) const {
    return static_cast<U>(a & b);
  }
};

struct Or {
  template <class U>
  U operator()(U a, U b) const {
    return static_cast<U>(a | b);
  }
};

struct Xor {
  template <class U>
  U operator()(U a, U b) const {
    return static_cast<U>(a ^ b);
  }
};

struct Truth {
  template <class U>
  U operator()(U value) const {
    return static_cast<U>(value != 0 ? 1 : 0);
  }
};

template <class U>
struct Scale {
  U factor;
  U operator()(U value) const { return static_cast<U>(value * factor); }
};

template <class Wide>
struct Widen {
  template <class T>
  Wide operator()(T value) const {
    return value;
  }
};

template <class Wide>
struct WideTruth {
  template <class T>
  Wide operator()(T value) const {
    return value != 0 ? 1 : 0;
  }
};

template <class Wide>
struct ScaleWide {
  Wide factor;
  template <class T>
  Wide operator()(T value) const {
    using U = std::make_unsigned_t<Wide>;
    return static_cast<Wide>(static_cast<U>(value) * static_cast<U>(factor));
  }
};

template <class T>
struct Narrow {
  template <class Wide>
  T operator()(Wide value) const {
    return static_cast<T>(value);
  }
};

/// Rounds toward zero, as division does.
template <class T, class Wide>
struct Average {
  Wide ranks;
  T operator()(Wide sum) const { return static_cast<T>(sum / ranks); }
};

template <class U>
void load_truth(void* accumulator, const void* input, std::size_t count, double) {
  map<U, U>(accumulator, input, count, Truth{});
}

template <class T>
void load_scaled(void* accumulator, const void* input, std::size_t count, double factor) {
  using U = std::make_unsigned_t<T>;
  map<U, U>(accumulator, input, count, Scale<U>{static_cast<U>(static_cast<T>(factor))});
}

template <class T, class Wide>
void load_average(void* accumulator, const void* input, std::size_t count, double) {
  map<Wide, T>(accumulator, input, count, Widen<Wide>{});
}

template <class T, class Wide>
void store_average(void* output, const void* accumulator, std::size_t count, int ranks) {
  map<T, Wide>(output, accumulator, count, Average<T, Wide>{static_cast<Wide>(ranks)});
}

template <class T, class Wide>
void load(void* accumulator, const void* input, std::size_t count, double) {
  map<Wide, T>(accumulator, input, count, Widen<Wide>{});
}

template <class T, class Wide>
void load_wide_truth(void* accumulator, const void* input, std::size_t count, double) {
  map<Wide, T>(accumulator, input, count, WideTruth<Wide>{});
}

template <class T, class Wide>
void load_scaled_wide(void* accumulator, const void* input, std::size_t count, double factor) {
  map<Wide, T>(accumulator, input, count, ScaleWide<Wide>{static_cast<Wide>(factor)});
}

template <class T, class Wide>
void store(void* output, const void* accumulator, std::size_t count, int) {
  map<T, Wide>(output, accumulator, count, Narrow<T>{});
}

/// What is combined in 32 bits, by the kernels of these. Of sums and products the lower 16 are the
/// same as if they were made of 16.
template <class T, class Wide, class Widest>
void add_small_integer(detail::KernelTable& table, DataType dtype) {
  detail::ConversionKernels& conversion = table.conversion(dtype);
  conversion.load = load<T, Wide>;
  conversion.load_scaled = load_scaled_wide<T, Wide>;
  conversion.load_average = load_average<T, Widest>;
  conversion.load_truth = load_wide_truth<T, Wide>;
  conversion.store = store<T, Wide>;
  conversion.store_average = store_average<T, Widest>;
}

template <class T, class Wide>
void add_integer(detail::KernelTable& table, DataType dtype, Accumulator accumulator) {
  using U = std::make_unsigned_t<T>;
  table.combine(accumulator, ReduceKind::sum) = fold<U, Sum>;
  table.combine(accumulator, ReduceKind::product) = fold<U, Product>;
  table.combine(accumulator, ReduceKind::min) = fold<T, Min>;
  table.combine(accumulator, ReduceKind::max) = fold<T, Max>;
  table.combine(accumulator, ReduceKind::band) = fold<U, And>;
  table.combine(accumulator, ReduceKind::bor) = fold<U, Or>;
  table.combine(accumulator, ReduceKind::bxor) = fold<U, Xor>;
  detail::ConversionKernels& conversion = table.conversion(dtype);
  conversion.load_scaled = load_scaled<T>;
  conversion.load_average = load_average<T, Wide>;
  conversion.load_truth = load_truth<U>;
  conversion.store_average = store_average<T, Wide>;
}

void add_boolean(detail::KernelTable& table) {
  for (const ReduceKind kind : {ReduceKind::sum, ReduceKind::bor, ReduceKind::max})
    table.combine(Accumulator::boolean, kind) = fold<std::uint8_t, Or>;
  for (const ReduceKind kind : {ReduceKind::product, ReduceKind::band, ReduceKind::min})
    table.combine(Accumulator::boolean, kind) = fold<std::uint8_t, And>;
  table.combine(Accumulator::boolean, ReduceKind::bxor) = fold<std::uint8_t, Xor>;
  detail::ConversionKernels& conversion = table.conversion(DataType::boolean);
  conversion.load = conversion.load_truth = load_truth<std::uint8_t>;
}

void add_integers(detail::KernelTable& table) {
  add_boolean(table);
  add_integer<std::int8_t, std::int64_t>(table, DataType::int8, Accumulator::int8);
  add_integer<std::uint8_t, std::uint64_t>(table, DataType::uint8, Accumulator::uint8);
  add_small_integer<std::int16_t, std::int32_t, std::int64_t>(table, DataType::int16);
  add_small_integer<std::uint16_t, std::uint32_t, std::uint64_t>(table, DataType::uint16);
  add_integer<std::int32_t, std::int64_t>(table, DataType::int32, Accumulator::int32);
  add_integer<std::uint32_t, std::uint64_t>(table, DataType::uint32, Accumulator::uint32);
  add_integer<std::int64_t, Int128>(table, DataType::int64, Accumulator::int64);
  add_integer<std::uint64_t, Uint128>(table, DataType::uint64, Accumulator::uint64);
  // 128 bits only ever hold the sums of averages.
  table.combine(Accumulator::int128, ReduceKind::sum) = fold<Uint128, Sum>;
  table.combine(Accumulator::uint128, ReduceKind::sum) = fold<Uint128, Sum>;
}

}  // namespace
}  // namespace hymn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hymn {

HWY_EXPORT(add_integers);

void detail::add_integer_kernels(KernelTable& table) { HWY_DYNAMIC_DISPATCH(add_integers)(table); }

}  // namespace hymn
#endif
