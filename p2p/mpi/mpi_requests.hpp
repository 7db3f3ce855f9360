// The MPI requests that one operation has in flight.
#pragma once

#include <memory>
#include <vector>

#include "p2p/mpi/mpi_channel.hpp"
#include "p2p/operation.hpp"

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
  std::size_t size() const { return count_; }
  /// True when all have completed. The caller holds a gate entry.
  bool test() {
    return test([](std::size_t, const MPI_Status&) {});
  }
  /// The same; told(index, status) of each that completes, in the order in which they were added.
  template <class Told>
  bool test(Told told) {
    for (; ended_ < count_; ++ended_) {
      MPI_Request& request = ended_ == 0 ? first_ : more_[ended_ - 1];
      int done = 0;
      MPI_Status status;
      check_mpi(test_mpi(&request, &done, &status), "MPI_Test");
      if (done == 0) return false;
      told(ended_, status);
    }
    more_.clear();
    count_ = ended_ = 0;
    return true;
  }
  /// The one that was added so, a receive: ends it, unless its message has begun to come. The
  /// caller holds a gate entry.
  void cancel(std::size_t index) {
    MPI_Request& request = index == 0 ? first_ : more_[index - 1];
    if (request != MPI_REQUEST_NULL) check_mpi(PMPI_Cancel(&request), "MPI_Cancel");
  }

 private:
  std::size_t count_ = 0;
  std::size_t ended_ = 0;  // the first so many
  MPI_Request first_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> more_;
};

/// Requests of an operation that was given up, with the memory that MPI still uses: MPI cannot
/// cancel a collective, so all that can be done is to keep it until MPI lets go.
template <class Kept>
class AbandonedMpiOperation final : public AbandonedOperation {
 public:
  AbandonedMpiOperation(MpiRequests requests, Kept kept, std::shared_ptr<MpiGate> gate)
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
std::unique_ptr<AbandonedOperation> keep_requests(MpiRequests&& requests, Kept kept,
                                                  std::shared_ptr<MpiGate> gate) {
  return std::make_unique<AbandonedMpiOperation<Kept>>(std::move(requests), std::move(kept),
                                                       std::move(gate));
}

}  // namespace hymn
