// Whether a number is the correctly rounded sum of others, decided by exact arithmetic on single
// bits: slow, and by other means than the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace hymn::reference {

/// A number in fixed point with one counter for each bit.
class BitSum {
 public:
  /// Adds times * significand * 2^exponent.
  void add(std::uint64_t significand, int exponent, int times) {
    for (std::size_t place = static_cast<std::size_t>(exponent + unit); significand != 0;
         ++place, significand >>= 1)
      if ((significand & 1) != 0) counters_[place] += times;
  }

  /// -1, 0 or 1.
  int sign() const {
    std::int64_t carry = 0;
    bool any = false;
    for (const std::int64_t counter : counters_) {
      const std::int64_t sum = counter + carry;
      any = any || (sum & 1) != 0;
      carry = sum >> 1;  // toward minus infinity
    }
    if (carry < 0) return -1;
    return any || carry > 0 ? 1 : 0;
  }

 private:
  static constexpr int unit = 1074;  // the least double is 2^-1074
  std::vector<std::int64_t> counters_ = std::vector<std::int64_t>(2200);
};

/// A binary format of IEEE 754 by its bits.
template <class Bits, int fraction_bits>
struct Binary {
  static constexpr int exponent_bits = std::numeric_limits<Bits>::digits - 1 - fraction_bits;
  static constexpr Bits sign = static_cast<Bits>(Bits{1} << (fraction_bits + exponent_bits));
  static constexpr Bits infinity =
      static_cast<Bits>(((Bits{1} << exponent_bits) - 1) << fraction_bits);

  static bool is_negative(Bits bits) { return (bits & sign) != 0; }
  static Bits magnitude(Bits bits) { return static_cast<Bits>(bits & ~sign); }
  static bool is_nan(Bits bits) { return magnitude(bits) > infinity; }
  static bool is_infinite(Bits bits) { return magnitude(bits) == infinity; }

  /// Infinity counts as what would come after the greatest number: so does rounding see it.
  static void add(BitSum& sum, Bits bits, int times) {
    const Bits all = magnitude(bits);
    const Bits fraction = static_cast<Bits>(all & ((Bits{1} << fraction_bits) - 1));
    const int exponent = static_cast<int>(all >> fraction_bits);
    const std::uint64_t leading = exponent == 0 ? 0 : std::uint64_t{1} << fraction_bits;
    constexpr int bias = (1 << (exponent_bits - 1)) - 1;
    const int scale = (exponent == 0 ? 1 : exponent) - bias - fraction_bits;
    sum.add(leading | fraction, scale, is_negative(bits) ? -times : times);
  }

  /// Whether `result`, which is no NaN, is nearest to the sum of `values`, which are finite: ties
  /// go to even, a sum of zero has the sign of the values if they all are zeros of the same one.
  static bool is_rounded_sum(Bits result, const std::vector<Bits>& values) {
    if (magnitude(result) == 0 && is_negative(result) != are_negative_zeros(values)) {
      // What is less than half of the least number becomes a zero with its sign.
      return is_negative(result) && side(values, result, result) < 0 &&
             side(values, result, static_cast<Bits>(sign | 1)) >= 0;
    }
    const bool is_even = (result & 1) == 0;
    const int direction = is_negative(result) ? -1 : 1;
    const auto allows = [is_even](int outside) { return is_even ? outside <= 0 : outside < 0; };
    // The neighbour further from zero, then the nearer one, or beyond zero the least number.
    const bool is_within = is_infinite(result) ||
                           allows(direction * side(values, result, static_cast<Bits>(result + 1)));
    const Bits inner = magnitude(result) == 0 ? static_cast<Bits>((result ^ sign) | 1)
                                              : static_cast<Bits>(result - 1);
    return is_within && allows(-direction * side(values, result, inner));
  }

 private:
  static bool are_negative_zeros(const std::vector<Bits>& values) {
    for (const Bits value : values)
      if (value != sign) return false;
    return true;
  }
  /// On which side of the middle between a and b the sum is.
  static int side(const std::vector<Bits>& values, Bits a, Bits b) {
    BitSum difference;
    for (const Bits value : values) add(difference, value, 2);
    add(difference, a, -1);
    add(difference, b, -1);
    return difference.sign();
  }
};

}  // namespace hymn::reference
