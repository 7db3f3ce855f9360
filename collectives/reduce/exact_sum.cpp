#include "collectives/reduce/exact_sum.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace hymn::detail {
namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr int digit_bits = 32;
constexpr std::uint64_t digit_mask = 0xffffffffu;
constexpr int unit_exponent = -1074;  // of the least double

/// The magnitude of a sum, all carries done.
class Magnitude {
 public:
  template <std::size_t n>
  explicit Magnitude(const std::array<std::int64_t, n>& digits) {
    static_assert(n == size);
    is_negative_ = carry(digits, 1) < 0;
    // What is left over beyond the last digit is the sign: the sum itself always fits.
    if (is_negative_) carry(digits, -1);
  }

  bool is_negative() const { return is_negative_; }
  /// The place of the highest one; -1 for zero.
  int highest() const {
    for (std::size_t i = size; i-- > 0;)
      if (digits_[i] != 0)
        return static_cast<int>(i) * digit_bits + static_cast<int>(std::bit_width(digits_[i])) - 1;
    return -1;
  }
  bool bit(int place) const {
    return place >= 0 && (digits_[index(place)] >> (place % digit_bits) & 1u) != 0;
  }
  bool has_ones_below(int place) const {
    if (place <= 0) return false;
    const auto whole = digits_.begin() + place / digit_bits;
    const auto is_not_zero = [](std::uint32_t digit) { return digit != 0; };
    return std::any_of(digits_.begin(), whole, is_not_zero) ||
           (*whole & ((1u << place % digit_bits) - 1u)) != 0;
  }
  /// The bits from place `low` on, of which there are no more than 64.
  std::uint64_t from(int low) const {
    const std::size_t first = index(low);
    Uint128 bits = digits_[first];
    if (first + 1 < size) bits |= Uint128{digits_[first + 1]} << digit_bits;
    if (first + 2 < size) bits |= Uint128{digits_[first + 2]} << 2 * digit_bits;
    return static_cast<std::uint64_t>(bits >> low % digit_bits);
  }

 private:
  static constexpr std::size_t size = 68;
  static std::size_t index(int place) { return static_cast<std::size_t>(place / digit_bits); }

  std::int64_t carry(const std::array<std::int64_t, size>& digits, std::int64_t sign) {
    std::int64_t over = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const std::int64_t sum = sign * digits[i] + over;
      digits_[i] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(sum) & digit_mask);
      over = sum >> digit_bits;
    }
    return over;
  }

  bool is_negative_ = false;
  std::array<std::uint32_t, size> digits_{};
};

template <class T>
T rounded(const Magnitude& sum, Rounding rounding) {
  using Limits = std::numeric_limits<T>;
  const int least = Limits::min_exponent - Limits::digits - unit_exponent;
  const int last = std::max(sum.highest() - Limits::digits + 1, least);
  std::uint64_t bits = sum.from(last);
  const bool half = sum.bit(last - 1);
  const bool more = sum.has_ones_below(last - 1);
  if (rounding == Rounding::odd)
    bits |= half || more ? 1u : 0u;
  else if (half && (more || (bits & 1u) != 0))
    ++bits;
  // Exact, or beyond the range of double or of float, and then infinite.
  const double value = std::ldexp(static_cast<double>(bits), last + unit_exponent);
  const bool overflows = value > static_cast<double>(Limits::max());
  const T result = overflows ? Limits::infinity() : static_cast<T>(value);
  return sum.is_negative() ? -result : result;
}

}  // namespace

void ExactSum::add(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const bool is_negative = bits >> 63 != 0;
  only_negative_zeros_ = only_negative_zeros_ && value == 0 && is_negative;
  const auto exponent = static_cast<unsigned>(bits >> 52 & 0x7ffu);
  std::uint64_t fraction = bits & 0xfffffffffffffu;
  if (exponent == 0x7ffu) {
    has_nan_ = has_nan_ || fraction != 0;
    (is_negative ? has_negative_infinity_ : has_infinity_) |= fraction == 0;
    return;
  }
  if (exponent != 0) fraction |= std::uint64_t{1} << 52;
  const unsigned place = exponent == 0 ? 0 : exponent - 1;
  const unsigned shift = place % digit_bits;
  // Up to 84 bits: three digits.
  const std::uint64_t low = fraction << shift;
  const std::uint64_t high = shift == 0 ? 0 : fraction >> (64 - shift);
  const std::int64_t sign = is_negative ? -1 : 1;
  std::int64_t* const digits = digits_.data() + place / digit_bits;
  digits[0] += sign * static_cast<std::int64_t>(low & digit_mask);
  digits[1] += sign * static_cast<std::int64_t>(low >> digit_bits);
  digits[2] += sign * static_cast<std::int64_t>(high);
}

template <class T>
T ExactSum::round(Rounding rounding) const {
  using Limits = std::numeric_limits<T>;
  if (has_nan_ || (has_infinity_ && has_negative_infinity_)) return Limits::quiet_NaN();
  if (has_infinity_) return Limits::infinity();
  if (has_negative_infinity_) return -Limits::infinity();
  const Magnitude sum(digits_);
  if (sum.highest() < 0) return only_negative_zeros_ ? T{-0.0} : T{0};
  return rounded<T>(sum, rounding);
}

template float ExactSum::round(Rounding) const;
template double ExactSum::round(Rounding) const;

template <class T>
T exact_element(const void* const* inputs, int ranks, std::size_t index, Rounding rounding) {
  ExactSum sum;
  for (int rank = 0; rank < ranks; ++rank) {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(inputs[rank]) + index * sizeof(T), sizeof(T));
    sum.add(static_cast<double>(value));
  }
  return sum.round<T>(rounding);
}

template float exact_element(const void* const*, int, std::size_t, Rounding);
template double exact_element(const void* const*, int, std::size_t, Rounding);

}  // namespace hymn::detail
