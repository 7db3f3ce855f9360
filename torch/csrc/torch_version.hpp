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

// The collectives over one tensor for all ranks, which torch 2.15 renames.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 15
#define HYMN_TORCH_ALL_GATHER_SINGLE _allgather_base
#define HYMN_TORCH_REDUCE_SCATTER_SINGLE _reduce_scatter_base
#define HYMN_TORCH_ALL_TO_ALL_SINGLE alltoall_base
#else
#define HYMN_TORCH_ALL_GATHER_SINGLE all_gather_single
#define HYMN_TORCH_REDUCE_SCATTER_SINGLE reduce_scatter_single
#define HYMN_TORCH_ALL_TO_ALL_SINGLE all_to_all_single
#endif
