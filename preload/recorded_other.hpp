// What is recorded of calls that are neither a collective, nor of messages.
#pragma once

#include "preload/recorded_call.hpp"

namespace hymn::preload {

class RecordedOther : public RecordedCall {
 public:
  using RecordedCall::RecordedCall;

  RecordedOther& none() { return *this; }
  /// It may wait for other ranks in a way of its own.
  RecordedOther& blocking() {
    is_outer_ = true;
    return *this;
  }
  /// It makes a communicator.
  RecordedOther& making(const MPI_Comm* comm) {
    made_ = comm;
    return blocking();
  }
  /// It gives one a name.
  RecordedOther& naming(MPI_Comm comm) {
    named_ = comm;
    return *this;
  }

  void start() { begin_outer(); }
  void end(int code) {
    end_outer();
    if (code != MPI_SUCCESS) return;
    if (made_ != nullptr) session_.communicators().find(*made_);
    if (named_ != MPI_COMM_NULL) rename();
  }

 private:
  void rename() {
    const Communicator* const comm = find(named_);
    if (comm != nullptr) watch_->rename(comm->handle(), *comm->watched());
  }

  const MPI_Comm* made_ = nullptr;
  MPI_Comm named_ = MPI_COMM_NULL;
};

}  // namespace hymn::preload
