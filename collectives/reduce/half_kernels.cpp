// Kernels of float16 and bfloat16: widened to float32 on load, narrowed once on store. In between
// they are float32, so there is nothing to combine here.
//
// Bit for bit what hymn/half.hpp computes, but without branches.
#include "base/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/half_kernels.cpp"
#include <bit>
#include <cstdint>

#include "collectives/reduce/kernel_table.hpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again and again.
#include "collectives/reduce/loops-inl.hpp"
#include "hwy/highway.h"

// Whether the processor converts float16 by itself.
#undef HYMN_HAVE_F16C
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define HYMN_HAVE_F16C 1
#else
#define HYMN_HAVE_F16C 0
#endif

HWY_BEFORE_NAMESPACE();
namespace hymn::HWY_NAMESPACE {
namespace {

// What happens between the two formats: nothing, or the arithmetic of premul_sum and avg.
struct Keep {
  float operator()(float value) const { return value; }
};

struct Scale {
  float factor;
  float operator()(float value) const { return value * factor; }
};

struct Divide {
  float divisor;
  float operator()(float value) const { return value / divisor; }
};

/// Both values are always computed: with ?: the compiler would bring back a branch around the
/// floating-point arithmetic below, and with it a loop of single elements.
std::uint32_t select(bool condition, std::uint32_t yes, std::uint32_t no) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

float widen_bfloat16(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

/// To nearest, ties to even (Highway's own conversion cuts off).
std::uint16_t narrow_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<std::uint16_t>(select(is_nan, bits | 0x400000u, rounded) >> 16);
}

float widen_float16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7fffu) << 13;
  // The fraction of a subnormal becomes that of a number with a leading one, which goes again.
  const float subnormal = std::bit_cast<float>(magnitude + 0x38800000u) - 0x1p-14f;
  const std::uint32_t finite = select(
      magnitude < 0x00800000u, std::bit_cast<std::uint32_t>(subnormal), magnitude + 0x38000000u);
  const std::uint32_t special = select(magnitude >= 0x0f800000u, 0x7f800000u, 0);
  return std::bit_cast<float>(sign | finite | special);
}

std::uint16_t narrow_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Adding 0.5 lines a subnormal's last bit up with that of float32, which then rounds.
  const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u;
  const std::uint32_t finite = select(magnitude < 0x38800000u, subnormal, normal);
  const std::uint32_t number = select(magnitude >= 0x477ff000u, 0x7c00u, finite);
  const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  return static_cast<std::uint16_t>(sign | select(magnitude > 0x7f800000u, nan, number));
}

// The whole way of one element.
template <class Function>
struct FromBfloat16 {
  Function function;
  float operator()(std::uint16_t half) const { return function(widen_bfloat16(half)); }
};

template <class Function>
struct ToBfloat16 {
  Function function;
  std::uint16_t operator()(float value) const { return narrow_bfloat16(function(value)); }
};

template <class Function>
struct FromFloat16 {
  Function function;
  float operator()(std::uint16_t half) const { return function(widen_float16(half)); }
};

template <class Function>
struct ToFloat16 {
  Function function;
  std::uint16_t operator()(float value) const { return narrow_float16(function(value)); }
};

#if HYMN_HAVE_F16C

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using FloatVector = hn::Vec<Floats>;

FloatVector apply(Keep, FloatVector values) { return values; }
FloatVector apply(Scale scale, FloatVector values) {
  return hn::Mul(values, hn::Set(Floats(), scale.factor));
}
FloatVector apply(Divide divide, FloatVector values) {
  return hn::Div(values, hn::Set(Floats(), divide.divisor));
}

FloatVector widen_vector(const std::uint16_t* halves) {
  const hn::RebindToUnsigned<Floats> bits32;
  const hn::Rebind<std::uint16_t, Floats> bits16;
  const hn::Rebind<hwy::float16_t, Floats> float16s;
  const auto raw = hn::LoadU(bits16, halves);
  const auto wide = hn::BitCast(bits32, hn::PromoteTo(Floats(), hn::BitCast(float16s, raw)));
  // The instruction makes signalling NaNs quiet; half.hpp leaves them as they are.
  const auto infinity = hn::Set(bits32, 0x7f800000u);
  const auto special = hn::VecFromMask(bits32, hn::Eq(hn::And(wide, infinity), infinity));
  const auto original = hn::ShiftLeft<13>(hn::PromoteTo(bits32, raw));
  const auto quieted = hn::AndNot(original, hn::And(special, hn::Set(bits32, 0x00400000u)));
  return hn::BitCast(Floats(), hn::AndNot(quieted, wide));
}

