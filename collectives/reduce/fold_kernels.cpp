// Kernels that fold the inputs of all ranks at once: one pass over memory, in registers, in rank
// order. Bit for bit what the combine kernels give one after the other.
//
// Only for what is its own accumulator. 8-bit and complex products have no vector instruction to
// match; they are left to the combine kernels.
#include "base/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/fold_kernels.cpp"
#include <cstdint>
#include <limits>
#include <type_traits>

#include "collectives/reduce/kernel_table.hpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again and again.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hymn::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct Sum {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};

struct Product {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Mul(a, b);
  }
};

struct Min {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Min(a, b);
  }
};

struct Max {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Max(a, b);
  }
};

struct And {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::And(a, b);
  }
};

struct Or {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Or(a, b);
  }
};

struct Xor {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Xor(a, b);
  }
};

/// The lesser or the greater of two numbers in the total order of their bits, or the quiet NaN: as
/// Order in float_kernels.cpp, whatever the processor's instructions make of -0 and NaN.
template <bool wants_greater>
struct Extreme {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    const hn::DFromV<V> floats;
    const hn::RebindToSigned<decltype(floats)> bits;
    const auto left = hn::BitCast(bits, a);
    const auto right = hn::BitCast(bits, b);
    // Two negative numbers are ordered against the order of their bits.
    const auto less = hn::Min(left, right);
    const auto greater = hn::Max(left, right);
    const auto both_negative = hn::And(left, right);
    const auto picked = wants_greater ? hn::IfNegativeThenElse(both_negative, less, greater)
                                      : hn::IfNegativeThenElse(both_negative, greater, less);
    const auto is_nan = hn::Or(hn::IsNaN(a), hn::IsNaN(b));
    const auto nan =
        hn::Set(floats, std::numeric_limits<hn::TFromD<decltype(floats)>>::quiet_NaN());
    return hn::IfThenElse(is_nan, nan, hn::BitCast(floats, picked));
  }
};

/// Elements of any alignment: only Highway's unaligned loads and stores see these pointers.
template <class T>
HWY_INLINE const T* element(const void* base, std::size_t index) {
  return reinterpret_cast<const T*>(static_cast<const std::byte*>(base) + index * sizeof(T));
}

/// What is folded, and where to. Ranks is a number, or a constant that leaves no loop.
template <class T, class Ranks>
struct Job {
  const void* const* inputs;
  Ranks ranks;
  std::size_t first;  ///< of the inputs' elements, that which goes to output[0]
  std::size_t count;
  T* output;
  T* copy;
};

template <class Op, class D, class J>
HWY_INLINE hn::Vec<D> fold_vector(D d, const J& job, std::size_t index) {
  using T = hn::TFromD<D>;
  auto folded = hn::LoadU(d, element<T>(job.inputs[0], job.first + index));
  for (int rank = 1; rank < job.ranks; ++rank)
    folded = Op()(folded, hn::LoadU(d, element<T>(job.inputs[rank], job.first + index)));
  return folded;
}

template <class Op, class D, class J>
HWY_INLINE void fold_and_store(D d, const J& job, std::size_t index) {
  const auto folded = fold_vector<Op>(d, job, index);
  hn::StoreU(folded, d, job.output + index);
  if (job.copy != nullptr) hn::StoreU(folded, d, job.copy + index);
}

/// What is left from `index` on: less than twice `lanes` elements, by ever smaller vectors.
template <class T, class Op, std::size_t lanes, class J>
HWY_INLINE void fold_rest(const J& job, std::size_t index) {
  const hn::CappedTag<T, lanes> d;
  for (; job.count - index >= hn::Lanes(d); index += hn::Lanes(d))
    fold_and_store<Op>(d, job, index);
  if constexpr (lanes > 1) fold_rest<T, Op, lanes / 2>(job, index);
}

/// More streams than a few are beyond the processor's own prefetcher.
template <class T>
HWY_INLINE void prefetch_four(const T* in, std::size_t lanes) {
  for (std::size_t i = 0; i < 4; ++i) hwy::Prefetch(in + i * lanes);
}

/// Four vectors at once, so that the walk over the ranks costs little.
template <bool streams, class T, class Op, class J>
HWY_INLINE std::size_t fold_fours(const J& job, std::size_t index) {
  const hn::ScalableTag<T> d;
  const std::size_t n = hn::Lanes(d);
  for (; job.count - index >= 4 * n; index += 4 * n) {
    const T* in = element<T>(job.inputs[0], job.first + index);
    auto a = hn::LoadU(d, in);
    auto b = hn::LoadU(d, in + n);
    auto c = hn::LoadU(d, in + 2 * n);
    auto e = hn::LoadU(d, in + 3 * n);
    for (int rank = 1; rank < job.ranks; ++rank) {
      in = element<T>(job.inputs[rank], job.first + index);
      if constexpr (std::is_same_v<decltype(job.ranks), int>) prefetch_four(in + 16 * n, n);
      a = Op()(a, hn::LoadU(d, in));
      b = Op()(b, hn::LoadU(d, in + n));
      c = Op()(c, hn::LoadU(d, in + 2 * n));
      e = Op()(e, hn::LoadU(d, in + 3 * n));
    }
    T* out = job.output + index;
    if constexpr (streams) {
      hn::Stream(a, d, out);
      hn::Stream(b, d, out + n);
      hn::Stream(c, d, out + 2 * n);
      hn::Stream(e, d, out + 3 * n);
    } else {
      hn::StoreU(a, d, out);
      hn::StoreU(b, d, out + n);
      hn::StoreU(c, d, out + 2 * n);
      hn::StoreU(e, d, out + 3 * n);
    }
    if (job.copy == nullptr) continue;
    out = job.copy + index;
    hn::StoreU(a, d, out);
    hn::StoreU(b, d, out + n);
    hn::StoreU(c, d, out + 2 * n);
    hn::StoreU(e, d, out + 3 * n);
  }
  return index;
}

