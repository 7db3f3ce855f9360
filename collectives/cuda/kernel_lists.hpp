// All kernels of GPUs, by the names under which the driver finds them: whoever compiles them, for
// GPUs or for tests on the host, or loads them, goes through these lists. The bodies are elsewhere.
#pragma once

#include "collectives/cuda/peer_cells.hpp"

// HYMN_FIND_NAN_KERNELS(KERNEL) is KERNEL(name, Bits, infinity) for each of them.
#define HYMN_FIND_NAN_KERNELS(KERNEL)                      \
  KERNEL(hymn_find_nan_float16, std::uint16_t, 0x7c00)     \
  KERNEL(hymn_find_nan_bfloat16, std::uint16_t, 0x7f80)    \
  KERNEL(hymn_find_nan_float32, std::uint32_t, 0x7f800000) \
  KERNEL(hymn_find_nan_float64, std::uint64_t, 0x7ff0000000000000)

// HYMN_WIDEN_KERNELS(KERNEL) and HYMN_NARROW_KERNELS(KERNEL) are KERNEL(name, body) for each of
// them.
#define HYMN_WIDEN_KERNELS(KERNEL)                          \
  KERNEL(hymn_widen_float16, (widen<Float16, false>))       \
  KERNEL(hymn_widen_bfloat16, (widen<Bfloat16, false>))     \
  KERNEL(hymn_widen_float16_scaled, (widen<Float16, true>)) \
  KERNEL(hymn_widen_bfloat16_scaled, (widen<Bfloat16, true>))
#define HYMN_NARROW_KERNELS(KERNEL)                              \
  KERNEL(hymn_narrow_float16, narrow<Sum<Float16>>)              \
  KERNEL(hymn_narrow_bfloat16, narrow<Sum<Bfloat16>>)            \
  KERNEL(hymn_narrow_float16_averaged, narrow<Average<Float16>>) \
  KERNEL(hymn_narrow_bfloat16_averaged, narrow<Average<Bfloat16>>)

// HYMN_PEER_KERNELS(KERNEL) is KERNEL(name, body) for each of them.
#define HYMN_PEER_REDUCTION(type, Type, kind, Kind, KERNEL, method) \
  KERNEL(hymn_##method##_##type##_##kind, method<Kind<Type>>)
#define HYMN_PEER_KERNELS(KERNEL)                                   \
  HYMN_PEER_CELLS(HYMN_PEER_REDUCTION, KERNEL, all_reduce_one_shot) \
  HYMN_PEER_CELLS(HYMN_PEER_REDUCTION, KERNEL, all_reduce_two_shot) \
  HYMN_PEER_CELLS(HYMN_PEER_REDUCTION, KERNEL, reduce)              \
  HYMN_PEER_CELLS(HYMN_PEER_REDUCTION, KERNEL, reduce_scatter)      \
  KERNEL(hymn_all_gather, all_gather)                               \
  KERNEL(hymn_all_to_all, all_to_all)                               \
  KERNEL(hymn_barrier, barrier)                                     \
  KERNEL(hymn_broadcast, broadcast)                                 \
  KERNEL(hymn_gather, gather)                                       \
  KERNEL(hymn_probe_peers, probe_peers)                             \
  KERNEL(hymn_scatter, scatter)
