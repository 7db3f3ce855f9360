// The bodies of the kernels that work with peers, and their list.
#pragma once

#include "collectives/cuda/all_gather_kernel.hpp"
#include "collectives/cuda/all_reduce_one_shot_kernel.hpp"
#include "collectives/cuda/all_reduce_two_shot_kernel.hpp"
#include "collectives/cuda/all_to_all_kernel.hpp"
#include "collectives/cuda/barrier_kernel.hpp"
#include "collectives/cuda/broadcast_kernel.hpp"
#include "collectives/cuda/gather_kernel.hpp"
#include "collectives/cuda/kernel_lists.hpp"
#include "collectives/cuda/probe_peers_kernel.hpp"
#include "collectives/cuda/reduce_kernel.hpp"
#include "collectives/cuda/reduce_scatter_kernel.hpp"
#include "collectives/cuda/reductions.hpp"
#include "collectives/cuda/scatter_kernel.hpp"
