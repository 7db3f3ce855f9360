// On the bits alone: what a processor does with a NaN depends on its kind, and on modes.
#include "base/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/find_nan.cpp"
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "collectives/reduce/find_nan.hpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again and again.
#include "collectives/reduce/loops-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hymn::HWY_NAMESPACE {
namespace {

// So many are looked at without asking after each: a loop with a way out has no vectors.
constexpr std::size_t block_elements = 1024;

/// Without its sign a NaN is a greater number than infinity.
template <class Bits, Bits infinity>
HWY_INLINE Bits is_nan(Bits bits) {
  constexpr auto magnitude = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
  // Signed, for which more instruction sets have a comparison.
  using Signed = std::make_signed_t<Bits>;
  return static_cast<Signed>(bits & magnitude) > static_cast<Signed>(infinity) ? Bits{1} : Bits{0};
}

template <class Bits, Bits infinity>
std::size_t find_nan(const void* data, std::size_t count) {
  for (std::size_t begin = 0; begin < count; begin += block_elements) {
    const std::size_t end = std::min(count, begin + block_elements);
    Bits found = 0;
    for (std::size_t i = begin; i < end; ++i)
      found = static_cast<Bits>(found | is_nan<Bits, infinity>(get<Bits>(data, i)));
    if (found == 0) continue;
    for (std::size_t i = begin; i < end; ++i)
      if (is_nan<Bits, infinity>(get<Bits>(data, i)) != 0) return i;
  }
  return count;
}

void fill_nan_kernels(detail::NanKernels& kernels) {
  kernels.float16 = find_nan<std::uint16_t, 0x7c00>;
  kernels.bfloat16 = find_nan<std::uint16_t, 0x7f80>;
  kernels.float32 = find_nan<std::uint32_t, 0x7f800000>;
  kernels.float64 = find_nan<std::uint64_t, 0x7ff0000000000000>;
}

}  // namespace
}  // namespace hymn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hymn {

HWY_EXPORT(fill_nan_kernels);

detail::NanKernels detail::make_nan_kernels() {
  NanKernels kernels;
  HWY_DYNAMIC_DISPATCH(fill_nan_kernels)(kernels);
  return kernels;
}

bool may_hold_nan(DataType dtype) noexcept {
  const DataFamily family = traits_of(dtype).family;
  return family == DataFamily::floating || family == DataFamily::complex;
}

std::size_t detail::find_nan_with(const NanKernels& kernels, const void* data, std::size_t count,
                                  DataType dtype) {
  switch (dtype) {
    case DataType::float16:
      return kernels.float16(data, count);
    case DataType::bfloat16:
      return kernels.bfloat16(data, count);
    case DataType::float32:
      return kernels.float32(data, count);
    case DataType::float64:
      return kernels.float64(data, count);
    case DataType::complex64:
      return kernels.float32(data, 2 * count) / 2;
    case DataType::complex128:
      return kernels.float64(data, 2 * count) / 2;
    case DataType::boolean:
    case DataType::int8:
    case DataType::uint8:
    case DataType::int16:
    case DataType::uint16:
    case DataType::int32:
    case DataType::uint32:
    case DataType::int64:
    case DataType::uint64:
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
    case DataType::value:
    case DataType::opaque:
      break;
  }
  return count;
}

std::size_t find_nan(const void* data, std::size_t count, DataType dtype) {
  static const detail::NanKernels kernels = detail::make_nan_kernels();
  return detail::find_nan_with(kernels, data, count, dtype);
}

}  // namespace hymn
#endif
