// The exact sum of any floating-point numbers, for the elements whose sum the vector kernels cannot
// round with certainty.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hymn::detail {

/// How an exact sum becomes a number of the type.
enum class Rounding : std::uint8_t {
  nearest,  ///< ties to even
  odd,      ///< what is not exact gets an odd last bit: can be rounded again, to a shorter type,
            ///< as if it had never been rounded
};

/// A sum in fixed point that is wide enough for every double: addition is exact, whatever the
/// order. Takes up to 2^31 summands.
class ExactSum {
 public:
  void add(double value);

  /// The sum as float or double. NaN if a summand is, or if infinities of both signs are (always
  /// the same quiet NaN); infinity if one is, or beyond the type's range. A sum of zero is -0 if
  /// all summands are, else +0.
  template <class T>
  T round(Rounding rounding) const;

 private:
  // Digits of 32 bits, lowest first, each with room for carries; the unit is 2^-1074, and there is
  // room for 2^31 times the greatest double.
  static constexpr std::size_t digit_count = 68;

  bool has_nan_ = false;
  bool has_infinity_ = false;
  bool has_negative_infinity_ = false;
  bool only_negative_zeros_ = true;
  std::array<std::int64_t, digit_count> digits_{};
};

/// The sum of element `index` of all inputs; any alignment.
template <class T>
T exact_element(const void* const* inputs, int ranks, std::size_t index, Rounding rounding);

}  // namespace hymn::detail
