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

/// Accumulated as what it is.
template <class T>
struct AsItIs {
  using Element = T;
  using Accumulator = T;
  HYMN_KERNEL_BODY static T widen(T value) { return value; }
  HYMN_KERNEL_BODY static T narrow(T value) { return value; }
};
using Float32 = AsItIs<float>;
using Float64 = AsItIs<double>;
using Int32 = AsItIs<std::int32_t>;
using Int64 = AsItIs<std::int64_t>;

struct Float16 {
  using Element = std::uint16_t;
  using Accumulator = float;
  HYMN_KERNEL_BODY static float widen(std::uint16_t bits) { return widen_float16(bits); }
  HYMN_KERNEL_BODY static std::uint16_t narrow(float value) { return narrow_float16(value); }
};

struct Bfloat16 {
  using Element = std::uint16_t;
  using Accumulator = float;
  HYMN_KERNEL_BODY static float widen(std::uint16_t bits) { return detail::widen_bfloat16(bits); }
  HYMN_KERNEL_BODY static std::uint16_t narrow(float value) { return narrow_bfloat16(value); }
};

/// Sums of integers wrap, so that they are made of unsigned numbers.
template <class Integer>
  requires std::is_integral_v<Integer>
HYMN_KERNEL_BODY Integer add(Integer a, Integer b) {
  using Unsigned = std::make_unsigned_t<Integer>;
  return static_cast<Integer>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
}

// --- Which of two floats comes first, by their bits: -0 before +0, and a NaN, of which there is
// one, is the result of whatever it takes part in.

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

// --- Reductions of these types.

/// What most of them have in common.
template <class Type>
struct Plain {
  using Element = typename Type::Element;
  using Accumulator = typename Type::Accumulator;
  HYMN_KERNEL_BODY static Accumulator load(Element element) { return Type::widen(element); }
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

/// The order, and quotients, are those of floats alone.
template <class Type>
concept AccumulatedInFloat32 = std::is_same_v<typename Type::Accumulator, float>;

/// A NaN becomes *the* NaN with one rank, too.
template <AccumulatedInFloat32 Type>
struct Min : Plain<Type> {
  using typename Plain<Type>::Accumulator;
  HYMN_KERNEL_BODY static Accumulator combine(Accumulator a, Accumulator b) {
    return FloatOrder::least(a, b);
  }
  HYMN_KERNEL_BODY static Accumulator first(Accumulator given) { return combine(given, given); }
};

template <AccumulatedInFloat32 Type>
struct Max : Plain<Type> {
  using typename Plain<Type>::Accumulator;
  HYMN_KERNEL_BODY static Accumulator combine(Accumulator a, Accumulator b) {
    return FloatOrder::greatest(a, b);
  }
  HYMN_KERNEL_BODY static Accumulator first(Accumulator given) { return combine(given, given); }
};

template <AccumulatedInFloat32 Type>
struct Average : Sum<Type> {
  using typename Plain<Type>::Element;
  using typename Plain<Type>::Accumulator;
  HYMN_KERNEL_BODY static Element store(Accumulator sum, unsigned ranks) {
    return Type::narrow(divide(sum, static_cast<float>(ranks)));
  }
};

}  // namespace hymn::cuda
