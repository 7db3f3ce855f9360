// Storage types for the small floating-point formats: float16, bfloat16, and the two float8
// formats.
//
// They hold bits and convert to and from float; arithmetic is done in float. Conversion from float
// rounds to nearest, ties to even; a NaN stays a NaN (quiet), overflow becomes infinity.
#pragma once

#include "hymn/standard.hpp"  // first

#include <bit>
#include <cstdint>

namespace hymn {

namespace detail {

constexpr float widen_float16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  // Subnormal: fraction * 2^-24 is exact in float32.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

constexpr std::uint16_t narrow_float16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)  // NaN: keep the top of its payload, make it quiet
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // overflow
  if (magnitude >= 0x38800000u) {                                                   // normal
    const std::uint32_t odd = (magnitude >> 13) & 1u;
    return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
  }
  // Subnormal or zero: adding 0.5 lines the result's last bit up with float's, which then rounds.
  const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
  return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u));
}

constexpr float widen_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

constexpr std::uint16_t narrow_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace detail

/// IEEE 754 binary16.
struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  constexpr explicit float16(float value) : bits(detail::narrow_float16(value)) {}
  constexpr explicit operator float() const { return detail::widen_float16(bits); }
  friend constexpr bool operator==(float16 a, float16 b) {
    return static_cast<float>(a) == static_cast<float>(b);
  }
};

/// The upper half of an IEEE 754 binary32.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  constexpr explicit bfloat16(float value) : bits(detail::narrow_bfloat16(value)) {}
  constexpr explicit operator float() const { return detail::widen_bfloat16(bits); }
  friend constexpr bool operator==(bfloat16 a, bfloat16 b) {
    return static_cast<float>(a) == static_cast<float>(b);
  }
};

/// OCP 8-bit float with 4 exponent bits, no infinity. Moved by every data-moving collective; never
/// reduced.
struct float8_e4m3fn {
  std::uint8_t bits = 0;
  friend constexpr bool operator==(float8_e4m3fn, float8_e4m3fn) = default;
};

/// OCP 8-bit float with 5 exponent bits. Moved by every data-moving collective; never reduced.
struct float8_e5m2 {
  std::uint8_t bits = 0;
  friend constexpr bool operator==(float8_e5m2, float8_e5m2) = default;
};

}  // namespace hymn
