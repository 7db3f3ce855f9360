// A world's own communicator, which is made from the application's.
#pragma once

#include <memory>

#include "base/config.hpp"
#include "p2p/mpi/mpi_channel.hpp"
#include "runtime/rank/early_sight.hpp"

namespace hymn {

/// A duplicate of it, once all of its ranks have called this. `early` is what can be seen of them
/// meanwhile. Throws UsageError for an inter-communicator, TimeoutError where some rank has not
/// come, and PeerError where one has ended. All may then try again: what has been begun is taken
/// up.
MPI_Comm own_communicator(MPI_Comm communicator, MpiGate& gate, Timeout limit,
                          std::shared_ptr<EarlySight>& early, const Config& config);

}  // namespace hymn
