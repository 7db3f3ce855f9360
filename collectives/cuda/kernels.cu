// The kernels of GPUs, by the names under which the driver finds them.
#include "collectives/cuda/cast_kernels.hpp"
#include "collectives/cuda/find_nan_kernel.hpp"
#include "collectives/cuda/peer_kernels.hpp"

namespace cuda = hymn::cuda;

#define HYMN_FIND_NAN(name, bits, infinity)                                             \
  extern "C" __global__ void name(const bits* elements, std::uint64_t count,            \
                                  std::uint64_t* found) {                               \
    cuda::find_nan<bits, infinity>(cuda::this_kernel_thread(), elements, count, found); \
  }
HYMN_FIND_NAN_KERNELS(HYMN_FIND_NAN)

#define HYMN_WIDEN_KERNEL(name, body)                                                \
  extern "C" __global__ void __launch_bounds__(cuda::threads_of_block)               \
      name(const void* from, float* to, std::uint64_t count, std::uint32_t factor) { \
    using namespace hymn::cuda;                                                      \
    body(this_kernel_thread(), from, to, count, factor);                             \
  }
HYMN_WIDEN_KERNELS(HYMN_WIDEN_KERNEL)

#define HYMN_NARROW_KERNEL(name, body)                                              \
  extern "C" __global__ void __launch_bounds__(cuda::threads_of_block)              \
      name(const float* from, void* to, std::uint64_t count, std::uint32_t ranks) { \
    using namespace hymn::cuda;                                                     \
    body(this_kernel_thread(), from, to, count, ranks);                             \
  }
HYMN_NARROW_KERNELS(HYMN_NARROW_KERNEL)

#define HYMN_PEER_KERNEL(name, body)                                                 \
  extern "C" __global__ void __launch_bounds__(cuda::threads_of_block,               \
                                               cuda::peer_blocks_of_multiprocessor)  \
      name(const __grid_constant__ cuda::PeerTeam team, const cuda::PeerCall call) { \
    using namespace hymn::cuda;                                                      \
    body(this_kernel_thread(), team, call);                                          \
  }
HYMN_PEER_KERNELS(HYMN_PEER_KERNEL)
