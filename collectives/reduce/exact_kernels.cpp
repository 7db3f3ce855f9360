// Kernels that sum the inputs of all ranks exactly and round once: the result does not depend on
// the order of the inputs.
//
// Three ways, each for the elements where the one before fails. The sum of floats in a double is
// mostly exact. Else, and for doubles, a sum is kept as two doubles, high + low, from which nothing
// is lost unless low itself would have to round. The last way is ExactSum: for summands that differ
// by more than 2^50 or so, and what is not finite. Needs -ffp-contract=off, and no -ffast-math.
#include "base/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/exact_kernels.cpp"
#include <cstdint>
#include <cstring>
#include <limits>

#include "collectives/reduce/exact_sum.hpp"
#include "collectives/reduce/kernel_table.hpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again and again.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hymn::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using detail::Rounding;

/// a + b and what is lost in it, so that the two together are exact. Where the sum overflows, the
/// loss is not finite.
template <class V>
struct TwoSum {
  HWY_INLINE TwoSum(V a, V b) : sum(hn::Add(a, b)) {
    const V of_b = hn::Sub(sum, a);
    lost = hn::Add(hn::Sub(a, hn::Sub(sum, of_b)), hn::Sub(b, of_b));
  }
  V sum;
  V lost;
};

/// Plain sums that know whether they are exact.
template <class D>
class CheckedSums {
 public:
  using V = hn::Vec<D>;

  HWY_INLINE explicit CheckedSums(V first) : sum_(first), doubt_(hn::Zero(D())) {}

  HWY_INLINE void add(V value) {
    const TwoSum<V> next(sum_, value);
    sum_ = next.sum;
    doubt_ = hn::Or(doubt_, next.lost);
  }
  HWY_INLINE bool certain(double limit) const {
    const D d;
    const auto within = hn::Lt(hn::Abs(sum_), hn::Set(d, limit));
    return hn::AllTrue(d, hn::And(hn::Eq(doubt_, hn::Zero(d)), within));
  }
  HWY_INLINE V sum() const { return sum_; }

 private:
  V sum_;
  V doubt_;
};

/// Sums of two doubles each.
template <class D>
class PairSums {
 public:
  using V = hn::Vec<D>;

  HWY_INLINE explicit PairSums(V first)
      : high_(first), low_(hn::Zero(D())), doubt_(hn::Zero(D())) {}

  HWY_INLINE void add(V value) {
    const TwoSum<V> high(high_, value);
    const TwoSum<V> low(low_, high.lost);
    high_ = high.sum;
    low_ = low.sum;
    doubt_ = hn::Or(doubt_, low.lost);
  }
  /// In all lanes high + low is the sum: nothing was lost, nothing is infinite or above `limit`.
  HWY_INLINE bool certain(double limit) const {
    const D d;
    const auto nothing_lost = hn::Eq(doubt_, hn::Zero(d));
    const auto within = hn::Lt(hn::Abs(high_), hn::Set(d, limit));
    return hn::AllTrue(d, hn::And(nothing_lost, within));
  }
  /// Keeps the sign of a high part that is zero.
  HWY_INLINE V nearest() const {
    return hn::IfThenElse(hn::Eq(low_, hn::Zero(D())), high_, hn::Add(high_, low_));
  }
  /// See Rounding::odd: cut off toward zero, with a last bit that says so.
  HWY_INLINE V odd() const {
    const hn::RebindToUnsigned<D> bits;
    const TwoSum<V> whole(high_, low_);
    const auto is_exact = hn::Eq(whole.lost, hn::Zero(D()));
    const auto opposite = hn::ShiftRight<63>(hn::BitCast(bits, hn::Xor(whole.sum, whole.lost)));
    const auto cut = hn::Sub(hn::BitCast(bits, whole.sum), opposite);
    const V marked = hn::BitCast(D(), hn::Or(cut, hn::Set(bits, 1)));
    return hn::IfThenElse(is_exact, nearest(), marked);
  }

 private:
  V high_;
  V low_;
  V doubt_;
};

/// Elements of any alignment: only Highway's unaligned loads and stores see these pointers.
template <class T>
HWY_INLINE const T* element(const void* base, std::size_t index) {
  return reinterpret_cast<const T*>(static_cast<const std::byte*>(base) + index * sizeof(T));
}

/// From element `at` of all inputs on, as many as there are lanes.
struct Column {
  const void* const* inputs;
  int ranks;
  std::size_t at;
};

template <class Sums, class Type, class D>
HWY_INLINE Sums sum_up(D d, const Column& column) {
  using T = typename Type::Element;
  Sums sums(Type::load(d, element<T>(column.inputs[0], column.at)));
  for (int rank = 1; rank < column.ranks; ++rank)
    sums.add(Type::load(d, element<T>(column.inputs[rank], column.at)));
  return sums;
}

// How each type is summed. `d` is the tag of the doubles; store() gets sums that sum_of() has
// rounded as it needs them, or that are exact.

