// The bodies of the kernels between float16 or bfloat16 and float32, and their names.
#pragma once

#include "collectives/cuda/pack.hpp"
#include "collectives/cuda/reductions.hpp"

namespace hymn::cuda {

/// The elements of one pack of a reduction's type, and what they are accumulated in.
template <class Reduction>
struct CastPack {
  using Element = typename Reduction::Element;
  static constexpr unsigned width = pack_bytes / sizeof(Element);
  static constexpr unsigned wide_width = pack_bytes / sizeof(float);
  struct alignas(16) Narrow {
    Element of[width];
  };
  struct alignas(16) Wide {
    float of[width];
  };

  /// Of those in `bytes`.
  HYMN_KERNEL_BODY static void copy_wide(float* to, const float* from, std::uint64_t bytes) {
    const auto count = static_cast<unsigned>(bytes / sizeof(Element));
    for (unsigned done = 0; done < count; done += wide_width) {
      const unsigned left = count - done;
      copy_some(to + done, from + done, (left < wide_width ? left : wide_width) * sizeof(float));
    }
  }
};

/// As a reduction takes what a rank gives: `count` elements, times the rank's factor where it has
/// one.
template <class Reduction>
HYMN_KERNEL_BODY void widen(const KernelThread& at, const void* narrow, float* wide,
                            std::uint64_t count, std::uint32_t factor) {
  using Packs = CastPack<Reduction>;
  const std::uint64_t bytes = count * sizeof(typename Packs::Element);
  const auto* const from = static_cast<const std::byte*>(narrow);
  for (std::uint64_t i = at.index(); i < packs_in(bytes); i += at.stride()) {
    const std::uint64_t here = bytes_of_pack(i, bytes);
    typename Packs::Narrow given{};
    copy_some(&given, from + i * pack_bytes, here);
    typename Packs::Wide result;
    for (unsigned k = 0; k < Packs::width; ++k) result.of[k] = Reduction::load(given.of[k], factor);
    Packs::copy_wide(wide + i * Packs::width, result.of, here);
  }
}

/// As a reduction among `ranks` stores its result.
template <class Reduction>
HYMN_KERNEL_BODY void narrow(const KernelThread& at, const float* wide, void* narrow,
                             std::uint64_t count, std::uint32_t ranks) {
  using Packs = CastPack<Reduction>;
  const std::uint64_t bytes = count * sizeof(typename Packs::Element);
  auto* const to = static_cast<std::byte*>(narrow);
  for (std::uint64_t i = at.index(); i < packs_in(bytes); i += at.stride()) {
    const std::uint64_t here = bytes_of_pack(i, bytes);
    typename Packs::Wide given{};
    Packs::copy_wide(given.of, wide + i * Packs::width, here);
    typename Packs::Narrow result;
    for (unsigned k = 0; k < Packs::width; ++k) result.of[k] = Reduction::store(given.of[k], ranks);
    copy_some(to + i * pack_bytes, &result, here);
  }
}

}  // namespace hymn::cuda

// HYMN_WIDEN_KERNELS(KERNEL) and HYMN_NARROW_KERNELS(KERNEL) are KERNEL(name, body) for each of
// them.
#define HYMN_WIDEN_KERNELS(KERNEL)                             \
  KERNEL(hymn_widen_float16, widen<Sum<Float16>>)              \
  KERNEL(hymn_widen_bfloat16, widen<Sum<Bfloat16>>)            \
  KERNEL(hymn_widen_float16_scaled, widen<PremulSum<Float16>>) \
  KERNEL(hymn_widen_bfloat16_scaled, widen<PremulSum<Bfloat16>>)
#define HYMN_NARROW_KERNELS(KERNEL)                              \
  KERNEL(hymn_narrow_float16, narrow<Sum<Float16>>)              \
  KERNEL(hymn_narrow_bfloat16, narrow<Sum<Bfloat16>>)            \
  KERNEL(hymn_narrow_float16_averaged, narrow<Average<Float16>>) \
  KERNEL(hymn_narrow_bfloat16_averaged, narrow<Average<Bfloat16>>)
