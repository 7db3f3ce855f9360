// Tensors of libtorch as hymn's C API sees them. For the other headers of torch_*.hpp.
//
// They use the C API alone, so that they can be compiled with either ABI of the C++ library:
// wheels of torch up to 2.5 have the old one (_GLIBCXX_USE_CXX11_ABI=0).
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/types.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "hymn/hymn.h"
#include "hymn/hymn_shaped.h"
#include "hymn/torch_error.hpp"

namespace hymn::torch {

/// A handle of the C API, with the function that frees it.
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, hymnResult_t (*)(Handle)>;

/// Throws Error for types that hymn does not have, such as quantized ones.
inline hymnDataType_t data_type_of(at::ScalarType type) {
  static constexpr std::pair<at::ScalarType, hymnDataType_t> types[] = {
      {at::kBool, hymnBool},
      {at::kByte, hymnUint8},
      {at::kChar, hymnInt8},
      {at::kShort, hymnInt16},
      {at::kInt, hymnInt32},
      {at::kLong, hymnInt64},
      {at::kHalf, hymnFloat16},
      {at::kBFloat16, hymnBfloat16},
      {at::kFloat, hymnFloat32},
      {at::kDouble, hymnFloat64},
      {at::kComplexFloat, hymnComplex64},
      {at::kComplexDouble, hymnComplex128},
  };
  for (const auto& [theirs, ours] : types)
    if (theirs == type) return ours;
  throw Error(hymnUnsupportedError, std::string("hymn has no tensors of ") + c10::toString(type) +
                                        ": convert them first");
}

/// Throws Error for what does not lie, strided, in the memory of the host.
inline void require_host_tensor(const at::Tensor& tensor, const char* name) {
  if (!tensor.defined()) throw Error(hymnUsageError, std::string(name) + " is undefined");
  if (tensor.layout() == at::kStrided && tensor.device().is_cpu()) return;
  throw Error(hymnUnsupportedError,
              std::string(name) + " is " + tensor.toString() +
                  ": hymn's collectives of torch tensors take strided ones in the memory of the "
                  "host");
}

}  // namespace hymn::torch
