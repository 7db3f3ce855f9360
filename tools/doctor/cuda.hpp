// The functions of the CUDA driver that copy, declared here as those that look are in
// topology/gpu_functions.hpp; tests/unit/gpu_abi_test.cpp holds them, too, against cuda.h.
#pragma once

#include <cstddef>

#include "topology/gpu_functions.hpp"

namespace hymn::cuda_api {

using Pointer = unsigned long long;  ///< to memory of a GPU
using Context = struct ContextHandle*;

struct CopyFunctions {
  Function<Result(unsigned)> init{"cuInit"};
  Function<Result(Result, const char**)> error_name{"cuGetErrorName"};
  Function<Result(int*)> count{"cuDeviceGetCount"};
  Function<Result(int*, Device, Device)> can_access_peer{"cuDeviceCanAccessPeer"};
  Function<Result(Context*, Device)> retain_context{"cuDevicePrimaryCtxRetain"};
  Function<Result(Device)> release_context{"cuDevicePrimaryCtxRelease_v2"};
  Function<Result(Context)> set_context{"cuCtxSetCurrent"};
  Function<Result(Context, unsigned)> enable_peer_access{"cuCtxEnablePeerAccess"};
  Function<Result()> synchronize{"cuCtxSynchronize"};
  Function<Result(Pointer*, std::size_t)> allocate{"cuMemAlloc_v2"};
  Function<Result(Pointer)> release{"cuMemFree_v2"};
  Function<Result(Pointer, unsigned char, std::size_t)> fill{"cuMemsetD8_v2"};
  Function<Result(Pointer, const void*, std::size_t)> to_gpu{"cuMemcpyHtoD_v2"};
  Function<Result(void*, Pointer, std::size_t)> to_host{"cuMemcpyDtoH_v2"};
  Function<Result(Pointer, Context, Pointer, Context, std::size_t)> between{"cuMemcpyPeer"};
};

}  // namespace hymn::cuda_api
