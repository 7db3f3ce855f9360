// What differs between versions of torch. Only this header asks which one it is.
#pragma once

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#if TORCH_VERSION_MAJOR < 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 4)
#error "hymn-torch needs torch 2.4 or newer"
#endif

// The collectives over one tensor for all ranks, which torch 2.15 has renamed; the old names are
// those of functions that call the new ones.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
#define HYMN_TORCH_ALL_GATHER_SINGLE _allgather_base
#define HYMN_TORCH_REDUCE_SCATTER_SINGLE _reduce_scatter_base
#define HYMN_TORCH_ALL_TO_ALL_SINGLE alltoall_base
#define HYMN_TORCH_ALL_GATHER_SINGLES allgather_into_tensor_coalesced
#define HYMN_TORCH_REDUCE_SCATTER_SINGLES reduce_scatter_tensor_coalesced
#else
#define HYMN_TORCH_ALL_GATHER_SINGLE all_gather_single
#define HYMN_TORCH_REDUCE_SCATTER_SINGLE reduce_scatter_single
#define HYMN_TORCH_ALL_TO_ALL_SINGLE all_to_all_single
#define HYMN_TORCH_ALL_GATHER_SINGLES all_gather_single_coalesced
#define HYMN_TORCH_REDUCE_SCATTER_SINGLES reduce_scatter_single_coalesced
#endif

// What torch asks a backend for since 2.15. A function that has this instead of `override` is there
// with older ones, too, which do not call it.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
#define HYMN_TORCH_DERIVES_GROUPS 0
#define HYMN_TORCH_OVERRIDE_SINCE_15
#else
#define HYMN_TORCH_DERIVES_GROUPS 1
#define HYMN_TORCH_OVERRIDE_SINCE_15 override
#endif
