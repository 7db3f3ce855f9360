// A look whether requests have ended, as MPI_Test is: most find nothing, and cost next to nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "preload/mpi.hpp"

namespace hymn::preload {

/// Told as in calls.inc, before MPI is asked: by its answer the handles of what has ended are gone.
class Polled {
 public:
  Polled& looking(int count, const MPI_Request* requests) {
    fits_ = requests != nullptr && count > 0 && static_cast<std::size_t>(count) <= handles_.size();
    if (fits_) std::copy_n(requests, count, handles_.begin());
    return *this;
  }
  Polled& all_if(const int* flag) {
    answer_ = flag;
    return *this;
  }
  Polled& one_of(const int*) { return *this; }
  Polled& some_of(const int* count, const int*) {
    answer_ = count;
    return *this;
  }

  /// False: these are none, or too many to be kept.
  bool fits() const { return fits_; }
  /// As they were.
  const MPI_Request* handles() const { return handles_.data(); }
  /// What MPI has answered.
  bool has_found_none() const { return *answer_ == 0; }

 private:
  bool fits_ = false;
  const int* answer_ = nullptr;
  std::array<MPI_Request, 64> handles_;  // NOLINT: set as far as it is read
};

}  // namespace hymn::preload
