// The bodies of the kernels between float16 or bfloat16 and float32, and their names.
#pragma once

#include "collectives/cuda/kernel_lists.hpp"
#include "collectives/cuda/pack.hpp"
#include "collectives/cuda/reductions.hpp"

namespace hymn::cuda {

/// So many elements that lie one after the other, as a thread has them: by 16 bytes where they are
/// aligned. Those beyond `count` are zeros.
template <class Element, unsigned width>
struct CastElements {
  static constexpr unsigned per_pack = pack_bytes / sizeof(Element);
  static_assert(width % per_pack == 0);
  struct alignas(16) Some {
    Element of[per_pack];
  };
  Element of[width] = {};

  HYMN_KERNEL_BODY void load(const Element* from, std::uint64_t count) {
    if (count < width || !is_aligned(from, pack_bytes)) {
      for (unsigned i = 0; i < width && i < count; ++i) of[i] = from[i];
      return;
    }
    for (unsigned i = 0; i < width; i += per_pack) {
      const auto some = std::bit_cast<Some>(*reinterpret_cast<const Pack*>(from + i));
      for (unsigned k = 0; k < per_pack; ++k) of[i + k] = some.of[k];
    }
  }
  HYMN_KERNEL_BODY void store(Element* to, std::uint64_t count) const {
    if (count < width || !is_aligned(to, pack_bytes)) {
      for (unsigned i = 0; i < width && i < count; ++i) to[i] = of[i];
      return;
    }
    for (unsigned i = 0; i < width; i += per_pack) {
      Some some;
      for (unsigned k = 0; k < per_pack; ++k) some.of[k] = of[i + k];
      *reinterpret_cast<Pack*>(to + i) = std::bit_cast<Pack>(some);
    }
  }
};

inline constexpr unsigned cast_at_once = pack_bytes / sizeof(std::uint16_t);

/// What a rank gives to a reduction: `count` elements, where `is_scaled` times its factor, of which
/// these are the bits of a float.
template <class Type, bool is_scaled>
HYMN_KERNEL_BODY void widen(const KernelThread& at, const void* narrow, float* wide,
                            std::uint64_t count, std::uint32_t factor) {
  using Element = typename Type::Element;
  const auto* const from = static_cast<const Element*>(narrow);
  for (std::uint64_t i = at.index() * cast_at_once; i < count; i += at.stride() * cast_at_once) {
    CastElements<Element, cast_at_once> given;
    CastElements<float, cast_at_once> result;
    given.load(from + i, count - i);
    for (unsigned k = 0; k < cast_at_once; ++k) {
      const float element = Type::widen(given.of[k]);
      result.of[k] = is_scaled ? multiply(element, std::bit_cast<float>(factor)) : element;
    }
    result.store(wide + i, count - i);
  }
}

/// As a reduction among `ranks` stores its result.
template <class Reduction>
HYMN_KERNEL_BODY void narrow(const KernelThread& at, const float* wide, void* narrow,
                             std::uint64_t count, std::uint32_t ranks) {
  using Element = typename Reduction::Element;
  auto* const to = static_cast<Element*>(narrow);
  for (std::uint64_t i = at.index() * cast_at_once; i < count; i += at.stride() * cast_at_once) {
    CastElements<float, cast_at_once> given;
    CastElements<Element, cast_at_once> result;
    given.load(wide + i, count - i);
    for (unsigned k = 0; k < cast_at_once; ++k) result.of[k] = Reduction::store(given.of[k], ranks);
    result.store(to + i, count - i);
  }
}

}  // namespace hymn::cuda
