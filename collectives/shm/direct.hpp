// Collectives on memory from hymn::allocate without copies on the way.
#pragma once

#include <memory>

#include "collectives/shm/direct_board.hpp"
#include "collectives/shm/shm_algorithms.hpp"

namespace hymn {

/// What the direct forms of one group's algorithms have in common.
struct DirectForms {
  explicit DirectForms(const ShmGroup& group);

  std::shared_ptr<ShmChannel> channel;
  DirectBoard board;
  Reproducibility reproducibility;
  /// For the staged operation of the call whose turn it is.
  OperationStorage staged;
};

/// The algorithm, which stages what members move, with a direct form before it: that carries out
/// what is large enough where all members can map all others' buffers. Its operations must be
/// ShmOperations.
std::unique_ptr<Algorithm> direct_or(std::shared_ptr<DirectForms> forms,
                                     std::unique_ptr<Algorithm> staged);

}  // namespace hymn
