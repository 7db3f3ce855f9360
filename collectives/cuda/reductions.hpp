// What the kernels reduce, and how: bit for bit what collectives/reduce does in rank order (but for
// the sign and payload of a NaN that arithmetic makes). docs/dtypes.md has the rules.
//
// A reduction turns what a rank gives into an accumulator (load), takes that of the first rank
// (first), combines it with the next, and turns the last one into the result (store).
#pragma once

#include <bit>
#include <type_traits>

#include "collectives/cuda/kernel_thread.hpp"
#include "hymn/half.hpp"

namespace hymn::cuda {

// --- Types: what they are in memory, and in what they are accumulated.

struct Float32 {
  using Element = float;
  using Accumulator = float;
  HYMN_KERNEL_BODY static float widen(float value) { return value; }
  HYMN_KERNEL_BODY static float narrow(float value) { return value; }
};

struct Float16 {
  using Element = std::uint16_t;
  using Accumulator = float;
  HYMN_KERNEL_BODY static float widen(std::uint16_t bits) { return detail::widen_float16(bits); }
  HYMN_KERNEL_BODY static std::uint16_t narrow(float value) {
    return detail::narrow_float16(value);
  }
};

struct Bfloat16 {
  using Element = std::uint16_t;
  using Accumulator = float;
  HYMN_KERNEL_BODY static float widen(std::uint16_t bits) { return detail::widen_bfloat16(bits); }
  HYMN_KERNEL_BODY static std::uint16_t narrow(float value) {
    return detail::narrow_bfloat16(value);
  }
};

/// Sums wrap, so that they are made of unsigned numbers.
struct Int32 {
  using Element = std::int32_t;
  using Accumulator = std::int32_t;
  HYMN_KERNEL_BODY static std::int32_t widen(std::int32_t value) { return value; }
  HYMN_KERNEL_BODY static std::int32_t narrow(std::int32_t value) { return value; }
};

HYMN_KERNEL_BODY std::int32_t add(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}
HYMN_KERNEL_BODY std::int32_t multiply(std::int32_t a, std::int32_t b) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b));
}

// --- Which of two comes first. Floats are ordered by their bits: -0 before +0, and a NaN, of which
// there is one, is the result of whatever it takes part in.

struct IntegerOrder {
  HYMN_KERNEL_BODY static std::int32_t least(std::int32_t a, std::int32_t b) {
    return a < b ? a : b;
  }
  HYMN_KERNEL_BODY static std::int32_t greatest(std::int32_t a, std::int32_t b) {
    return a < b ? b : a;
  }
};

struct FloatOrder {
  HYMN_KERNEL_BODY static float least(float a, float b) {
    return has_nan(a, b) ? nan() : less(a, b) ? a : b;
  }
  HYMN_KERNEL_BODY static float greatest(float a, float b) {
    return has_nan(a, b) ? nan() : less(a, b) ? b : a;
  }

 private:
  HYMN_KERNEL_BODY static float nan() { return std::bit_cast<float>(0x7fc00000u); }
  HYMN_KERNEL_BODY static bool is_nan(float value) {
    return (std::bit_cast<std::uint32_t>(value) & 0x7fffffffu) > 0x7f800000u;
  }
  HYMN_KERNEL_BODY static bool has_nan(float a, float b) { return is_nan(a) || is_nan(b); }
  // Two negative numbers are ordered by magnitude, against the order of their bits.
  HYMN_KERNEL_BODY static bool less(float a, float b) {
    const auto x = std::bit_cast<std::int32_t>(a);
    const auto y = std::bit_cast<std::int32_t>(b);
    return (x < y) != ((x & y) < 0);
  }
};

template <class Type>
using OrderOf =
    std::conditional_t<std::is_same_v<typename Type::Accumulator, float>, FloatOrder, IntegerOrder>;

// --- Reductions of any of these types.

/// What most of them have in common.
template <class Type>
struct Plain {
  using Element = typename Type::Element;
  using Accumulator = typename Type::Accumulator;
  static constexpr bool has_factor = false;
  HYMN_KERNEL_BODY static Accumulator load(Element element, std::uint32_t) {
    return Type::widen(element);
  }
  HYMN_KERNEL_BODY static Accumulator first(Accumulator given) { return given; }
  HYMN_KERNEL_BODY static Element store(Accumulator result, unsigned) {
    return Type::narrow(result);
  }
};

template <class Type>
struct Sum : Plain<Type> {
  using typename Plain<Type>::Accumulator;
  HYMN_KERNEL_BODY static Accumulator combine(Accumulator a, Accumulator b) { return add(a, b); }
};

/// A NaN becomes *the* NaN with one rank, too.
template <class Type>
struct Min : Plain<Type> {
  using typename Plain<Type>::Accumulator;
  HYMN_KERNEL_BODY static Accumulator combine(Accumulator a, Accumulator b) {
    return OrderOf<Type>::least(a, b);
  }
  HYMN_KERNEL_BODY static Accumulator first(Accumulator given) { return combine(given, given); }
};

template <class Type>
struct Max : Plain<Type> {
  using typename Plain<Type>::Accumulator;
  HYMN_KERNEL_BODY static Accumulator combine(Accumulator a, Accumulator b) {
    return OrderOf<Type>::greatest(a, b);
  }
  HYMN_KERNEL_BODY static Accumulator first(Accumulator given) { return combine(given, given); }
};

/// Each rank's elements times its own factor.
template <class Type>
struct PremulSum : Sum<Type> {
  using typename Plain<Type>::Element;
  using typename Plain<Type>::Accumulator;
  static constexpr bool has_factor = true;
  HYMN_KERNEL_BODY static Accumulator load(Element element, std::uint32_t factor) {
    return multiply(Type::widen(element), std::bit_cast<Accumulator>(factor));
  }
};

template <class Type>
struct Average : Sum<Type> {
  using typename Plain<Type>::Element;
  using typename Plain<Type>::Accumulator;
  HYMN_KERNEL_BODY static Element store(Accumulator sum, unsigned ranks) {
    return Type::narrow(divide(sum, static_cast<float>(ranks)));
  }
};

/// The sum is exact, the quotient rounded toward zero.
template <>
struct Average<Int32> {
  using Element = std::int32_t;
  using Accumulator = std::int64_t;
  static constexpr bool has_factor = false;
  HYMN_KERNEL_BODY static Accumulator load(Element element, std::uint32_t) { return element; }
  HYMN_KERNEL_BODY static Accumulator first(Accumulator given) { return given; }
  HYMN_KERNEL_BODY static Accumulator combine(Accumulator a, Accumulator b) { return a + b; }
  HYMN_KERNEL_BODY static Element store(Accumulator sum, unsigned ranks) {
    return static_cast<Element>(sum / static_cast<Accumulator>(ranks));
  }
};

}  // namespace hymn::cuda
