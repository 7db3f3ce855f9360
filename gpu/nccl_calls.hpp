// Calls of NCCL whose failures are hymn's errors.
#pragma once

#include <string>

#include "gpu/cuda_calls.hpp"
#include "gpu/nccl_api.hpp"

namespace hymn {

/// Throws the BackendError ("NCCL", with its code) of a call that failed, or of a communicator that
/// has: it has NCCL's words for the code, those it last had to say, and a remedy where one is
/// known. `comm` may be null.
[[noreturn]] void throw_nccl_error(const nccl_api::Functions& nccl, const std::string& what,
                                   nccl_api::Result result, nccl_api::Comm comm);

/// Calls `function`. "In progress" is no failure: it is returned, as success is. Throws
/// BackendError, and UnsupportedError for a function that this version of NCCL does not have.
template <class... Parameters, class... Arguments>
nccl_api::Result call(const nccl_api::Functions& nccl,
                      const Function<nccl_api::Result(Parameters...)>& function,
                      Arguments... arguments) {
  if (function.pointer == nullptr) throw_lacking("libnccl.so.2", function.name);
  const nccl_api::Result result = function.pointer(arguments...);
  if (result != nccl_api::success && result != nccl_api::in_progress)
    throw_nccl_error(nccl, function.name, result, nullptr);
  return result;
}

}  // namespace hymn
