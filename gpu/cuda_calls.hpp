// Calls of the CUDA driver whose failures are hymn's errors.
#pragma once

#include <string>

#include "base/private.hpp"
#include "gpu/cuda_api.hpp"

namespace hymn {

/// "CUDA_ERROR_OUT_OF_MEMORY: out of memory", as the driver words it; never throws for a driver
/// that cannot.
std::string words_of(const cuda_api::Functions& cuda, cuda_api::Result result);

/// Throws the BackendError ("CUDA", with the driver's code) of a call that failed: it names the
/// function, has the driver's words and, where one is known, a remedy.
[[noreturn]] HYMN_PRIVATE void throw_cuda_error(const cuda_api::Functions& cuda,
                                                const char* function, cuda_api::Result result);
/// Throws the UnsupportedError for a function that the library, perhaps an older one, does not
/// have.
[[noreturn]] HYMN_PRIVATE void throw_lacking(const char* library, const char* function);

/// Calls `function`. Throws as the functions above. Thread-safe as far as the driver's function is,
/// which all in the table are.
template <class... Parameters, class... Arguments>
void call(const cuda_api::Functions& cuda,
          const Function<cuda_api::Result(Parameters...)>& function, Arguments... arguments) {
  if (function.pointer == nullptr) throw_lacking("libcuda.so.1", function.name);
  const cuda_api::Result result = function.pointer(arguments...);
  if (result != cuda_api::success) throw_cuda_error(cuda, function.name, result);
}

}  // namespace hymn
