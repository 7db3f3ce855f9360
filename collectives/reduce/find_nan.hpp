// Looks for a NaN among elements of any alignment.
#pragma once

#include <cstddef>

#include "hymn/types.hpp"

namespace hymn {

/// Whether elements of this type can be a NaN that find_nan finds: float16, bfloat16, float32,
/// float64, complex64 and complex128.
bool may_hold_nan(DataType dtype) noexcept;

/// The index of the first element that is a NaN, of any sign and payload (of a complex number: in
/// either part); `count` where there is none, or the type can hold none. Infinities are no NaNs.
std::size_t find_nan(const void* data, std::size_t count, DataType dtype);

namespace detail {

/// As find_nan, over elements of one width: for one instruction set, which tests choose.
struct NanKernels {
  using Find = std::size_t (*)(const void* data, std::size_t count);
  Find float16 = nullptr;
  Find bfloat16 = nullptr;
  Find float32 = nullptr;
  Find float64 = nullptr;
};
NanKernels make_nan_kernels();

/// As find_nan, with given kernels.
std::size_t find_nan_with(const NanKernels& kernels, const void* data, std::size_t count,
                          DataType dtype);

}  // namespace detail
}  // namespace hymn
