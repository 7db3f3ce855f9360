// The collective part of `hymn doctor`: brings what all ranks say to rank 0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/config.hpp"
#include "tools/doctor/facts.hpp"

namespace hymn {

/// The job as MPI sees it. MPI must have been initialised by the calling thread.
class DoctorJob {
 public:
  DoctorJob();
  DoctorJob(const DoctorJob&) = delete;
  DoctorJob& operator=(const DoctorJob&) = delete;
  ~DoctorJob();

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool speaks() const { return rank_ == 0; }

  /// Collective. Complete on rank 0, empty elsewhere. Ranks of a host try segments of that size
  /// one after the other.
  JobFacts gather(ThreadLevel granted, std::uint64_t segment_bytes);
  /// Collective: rank 0's.
  int share(int value);

 private:
  void try_world(RankFacts& mine);
  void send_to_first(const std::string& text);
  std::string receive_from(int rank);
  void wait_for_all();

  struct Communicators;
  std::unique_ptr<Communicators> communicators_;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
};

}  // namespace hymn
