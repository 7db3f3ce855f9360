// The ranks of a communicator, for benchmarks beside plain MPI.
#pragma once

#include <fmt/format.h>
#include <mpi.h>

#include <utility>
#include <vector>

namespace hymn::bench {

class Job {
 public:
  explicit Job(MPI_Comm communicator) : communicator_(communicator) {
    MPI_Comm_rank(communicator, &rank_);
    MPI_Comm_size(communicator, &size_);
  }
  MPI_Comm communicator() const { return communicator_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) const {
    if (rank_ == 0) fmt::print(format, std::forward<Args>(args)...);
  }
  void meet() const { MPI_Barrier(communicator_); }
  std::vector<double> slowest(std::vector<double> values) const {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_MAX,
                  communicator_);
    return values;
  }

 private:
  MPI_Comm communicator_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace hymn::bench
