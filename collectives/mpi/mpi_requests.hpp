// The MPI requests that one operation has in flight.
#pragma once

#include <memory>
#include <vector>

#include "collectives/mpi/mpi_channel.hpp"

namespace hymn {

/// The first request needs no heap: most operations have just one.
class MpiRequests {
 public:
  /// Where the next call is to put its request; valid until the next add().
  MPI_Request* add() {
    if (count_++ == 0) return &first_;
    more_.push_back(MPI_REQUEST_NULL);
    return &more_.back();
  }
  bool empty() const { return count_ == 0; }
  /// True when all have completed. The caller holds a gate entry.
  bool test() {
    int done = 1;
    if (first_ != MPI_REQUEST_NULL)
      check_mpi(PMPI_Test(&first_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) return false;
    if (!more_.empty()) {
      check_mpi(
          PMPI_Testall(static_cast<int>(more_.size()), more_.data(), &done, MPI_STATUSES_IGNORE),
          "MPI_Testall");
      if (done != 0) more_.clear();
    }
    if (done != 0) count_ = 0;
    return done != 0;
  }

 private:
  std::size_t count_ = 0;
  MPI_Request first_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> more_;
};

/// Requests of an operation that was given up, with the memory that MPI still uses: MPI cannot
/// cancel a collective, so all that can be done is to keep it until MPI lets go.
template <class Kept>
class MpiResidue final : public Residue {
 public:
  MpiResidue(MpiRequests requests, Kept kept, std::shared_ptr<MpiGate> gate)
      : requests_(std::move(requests)), kept_(std::move(kept)), gate_(std::move(gate)) {}

  bool done() override {
    if (!gate_->may_enter()) return !gate_->is_open();
    try {
      MpiGate::Entry entry(*gate_);
      return requests_.test();
    } catch (...) {
      return true;  // it has failed, and so ended
    }
  }

 private:
  MpiRequests requests_;
  Kept kept_;
  std::shared_ptr<MpiGate> gate_;
};

template <class Kept>
std::unique_ptr<Residue> keep_requests(MpiRequests&& requests, Kept kept,
                                       std::shared_ptr<MpiGate> gate) {
  return std::make_unique<MpiResidue<Kept>>(std::move(requests), std::move(kept), std::move(gate));
}

}  // namespace hymn
