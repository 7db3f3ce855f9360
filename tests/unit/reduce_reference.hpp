// What docs/dtypes.md says, once more: element by element, written to be obviously right rather
// than fast, and by other means than the kernels. The tests hold the kernels against this.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "hymn/types.hpp"

namespace hymn::reference {

using Random = std::mt19937_64;

__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;

/// One element of every rank, in rank order, and the factor of premul_sum.
template <class T>
struct Column {
  std::vector<T> values;
  double factor = 1.0;
};

struct Boolean {
  using Element = std::uint8_t;
  static constexpr std::array factors = {1.0};

  static Element random(Random& random) {
    return std::uniform_int_distribution<>(0, 1)(random) == 0 ? Element{0}
                                                              : static_cast<Element>(random());
  }
  static Element reduce(ReduceKind kind, const Column<Element>& column) {
    const auto ones = std::count_if(column.values.begin(), column.values.end(),
                                    [](Element value) { return value != 0; });
    const bool all = static_cast<std::size_t>(ones) == column.values.size();
    const bool any = ones > 0;
    const bool odd = ones % 2 == 1;
    if (kind == ReduceKind::bxor || kind == ReduceKind::lxor) return odd;
    const bool is_any = kind == ReduceKind::sum || kind == ReduceKind::bor ||
                        kind == ReduceKind::lor || kind == ReduceKind::max;
    return is_any ? any : all;
  }
  static bool same(ReduceKind, Element a, Element b) { return a == b; }
};

template <class T>
struct Integer {
  using Element = T;
  static constexpr std::array factors = {
      0.0, 1.0, 3.0, static_cast<double>(std::numeric_limits<T>::min()),
      // The greatest power of two that it holds.
      static_cast<double>(T{1} << (std::numeric_limits<T>::digits - 1))};

  static Element random(Random& random) {
    static constexpr std::array special = {std::numeric_limits<T>::min(),
                                           std::numeric_limits<T>::max(), T{0}, T{1},
                                           static_cast<T>(-1)};
    const auto draw = std::uniform_int_distribution<std::size_t>(0, 2 * special.size())(random);
    return draw < special.size() ? special[draw] : static_cast<T>(random());
  }

  /// Modulo 2^bits: 128 unsigned bits keep all that matters of any product.
  static Element wrapped(Uint128 value) { return static_cast<T>(value); }

