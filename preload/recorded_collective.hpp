// What is recorded of one collective.
#pragma once

#include <cstdint>

#include "preload/recorded_call.hpp"

namespace hymn::preload {

class RecordedCollective : public RecordedCall {
 public:
  using RecordedCall::RecordedCall;

  RecordedCollective& none() { return *this; }
  /// Of so much of each rank; without a count: of nothing, or of blocks that differ.
  RecordedCollective& of(MPI_Comm comm);
  RecordedCollective& of(MPI_Comm comm, int count, MPI_Datatype type);
  /// With a root, which gives or takes a block of each rank.
  RecordedCollective& of_blocks(MPI_Comm comm, int root, int count, MPI_Datatype type,
                                int root_count, MPI_Datatype root_type);
  RecordedCollective& by(MPI_Op op);
  RecordedCollective& at(int root);
  /// It only starts what this request ends.
  RecordedCollective& until(const MPI_Request* request);

  void start() {
    if (comm_ != nullptr) start_it();
  }
  void end(int code) {
    if (comm_ != nullptr) end_it(code);
  }

 private:
  void start_it();
  void end_it(int code);
  CallRecord record_of_it() const;

  Communicator* comm_ = nullptr;
  std::size_t bytes_ = 0;
  bool is_uneven_ = false;
  int root_ = -1;
  ReduceKind kind_ = ReduceKind::sum;
  std::uint64_t record_ = 0;
  std::uint64_t sequence_ = 0;
  const MPI_Request* request_ = nullptr;
};

}  // namespace hymn::preload
