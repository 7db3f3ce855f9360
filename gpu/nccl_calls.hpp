// Calls of NCCL whose failures are hymn's errors.
#pragma once

#include <string>

#include "base/private.hpp"
#include "gpu/cuda_calls.hpp"
#include "gpu/nccl_api.hpp"

namespace hymn {

/// Throws the BackendError ("NCCL", with its code) of a call that failed, or of a communicator that
/// has: it has NCCL's words for the code, those it last had to say, and a remedy where one is
/// known. `comm` may be null.
[[noreturn]] HYMN_PRIVATE void throw_nccl_error(const nccl_api::Functions& nccl,
                                                const std::string& what, nccl_api::Result result,
                                                nccl_api::Comm comm);

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

/// Between ncclGroupStart and ncclGroupEnd, which must come whatever happens between them: until
/// then NCCL does nothing that this thread asks of it.
class NcclGroup {
 public:
  explicit NcclGroup(const nccl_api::Functions& nccl) : nccl_(nccl) {
    call(nccl_, nccl_.group_start);
  }
  ~NcclGroup() {
    if (!ended_) nccl_.group_end.pointer();
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  /// Starts what was called.
  nccl_api::Result end() {
    ended_ = true;
    return call(nccl_, nccl_.group_end);
  }

 private:
  const nccl_api::Functions& nccl_;
  bool ended_ = false;
};

}  // namespace hymn