  static Element reduce(ReduceKind kind, const Column<Element>& column) {
    Uint128 sum = 0;
    Uint128 product = 1;
    Uint128 scaled = 0;
    Int128 exact = 0;  // seven uint64 fit
    T band = static_cast<T>(-1);
    T bor = 0;
    T bxor = 0;
    std::size_t truths = 0;
    for (const T value : column.values) {
      sum += static_cast<Uint128>(value);
      product *= static_cast<Uint128>(value);
      scaled +=
          static_cast<Uint128>(value) * static_cast<Uint128>(static_cast<Int128>(column.factor));
      exact += value;
      band = static_cast<T>(band & value);
      bor = static_cast<T>(bor | value);
      bxor = static_cast<T>(bxor ^ value);
      if (value != 0) ++truths;
    }
    switch (kind) {
      case ReduceKind::sum:
        return wrapped(sum);
      case ReduceKind::product:
        return wrapped(product);
      case ReduceKind::min:
        return *std::min_element(column.values.begin(), column.values.end());
      case ReduceKind::max:
        return *std::max_element(column.values.begin(), column.values.end());
      case ReduceKind::band:
        return band;
      case ReduceKind::bor:
        return bor;
      case ReduceKind::bxor:
        return bxor;
      case ReduceKind::land:
        return truths == column.values.size();
      case ReduceKind::lor:
        return truths > 0;
      case ReduceKind::lxor:
        return truths % 2;
      case ReduceKind::avg:
        return static_cast<T>(exact / static_cast<Int128>(column.values.size()));
      case ReduceKind::premul_sum:
      case ReduceKind::custom:
      case ReduceKind::opaque:
        break;
    }
    return wrapped(scaled);
  }
  static bool same(ReduceKind, Element a, Element b) { return a == b; }
};

/// Numbers of a binary format, all its special ones among them, from its widths.
template <class Bits, int fraction_bits>
Bits random_float_bits(Random& random) {
  constexpr int width = std::numeric_limits<Bits>::digits;
  constexpr auto sign = static_cast<Bits>(Bits{1} << (width - 1));
  constexpr auto one_ulp = static_cast<Bits>(Bits{1} << fraction_bits);
  constexpr auto infinity = static_cast<Bits>((sign - 1) & ~(one_ulp - 1));
  constexpr std::array<Bits, 10> special = {
      Bits{0},                          // zero
      Bits{1},                          // least subnormal
      static_cast<Bits>(one_ulp - 1),   // greatest subnormal
      one_ulp,                          // least normal
      static_cast<Bits>(infinity - 1),  // greatest
      infinity,
      static_cast<Bits>(infinity | 1),                      // a signalling NaN
      static_cast<Bits>(infinity | (one_ulp >> 1)),         // the quiet NaN
      static_cast<Bits>(infinity | (one_ulp - 1)),          // a quiet NaN with payload
      static_cast<Bits>((infinity >> 1) & ~(one_ulp - 1)),  // one, more or less
  };
  switch (std::uniform_int_distribution<>(0, 9)(random)) {
    case 0: {
      const auto index = std::uniform_int_distribution<std::size_t>(0, special.size() - 1)(random);
      return static_cast<Bits>(special[index] | (random() % 2 == 0 ? sign : Bits{0}));
    }
    case 1:
      return static_cast<Bits>(random());
    default: {  // of like size, so that sums and products round
      const auto exponent = std::uniform_int_distribution<int>(-6, 6)(random);
      const auto fraction = static_cast<Bits>(random() & static_cast<Bits>(sign | (one_ulp - 1)));
      const auto middle =
          static_cast<Bits>((infinity >> (fraction_bits + 1)) + static_cast<Bits>(exponent));
      return static_cast<Bits>(fraction | (middle << fraction_bits));
    }
  }
}

inline constexpr std::array float_factors = {1.0, -0.0, 0.1, -3.0, 1e30};

/// One element of float32 or float64, and the accumulator of a half.
template <class T>
T reduce_floats(ReduceKind kind, const Column<T>& column) {
  const std::vector<T>& values = column.values;
  if (kind == ReduceKind::min || kind == ReduceKind::max) {
    if (std::any_of(values.begin(), values.end(), [](T value) { return std::isnan(value); }))
      return std::numeric_limits<T>::quiet_NaN();
    const auto before = [](T a, T b) {
      if (a == 0 && b == 0) return std::signbit(a) && !std::signbit(b);
      return a < b;
    };
    return kind == ReduceKind::min ? *std::min_element(values.begin(), values.end(), before)
                                   : *std::max_element(values.begin(), values.end(), before);
  }
  const T factor = kind == ReduceKind::premul_sum ? static_cast<T>(column.factor) : T{1};
  T result = values.front() * factor;
  for (std::size_t i = 1; i < values.size(); ++i)
    result = kind == ReduceKind::product ? result * values[i] : result + values[i] * factor;
  return kind == ReduceKind::avg ? result / static_cast<T>(values.size()) : result;
}

/// Equal bits; any two NaNs will do where arithmetic made them.
template <class Bits, class T>
bool same_floats(ReduceKind kind, T a, T b) {
  if (std::isnan(a) && std::isnan(b) && kind != ReduceKind::min && kind != ReduceKind::max)
    return true;
  return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b);
}

template <class T, class Bits>
struct Float {
  using Element = T;
  static constexpr auto factors = float_factors;

  static Element random(Random& random) {
    return std::bit_cast<T>(random_float_bits<Bits, std::numeric_limits<T>::digits - 1>(random));
  }
  static Element reduce(ReduceKind kind, const Column<Element>& column) {
    return reduce_floats(kind, column);
  }
  static bool same(ReduceKind kind, Element a, Element b) { return same_floats<Bits>(kind, a, b); }
};

/// A binary format of 16 bits, converted by arithmetic on its definition.
template <int fraction_bits, int least_exponent>
struct HalfFormat {
  static constexpr int exponent_bits = 15 - fraction_bits;
  static constexpr std::uint32_t infinity = ((1u << exponent_bits) - 1u) << fraction_bits;

  static float widen(std::uint16_t half) {
    const std::uint32_t magnitude = half & 0x7fffu;
    const std::uint32_t fraction = magnitude & ((1u << fraction_bits) - 1u);
    const std::uint32_t sign = static_cast<std::uint32_t>(half >> 15) << 31;
    if (magnitude >= infinity)  // the fraction of a NaN is kept at the top
      return std::bit_cast<float>(sign | 0x7f800000u | (fraction << (23 - fraction_bits)));
    const auto exponent = static_cast<int>(magnitude >> fraction_bits);
    const double significand = exponent == 0 ? fraction : fraction + (1u << fraction_bits);
    const double value =
        std::ldexp(significand, std::max(exponent, 1) - 1 + least_exponent - fraction_bits);
    return static_cast<float>(sign != 0 ? -value : value);
  }

