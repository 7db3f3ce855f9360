// Collectives of ranks that are threads of one process: each rank reads the others' buffers where
// they lie and writes only its own share, so every byte moves once.
#pragma once

#include <memory>

#include "collectives/algorithm.hpp"
#include "p2p/threads/thread_board.hpp"

namespace hymn {

/// All collectives of a group whose members meet on this board.
void add_inprocess_algorithms(Algorithms& algorithms, const std::shared_ptr<ThreadBoard>& board,
                              GroupShape shape);

}  // namespace hymn