template <class T, class Op, class J>
HWY_INLINE void fold_job(const J& job, bool stream) {
  const hn::ScalableTag<T> d;
  const std::size_t vector_bytes = hn::Lanes(d) * sizeof(T);
  const auto address = reinterpret_cast<std::uintptr_t>(job.output);
  std::size_t index = 0;
  // An output between two elements' places never comes to a boundary: it is stored as usual.
  if (stream && address % sizeof(T) == 0) {
    const hn::CappedTag<T, 1> one;
    const std::size_t before = (0 - address) % vector_bytes / sizeof(T);
    for (; index < before && index < job.count; ++index) fold_and_store<Op>(one, job, index);
    index = fold_fours<true, T, Op>(job, index);
  } else {
    index = fold_fours<false, T, Op>(job, index);
  }
  fold_rest<T, Op, HWY_MAX_BYTES / sizeof(T)>(job, index);
}

template <class T, class Op>
void fold(const void* const* inputs, int ranks, std::size_t first, std::size_t count, void* output,
          ResultPlaces places) {
  T* const out = static_cast<T*>(output);
  T* const copy = static_cast<T*>(places.copy);
  if (ranks == 2) {
    // By far the most frequent. A copy of the pointers can stay in registers.
    const void* const both[2] = {inputs[0], inputs[1]};
    using Two = std::integral_constant<int, 2>;
    fold_job<T, Op>(Job<T, Two>{both, {}, first, count, out, copy}, places.stream);
  } else {
    fold_job<T, Op>(Job<T, int>{inputs, ranks, first, count, out, copy}, places.stream);
  }
}

template <class T>
void add_integer(detail::KernelTable& table, Accumulator accumulator) {
  using U = std::make_unsigned_t<T>;
  table.fold(accumulator, ReduceKind::sum) = fold<U, Sum>;
  if constexpr (sizeof(T) > 1) table.fold(accumulator, ReduceKind::product) = fold<U, Product>;
  table.fold(accumulator, ReduceKind::min) = fold<T, Min>;
  table.fold(accumulator, ReduceKind::max) = fold<T, Max>;
  table.fold(accumulator, ReduceKind::band) = fold<U, And>;
  table.fold(accumulator, ReduceKind::bor) = fold<U, Or>;
  table.fold(accumulator, ReduceKind::bxor) = fold<U, Xor>;
}

template <class T>
void add_float(detail::KernelTable& table, Accumulator accumulator) {
  table.fold(accumulator, ReduceKind::sum) = fold<T, Sum>;
  table.fold(accumulator, ReduceKind::product) = fold<T, Product>;
  table.fold(accumulator, ReduceKind::min) = fold<T, Extreme<false>>;
  table.fold(accumulator, ReduceKind::max) = fold<T, Extreme<true>>;
}

/// Sums of complex numbers are sums of twice as many parts.
template <class Part>
void fold_complex_sum(const void* const* inputs, int ranks, std::size_t first, std::size_t count,
                      void* output, ResultPlaces places) {
  fold<Part, Sum>(inputs, ranks, 2 * first, 2 * count, output, places);
}

void add_folds(detail::KernelTable& table) {
  add_integer<std::int8_t>(table, Accumulator::int8);
  add_integer<std::uint8_t>(table, Accumulator::uint8);
  add_integer<std::int32_t>(table, Accumulator::int32);
  add_integer<std::uint32_t>(table, Accumulator::uint32);
  add_integer<std::int64_t>(table, Accumulator::int64);
  add_integer<std::uint64_t>(table, Accumulator::uint64);
  add_float<float>(table, Accumulator::float32);
  add_float<double>(table, Accumulator::float64);
  table.fold(Accumulator::complex64, ReduceKind::sum) = fold_complex_sum<float>;
  table.fold(Accumulator::complex128, ReduceKind::sum) = fold_complex_sum<double>;
}

}  // namespace
}  // namespace hymn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hymn {

HWY_EXPORT(add_folds);

void detail::add_fold_kernels(KernelTable& table) { HWY_DYNAMIC_DISPATCH(add_folds)(table); }

}  // namespace hymn
#endif