  static std::uint16_t narrow(float value) {
    const std::uint32_t sign = std::signbit(value) ? 0x8000u : 0u;
    if (std::isnan(value)) {
      const std::uint32_t payload = std::bit_cast<std::uint32_t>(value) & 0x7fffffu;
      const std::uint32_t quiet = 1u << (fraction_bits - 1);
      return static_cast<std::uint16_t>(sign | infinity | quiet |
                                        (payload >> (23 - fraction_bits)));
    }
    if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity);
    const double magnitude = std::fabs(static_cast<double>(value));
    const int exponent =
        magnitude == 0 ? least_exponent : std::max(std::ilogb(magnitude), least_exponent);
    // In units of the last place; nearbyint rounds to nearest, ties to even.
    const double units = std::nearbyint(std::ldexp(magnitude, fraction_bits - exponent));
    // A carry out of the fraction runs on into the exponent, as it should.
    const auto bits = static_cast<std::uint32_t>(units) +
                      (static_cast<std::uint32_t>(exponent - least_exponent) << fraction_bits);
    return static_cast<std::uint16_t>(sign | std::min(bits, infinity));
  }
};

using Float16Format = HalfFormat<10, -14>;
using Bfloat16Format = HalfFormat<7, -126>;

template <class Format, int fraction_bits>
struct Half {
  using Element = std::uint16_t;
  static constexpr auto factors = float_factors;

  static Element random(Random& random) {
    return random_float_bits<std::uint16_t, fraction_bits>(random);
  }
  static Element reduce(ReduceKind kind, const Column<Element>& column) {
    Column<float> wide;
    wide.factor = column.factor;
    for (const Element half : column.values) wide.values.push_back(Format::widen(half));
    return Format::narrow(reduce_floats(kind, wide));
  }
  static bool same(ReduceKind kind, Element a, Element b) {
    const bool nans = std::isnan(Format::widen(a)) && std::isnan(Format::widen(b));
    return a == b || (nans && kind != ReduceKind::min && kind != ReduceKind::max);
  }
};

template <class Part, class Bits>
struct Complex {
  using Element = std::complex<Part>;
  using PartReference = Float<Part, Bits>;
  static constexpr auto factors = float_factors;

  static Element random(Random& random) {
    return {PartReference::random(random), PartReference::random(random)};
  }
  static Element reduce(ReduceKind kind, const Column<Element>& column) {
    if (kind == ReduceKind::product) {
      Element result = column.values.front();
      for (std::size_t i = 1; i < column.values.size(); ++i) {
        const Element& next = column.values[i];
        result = {result.real() * next.real() - result.imag() * next.imag(),
                  result.real() * next.imag() + result.imag() * next.real()};
      }
      return result;
    }
    Column<Part> real{{}, column.factor};
    Column<Part> imaginary{{}, column.factor};
    for (const Element& value : column.values) {
      real.values.push_back(value.real());
      imaginary.values.push_back(value.imag());
    }
    return {reduce_floats(kind, real), reduce_floats(kind, imaginary)};
  }
  static bool same(ReduceKind kind, Element a, Element b) {
    return same_floats<Bits>(kind, a.real(), b.real()) &&
           same_floats<Bits>(kind, a.imag(), b.imag());
  }
};

/// Calls visit.template operator()<Reference>() for the reference of a type that can be reduced.
template <class Visit>
void with_reference(DataType dtype, Visit&& visit) {
  switch (dtype) {
    case DataType::boolean:
      return visit.template operator()<Boolean>();
    case DataType::int8:
      return visit.template operator()<Integer<std::int8_t>>();
    case DataType::uint8:
      return visit.template operator()<Integer<std::uint8_t>>();
    case DataType::int16:
      return visit.template operator()<Integer<std::int16_t>>();
    case DataType::uint16:
      return visit.template operator()<Integer<std::uint16_t>>();
    case DataType::int32:
      return visit.template operator()<Integer<std::int32_t>>();
    case DataType::uint32:
      return visit.template operator()<Integer<std::uint32_t>>();
    case DataType::int64:
      return visit.template operator()<Integer<std::int64_t>>();
    case DataType::uint64:
      return visit.template operator()<Integer<std::uint64_t>>();
    case DataType::float16:
      return visit.template operator()<Half<Float16Format, 10>>();
    case DataType::bfloat16:
      return visit.template operator()<Half<Bfloat16Format, 7>>();
    case DataType::float32:
      return visit.template operator()<Float<float, std::uint32_t>>();
    case DataType::float64:
      return visit.template operator()<Float<double, std::uint64_t>>();
    case DataType::complex64:
      return visit.template operator()<Complex<float, std::uint32_t>>();
    case DataType::complex128:
      return visit.template operator()<Complex<double, std::uint64_t>>();
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
    case DataType::value:
    case DataType::opaque:
      return;
  }
}

}  // namespace hymn::reference
