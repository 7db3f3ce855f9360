// What hymn uses of NCCL: names and values are those of its API reference (docs.nvidia.com).
#pragma once

#include "gpu/function.hpp"

namespace hymn::nccl_api {

using Result = int;
using Comm = struct CommHandle*;
constexpr Result success = 0;
constexpr Result unhandled_cuda_error = 1;
constexpr Result system_error = 2;
constexpr Result internal_error = 3;
constexpr Result invalid_argument = 4;
constexpr Result invalid_usage = 5;
constexpr Result remote_error = 6;
constexpr Result in_progress = 7;

/// The oldest version that can be used, as NCCL writes versions: it is the first that splits
/// communicators.
constexpr int oldest_version = 21800;

struct Functions {
  Function<Result(int*)> get_version{"ncclGetVersion"};
  Function<const char*(Result)> error_text{"ncclGetErrorString"};
  /// What NCCL last had to say, in this process.
  Function<const char*(Comm)> last_error{"ncclGetLastError"};
};

}  // namespace hymn::nccl_api
