#include "p2p/mpi/mpi_gate.hpp"

#include <fmt/format.h>

#include "base/patience.hpp"
#include "hymn/error.hpp"

namespace hymn {

bool MpiGate::close() {
  // hymn's calls of MPI return at once, but for a few that another rank's fault can hold up.
  constexpr Duration longest_call = std::chrono::seconds(2);
  state_.store(State::finalized, std::memory_order_seq_cst);
  Patience patience;
  patience.deadline = Deadline::after(longest_call);
  return PatientWait(patience).until(
      [this] { return inside_.load(std::memory_order_seq_cst) == 0; });
}

void MpiGate::throw_closed() const {
  if (state_.load(std::memory_order_seq_cst) == State::copied)
    throw UsageError(
        "this process is a child made by fork(): MPI, and with it hymn, belong to its "
        "parent",
        {.remedy = "use hymn in the process that the launcher has started"});
  throw UsageError("MPI has been finalized",
                   {.remedy = "destroy the World, and use its groups, before MPI_Finalize"});
}

void MpiGate::Entry::refuse() {
  leave();
  gate_.throw_closed();
}

void MpiGate::Entry::throw_wrong_thread(ThreadLevel level) {
  throw UsageError(
      fmt::format("MPI was initialised with MPI_THREAD_{}: this thread may not call it",
                  level == ThreadLevel::single ? "SINGLE" : "FUNNELED"),
      {.remedy = "call from the thread that initialised MPI, or ask for MPI_THREAD_SERIALIZED or "
                 "MPI_THREAD_MULTIPLE: in MPI_Init_thread, or, where hymn initialises MPI, by "
                 "WorldOptions::thread_level or HYMN_MPI_THREAD_LEVEL"});
}

}  // namespace hymn
