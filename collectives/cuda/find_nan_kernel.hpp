// The body of the kernels that look for a NaN.
#pragma once

#include "collectives/cuda/kernel_lists.hpp"
#include "collectives/cuda/kernel_thread.hpp"

namespace hymn::cuda {

/// Lowers *found to the index of the first of `count` elements that is a NaN, of any sign and
/// payload. `Bits` are as many as an element has; those of `infinity` are its exponent's.
template <class Bits, Bits infinity>
HYMN_KERNEL_BODY void find_nan(const KernelThread& at, const Bits* elements, std::uint64_t count,
                               std::uint64_t* found) {
  constexpr Bits all_but_sign = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
  for (std::uint64_t i = at.index(); i < count; i += at.stride()) {
    if ((elements[i] & all_but_sign) <= infinity) continue;
    lower(found, i);
    return;
  }
}

}  // namespace hymn::cuda
