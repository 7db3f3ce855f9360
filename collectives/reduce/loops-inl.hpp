// The loops of all kernels, compiled once for each instruction set and left to the compiler's
// vectoriser. What they compute comes in as function objects.
//
// Included within the per-target part of a kernel file, hence no #pragma once.
#if defined(HYMN_REDUCE_LOOPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HYMN_REDUCE_LOOPS_INL
#undef HYMN_REDUCE_LOOPS_INL
#else
#define HYMN_REDUCE_LOOPS_INL
#endif

#include <cstddef>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hymn::HWY_NAMESPACE {

// Elements are copied byte-wise (which costs nothing once compiled): a buffer may then have any
// alignment, and any type may have been written into it.
template <class T>
HWY_INLINE T get(const void* base, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(base) + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
HWY_INLINE void put(void* base, std::size_t index, T value) {
  std::memcpy(static_cast<std::byte*>(base) + index * sizeof(T), &value, sizeof(T));
}

/// accumulator[i] = Function()(accumulator[i], other[i])
template <class T, class Function>
void fold(void* HWY_RESTRICT accumulator, const void* HWY_RESTRICT other, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    put<T>(accumulator, i, Function()(get<T>(accumulator, i), get<T>(other, i)));
}

template <class Out, class In, class Function>
void map_apart(void* HWY_RESTRICT out, const void* HWY_RESTRICT in, std::size_t count,
               Function function) {
  for (std::size_t i = 0; i < count; ++i) put<Out>(out, i, function(get<In>(in, i)));
}

/// out[i] = function(in[i]), in place or apart.
template <class Out, class In, class Function>
void map(void* out, const void* in, std::size_t count, Function function) {
  if constexpr (sizeof(Out) == sizeof(In)) {
    // One pointer, so that the compiler need not fear that the two overlap in some other way.
    if (out == in) {
      for (std::size_t i = 0; i < count; ++i) put<Out>(out, i, function(get<In>(out, i)));
      return;
    }
  }
  map_apart<Out, In>(out, in, count, function);
}

}  // namespace hymn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HYMN_REDUCE_LOOPS_INL