template <class Function>
void load_float16(void* accumulator, const void* input, std::size_t count, Function function) {
  const std::size_t lanes = hn::Lanes(Floats());
  auto* out = static_cast<float*>(accumulator);
  const auto* in = static_cast<const std::uint16_t*>(input);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(apply(function, widen_vector(in + i)), Floats(), out + i);
  map<float, std::uint16_t>(out + i, in + i, count - i, FromFloat16<Function>{function});
}

template <class Function>
void store_float16(void* output, const void* accumulator, std::size_t count, Function function) {
  const hn::Rebind<hwy::float16_t, Floats> float16s;
  const hn::Rebind<std::uint16_t, Floats> bits16;
  const std::size_t lanes = hn::Lanes(Floats());
  auto* out = static_cast<std::uint16_t*>(output);
  const auto* in = static_cast<const float*>(accumulator);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto halves = hn::DemoteTo(float16s, apply(function, hn::LoadU(Floats(), in + i)));
    hn::StoreU(hn::BitCast(bits16, halves), bits16, out + i);
  }
  map<std::uint16_t, float>(out + i, in + i, count - i, ToFloat16<Function>{function});
}

#else

template <class Function>
void load_float16(void* accumulator, const void* input, std::size_t count, Function function) {
  map<float, std::uint16_t>(accumulator, input, count, FromFloat16<Function>{function});
}

template <class Function>
void store_float16(void* output, const void* accumulator, std::size_t count, Function function) {
  map<std::uint16_t, float>(output, accumulator, count, ToFloat16<Function>{function});
}

#endif

struct Float16 {
  template <class Function>
  static void load(void* accumulator, const void* input, std::size_t count, Function function) {
    load_float16(accumulator, input, count, function);
  }
  template <class Function>
  static void store(void* output, const void* accumulator, std::size_t count, Function function) {
    store_float16(output, accumulator, count, function);
  }
};

struct Bfloat16 {
  template <class Function>
  static void load(void* accumulator, const void* input, std::size_t count, Function function) {
    map<float, std::uint16_t>(accumulator, input, count, FromBfloat16<Function>{function});
  }
  template <class Function>
  static void store(void* output, const void* accumulator, std::size_t count, Function function) {
    map<std::uint16_t, float>(output, accumulator, count, ToBfloat16<Function>{function});
  }
};

template <class Half>
void load(void* accumulator, const void* input, std::size_t count, double) {
  Half::load(accumulator, input, count, Keep{});
}

template <class Half>
void load_scaled(void* accumulator, const void* input, std::size_t count, double factor) {
  Half::load(accumulator, input, count, Scale{static_cast<float>(factor)});
}

template <class Half>
void store(void* output, const void* accumulator, std::size_t count, int) {
  Half::store(output, accumulator, count, Keep{});
}

template <class Half>
void store_average(void* output, const void* accumulator, std::size_t count, int ranks) {
  Half::store(output, accumulator, count, Divide{static_cast<float>(ranks)});
}

template <class Half>
void add_half(detail::KernelTable& table, DataType dtype) {
  table.conversion(dtype) = {.load = load<Half>,
                             .load_scaled = load_scaled<Half>,
                             .load_average = load<Half>,
                             .store = store<Half>,
                             .store_average = store_average<Half>};
}

void add_halves(detail::KernelTable& table) {
  add_half<Float16>(table, DataType::float16);
  add_half<Bfloat16>(table, DataType::bfloat16);
}

}  // namespace
}  // namespace hymn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hymn {

HWY_EXPORT(add_halves);

void detail::add_half_kernels(KernelTable& table) { HWY_DYNAMIC_DISPATCH(add_halves)(table); }

}  // namespace hymn
#endif
