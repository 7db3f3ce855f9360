// The kernels that work with peers, by the names under which the driver finds them: whoever
// compiles them, for GPUs or for tests on the host, goes through this list.
#pragma once

#include "collectives/cuda/all_gather_kernel.hpp"
#include "collectives/cuda/all_reduce_one_shot_kernel.hpp"
#include "collectives/cuda/all_reduce_two_shot_kernel.hpp"
#include "collectives/cuda/all_to_all_kernel.hpp"
#include "collectives/cuda/barrier_kernel.hpp"
#include "collectives/cuda/broadcast_kernel.hpp"
#include "collectives/cuda/gather_kernel.hpp"
#include "collectives/cuda/peer_cells.hpp"
#include "collectives/cuda/probe_peers_kernel.hpp"
#include "collectives/cuda/reduce_kernel.hpp"
#include "collectives/cuda/reduce_scatter_kernel.hpp"
#include "collectives/cuda/reductions.hpp"
#include "collectives/cuda/scatter_kernel.hpp"

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
