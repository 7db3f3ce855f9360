#include "base/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "p2p/copy_bytes.cpp"
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "p2p/copy_bytes.hpp"
// After foreach_target.h, which includes this file again and again.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hymn::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// The output is brought to a boundary of vectors first, which streaming stores want.
void stream(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t n = hn::Lanes(d);
  std::size_t done = std::min(bytes, (0 - reinterpret_cast<std::uintptr_t>(to)) % n);
  std::memcpy(to, from, done);
  for (; bytes - done >= 4 * n; done += 4 * n) {
    const std::uint8_t* const in = from + done;
    std::uint8_t* const out = to + done;
    const auto first = hn::LoadU(d, in);
    const auto second = hn::LoadU(d, in + n);
    const auto third = hn::LoadU(d, in + 2 * n);
    const auto fourth = hn::LoadU(d, in + 3 * n);
    hn::Stream(first, d, out);
    hn::Stream(second, d, out + n);
    hn::Stream(third, d, out + 2 * n);
    hn::Stream(fourth, d, out + 3 * n);
  }
  std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace
}  // namespace hymn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hymn {

HWY_EXPORT(stream);

void stream_bytes(void* to, const void* from, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(stream)
  (static_cast<std::uint8_t*>(to), static_cast<const std::uint8_t*>(from), bytes);
}

void finish_streaming() { hwy::FlushStream(); }

void copy_bytes(void* to, const void* from, std::size_t bytes, bool stream) {
  if (to == from || bytes == 0) return;
  if (!stream) {
    std::memcpy(to, from, bytes);
    return;
  }
  stream_bytes(to, from, bytes);
  finish_streaming();
}

}  // namespace hymn
#endif
