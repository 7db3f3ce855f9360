// Requests as calls of NCCL on a stream.
#pragma once

#include "collectives/algorithm.hpp"
#include "gpu/nccl_api.hpp"

namespace hymn {

/// Where a request is launched.
struct NcclPlace {
  const nccl_api::Functions& nccl;
  nccl_api::Comm comm;      ///< that is ready
  nccl_api::Stream stream;  ///< of the communicator's GPU
  GroupShape shape;         ///< the group that the communicator is of
};

/// Whether NCCL can carry it out as hymn defines it. All members get the same answer.
Verdict nccl_can_run(const Request& request);

/// Enqueues on the stream what nccl_can_run() and validate() have found right, in the buffers'
/// memory, which the GPU must reach; returns when it has been enqueued, or sooner: false then, and
/// the communicator must be stepped until it is ready again before anything else is launched on it.
/// `peer` is the request's peer as a group rank. Throws BackendError when NCCL fails, and
/// UnsupportedError for buffers that overlap where NCCL needs them apart, with nothing enqueued.
bool launch_nccl(const NcclPlace& place, const Request& request, int peer);

}  // namespace hymn
