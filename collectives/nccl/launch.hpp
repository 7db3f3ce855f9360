// Requests as calls of NCCL on a stream.
#pragma once

#include <memory>
#include <span>

#include "collectives/algorithm.hpp"
#include "gpu/nccl_api.hpp"

namespace hymn {

/// Where a request is launched.
struct NcclPlace {
  const nccl_api::Functions& nccl;
  nccl_api::Comm comm;           ///< that is ready
  nccl_api::Stream stream;       ///< of the communicator's GPU
  GroupShape shape;              ///< the ranks that the communicator is of
  void* scratch = nullptr;       ///< some bytes of the GPU, for what has no data of its own
  std::shared_ptr<void> held{};  ///< keeps NCCL from freeing the communicator during the call
};

/// Whether NCCL can carry it out as hymn defines it. All members get the same answer.
Verdict nccl_can_run(const Request& request);

/// Throws UnsupportedError for buffers that overlap as validate() allows, but NCCL does not: to be
/// asked before anything is enqueued.
void require_apart_for_nccl(const Request& request);

/// Enqueues on the stream what nccl_can_run(), validate() and require_apart_for_nccl() have found
/// right, in the buffers' memory, which the GPU must reach; returns when it has been enqueued, or
/// sooner: false then, and the communicator must settle before anything else is launched on it.
/// `peer` is the request's peer as a group rank. Throws BackendError when NCCL fails.
bool launch_nccl(const NcclPlace& place, const Request& request, int peer);

/// A send or receive, and its peer as a rank of the communicator.
struct NcclMessage {
  NcclPlace place;
  const Request* request;
  int peer;
};
/// The same for sends and receives, perhaps of several communicators, that NCCL is to carry out at
/// the same time, so that none of them waits for another.
bool launch_nccl_together(std::span<const NcclMessage> messages);

}  // namespace hymn
