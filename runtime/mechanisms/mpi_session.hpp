// This process's one and only MPI: who started it, who may call it, when it is over.
#pragma once

#include <functional>
#include <memory>

#include "base/config.hpp"
#include "base/log.hpp"
#include "base/private.hpp"
#include "p2p/mpi/mpi_channel.hpp"

namespace hymn {

/// Initialises MPI with this level of thread support if nobody has; otherwise adopts it as it is.
/// Returns the gate that everything shares. An MPI that hymn has initialised is finalized at the
/// end of the process, unless a rank has left its peers out of step: finalizing would then wait for
/// ever. Throws UsageError when MPI has been finalized, or when this thread may not call it, and
/// ConfigError when MPI would end the process for want of a launcher that it understands.
HYMN_PRIVATE std::shared_ptr<MpiGate> open_mpi(ThreadLevel wanted, const Logger& log = {});

/// From now on, and until the World that says so is destroyed, the end of the process does not
/// finalize.
void hold_finalize();
void release_finalize(bool clean);
/// The end of the process does not finalize, whatever worlds there are: something of MPI's is left
/// that never ends.
void never_finalize();

/// `finish` is called when somebody finalizes MPI while `owner` lives, and MPI can still be called.
void before_finalize(std::weak_ptr<void> owner, std::function<void()> finish);

/// Throws ConfigError when the launcher has started more tasks than MPI sees: each is then alone in
/// its own MPI_COMM_WORLD, as when srun starts an Open MPI program without PMIx.
void check_launcher(int mpi_size);

}  // namespace hymn