struct Doubles {
  using Element = double;
  static constexpr Rounding rounding = Rounding::nearest;
  static constexpr bool fits_in_double = false;
  static constexpr double limit = std::numeric_limits<double>::infinity();

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const double* in) {
    return hn::LoadU(d, in);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> sum_of(const PairSums<D>& sums) {
    return sums.nearest();
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> sum, double* out) {
    hn::StoreU(sum, d, out);
  }
};

struct Floats {
  using Element = float;
  static constexpr Rounding rounding = Rounding::nearest;
  static constexpr bool fits_in_double = true;  // mostly
  /// Not every conversion to float overflows to infinity.
  static constexpr double limit = 0x1p127;

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const float* in) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, D>(), in));
  }
  /// Rounding to nearest what was rounded to odd gives what rounding the exact sum does.
  template <class D>
  static HWY_INLINE hn::Vec<D> sum_of(const PairSums<D>& sums) {
    return sums.odd();
  }
  template <class D>
  static HWY_INLINE void store(D, hn::Vec<D> sum, float* out) {
    const hn::Rebind<float, D> floats;
    hn::StoreU(hn::DemoteTo(floats, sum), floats, out);
  }
};

/// Floats that will be rounded again, to a half. A sum of floats that is below their normal range
/// is exact, so the bits to cut off are always those beyond the 24 of a normal one.
struct FloatsToOdd : Floats {
  static constexpr Rounding rounding = Rounding::odd;

  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> sum, float* out) {
    const hn::RebindToUnsigned<D> bits;
    const auto all = hn::BitCast(bits, sum);
    const auto beyond = hn::And(all, hn::Set(bits, 0x1fffffffu));
    const auto is_exact = hn::Eq(beyond, hn::Zero(bits));
    const auto cut = hn::Sub(all, beyond);
    const auto odd = hn::IfThenElse(is_exact, cut, hn::Or(cut, hn::Set(bits, 0x20000000u)));
    Floats::store(d, hn::BitCast(d, odd), out);
  }
};

template <class Type, class D>
HWY_INLINE void sum_vector(D d, const Column& column, typename Type::Element* output) {
  using T = typename Type::Element;
  if constexpr (Type::fits_in_double) {
    const auto sums = sum_up<CheckedSums<D>, Type>(d, column);
    if (HWY_LIKELY(sums.certain(Type::limit))) {
      Type::store(d, sums.sum(), output);
      return;
    }
  }
  const auto sums = sum_up<PairSums<D>, Type>(d, column);
  if (HWY_LIKELY(sums.certain(Type::limit))) {
    Type::store(d, Type::sum_of(sums), output);
    return;
  }
  // The output may be an input: an element is written when it has been read from all.
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) {
    const T sum =
        detail::exact_element<T>(column.inputs, column.ranks, column.at + lane, Type::rounding);
    // Through void: a typed pointer would promise that the address fits the type.
    std::memcpy(static_cast<void*>(output + lane), &sum, sizeof(T));
  }
}

/// What is left: less than twice `lanes` elements, by ever smaller vectors.
template <class Type, std::size_t lanes>
HWY_INLINE void sum_rest(const void* const* inputs, int ranks, std::size_t first, std::size_t index,
                         std::size_t count, typename Type::Element* output) {
  const hn::CappedTag<double, lanes> d;
  for (; count - index >= hn::Lanes(d); index += hn::Lanes(d))
    sum_vector<Type>(d, Column{inputs, ranks, first + index}, output + index);
  if constexpr (lanes > 1) sum_rest<Type, lanes / 2>(inputs, ranks, first, index, count, output);
}

template <class Type>
void sum_exactly(const void* const* inputs, int ranks, std::size_t first, std::size_t count,
                 void* output) {
  sum_rest<Type, HWY_MAX_BYTES / sizeof(double)>(inputs, ranks, first, 0, count,
                                                 static_cast<typename Type::Element*>(output));
}

/// Sums of complex numbers are sums of twice as many parts.
template <class Type>
void sum_parts_exactly(const void* const* inputs, int ranks, std::size_t first, std::size_t count,
                       void* output) {
  sum_exactly<Type>(inputs, ranks, 2 * first, 2 * count, output);
}

void add_exact(detail::KernelTable& table) {
  table.exact(Accumulator::float32) = sum_exactly<Floats>;
  table.exact(Accumulator::float64) = sum_exactly<Doubles>;
  table.exact(Accumulator::complex64) = sum_parts_exactly<Floats>;
  table.exact(Accumulator::complex128) = sum_parts_exactly<Doubles>;
  table.exact_to_odd() = sum_exactly<FloatsToOdd>;
}

}  // namespace
}  // namespace hymn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hymn {

HWY_EXPORT(add_exact);

void detail::add_exact_kernels(KernelTable& table) { HWY_DYNAMIC_DISPATCH(add_exact)(table); }

}  // namespace hymn
#endif
