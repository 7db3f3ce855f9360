// Plain MPI beside hymn, as its users run it: a job of its own, whose processes are started with
// MPI_Init. It runs one block of iterations at a time, while hymn's ranks sleep, and sleeps while
// they run theirs; its ranks lie on the same hosts and CPUs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hymn/world.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/vs_mpi.hpp"

namespace hymn {

/// What one block of the rival's is to measure; both sides send each other lines of text.
struct RivalBlock {
  std::size_t count = 0;
  bool in_place = false;
  std::size_t iterations = 0;
  std::size_t check = 0;
};

/// The side of hymn's ranks. Every call is collective.
class RivalJob {
 public:
  /// Starts it. Throws BadArguments, on all ranks, when that fails.
  RivalJob(World& world, const BenchOptions& options);
  RivalJob(const RivalJob&) = delete;
  RivalJob& operator=(const RivalJob&) = delete;
  ~RivalJob();

  /// Mean time of an iteration on its slowest rank, in microseconds; on hymn's other ranks than 0:
  /// 0. Throws std::runtime_error when the job has ended.
  double measure(const RivalBlock& block);
  /// How it was started, and what it is.
  const std::string& description() const { return description_; }
  /// The number of values that came out wrong since this was last asked, the same on all ranks.
  std::uint64_t take_wrong() { return std::exchange(wrong_, 0); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void start(const BenchOptions& options, const std::vector<std::string>& cpus,
             const std::vector<std::string>& hosts);
  std::string answer();

  ProcessGroup all_;
  bool speaks_;
  std::unique_ptr<std::FILE, Close> to_;
  std::unique_ptr<std::FILE, Close> from_;
  pid_t launcher_ = -1;
  std::string description_;
  std::uint64_t wrong_ = 0;
};

/// A rank of the rival: what `hymn bench --rival …` is, which only a RivalJob starts.
int run_rival(const BenchOptions& options);

/// Waits for the work without keeping a core from whoever runs meanwhile.
void rest_until_done(Work work);

}  // namespace hymn
