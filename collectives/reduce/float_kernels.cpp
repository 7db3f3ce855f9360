// Kernels of float32 and float64. float16 and bfloat16 share the float32 accumulator.
//
// Compiled with -ffp-contract=off: every instruction set gives the same bits.
#include "base/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/float_kernels.cpp"
#include <bit>
#include <cstdint>
#include <limits>

#include "collectives/reduce/kernel_table.hpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again and again.
#include "collectives/reduce/loops-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hymn::HWY_NAMESPACE {
namespace {

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};

struct Product {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
};

/// The order of floating-point numbers on their bits, taken as signed integers: total, so that
/// -0 < +0 and the result does not depend on which operand is which; and independent of the
/// processor mode that takes subnormals for zero, which an application may have switched on.
template <class Float, class Signed>
struct Order {
  static constexpr Signed quiet_nan =
      std::bit_cast<Signed>(std::numeric_limits<Float>::infinity()) |
      (Signed{1} << (std::numeric_limits<Float>::digits - 2));

  static bool either_is_nan(Signed a, Signed b) {
    return __builtin_isunordered(std::bit_cast<Float>(a), std::bit_cast<Float>(b));
  }
  /// Neither is a NaN. Two negative numbers are ordered by magnitude, against the order of their
  /// bits.
  static bool less(Signed a, Signed b) { return (a < b) != ((a & b) < 0); }
};

template <class Float, class Signed>
struct Min : Order<Float, Signed> {
  Signed operator()(Signed a, Signed b) const {
    const Signed least = this->less(a, b) ? a : b;
    return this->either_is_nan(a, b) ? this->quiet_nan : least;
  }
};

template <class Float, class Signed>
struct Max : Order<Float, Signed> {
  Signed operator()(Signed a, Signed b) const {
    const Signed greatest = this->less(a, b) ? b : a;
    return this->either_is_nan(a, b) ? this->quiet_nan : greatest;
  }
};

template <class Float>
struct Scale {
  Float factor;
  Float operator()(Float value) const { return value * factor; }
};

template <class Float>
struct Divide {
  Float divisor;
  Float operator()(Float value) const { return value / divisor; }
};

template <class Float>
void load_scaled(void* accumulator, const void* input, std::size_t count, double factor) {
  map<Float, Float>(accumulator, input, count, Scale<Float>{static_cast<Float>(factor)});
}

template <class Float>
void store_average(void* output, const void* accumulator, std::size_t count, int ranks) {
  map<Float, Float>(output, accumulator, count, Divide<Float>{static_cast<Float>(ranks)});
}

template <class Float, class Signed>
void add_float(detail::KernelTable& table, DataType dtype, Accumulator accumulator) {
  table.combine(accumulator, ReduceKind::sum) = fold<Float, Sum>;
  table.combine(accumulator, ReduceKind::product) = fold<Float, Product>;
  table.combine(accumulator, ReduceKind::min) = fold<Signed, Min<Float, Signed>>;
  table.combine(accumulator, ReduceKind::max) = fold<Signed, Max<Float, Signed>>;
  table.conversion(dtype).load_scaled = load_scaled<Float>;
  table.conversion(dtype).store_average = store_average<Float>;
}

void add_floats(detail::KernelTable& table) {
  add_float<float, std::int32_t>(table, DataType::float32, Accumulator::float32);
  add_float<double, std::int64_t>(table, DataType::float64, Accumulator::float64);
}

}  // namespace
}  // namespace hymn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hymn {

HWY_EXPORT(add_floats);

void detail::add_float_kernels(KernelTable& table) { HWY_DYNAMIC_DISPATCH(add_floats)(table); }

}  // namespace hymn
#endif
