// What `hymn bench` prints: a table, JSON or comma-separated values.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/bench/figures.hpp"
#include "tools/bench/options.hpp"

namespace hymn {

/// How many values came out wrong, over all ranks; unset: not verified.
struct WrongValues {
  std::optional<std::uint64_t> hymn;
  std::optional<std::uint64_t> rival;  ///< of plain MPI; NCCL's results are not verified

  void add(const WrongValues& more);
};

/// One line: one size, in place or out of place.
struct BenchRow {
  std::string collective;
  std::size_t size_bytes = 0;
  std::size_t count = 0;
  std::string dtype;  ///< "none" where there is no data
  std::string op;     ///< "none" where nothing is reduced
  bool in_place = false;
  int ranks = 1;
  BenchTimes time;
  /// What the host needs to put it on a stream; unset: the buffers are in host memory.
  std::optional<BenchTimes> enqueue_time;
  double bus_factor = 1;
  WrongValues wrong;
  std::string path;
  std::string algorithm;
  /// GB/s that the GPU of rank 0 reads and writes when it copies; unset: not known.
  std::optional<double> copy_rate;
  std::string rival;  ///< what --vs compares with; empty: nothing
  /// Unset: the rival has no equivalent.
  std::optional<BenchTimes> rival_time;
  std::optional<BenchTimes> rival_enqueue_time;

  double algorithm_bandwidth() const;  ///< GB/s
  double bus_bandwidth() const { return algorithm_bandwidth() * bus_factor; }
  std::optional<double> ratio() const;  ///< this / rival
};

/// Only rank 0 has one.
class BenchReport {
 public:
  BenchReport() = default;
  BenchReport(const BenchReport&) = delete;
  BenchReport& operator=(const BenchReport&) = delete;
  virtual ~BenchReport() = default;

  virtual void begin(std::span<const std::string> /*remarks*/) {}
  /// The rows of one size.
  virtual void add(std::span<const BenchRow> rows) = 0;
  /// Throws std::runtime_error when not everything could be written.
  virtual void end(const WrongValues& wrong) = 0;
};

using BenchReports = std::vector<std::unique_ptr<BenchReport>>;

/// The reports that the options ask for. Throws BadArguments when the CSV file cannot be opened.
BenchReports make_reports(const BenchOptions& options);

/// A line on stderr that tells how far a long run has come; nothing where stderr is no terminal.
class BenchProgress {
 public:
  explicit BenchProgress(bool wanted);
  BenchProgress(const BenchProgress&) = delete;
  BenchProgress& operator=(const BenchProgress&) = delete;
  ~BenchProgress() { clear(); }

  void show(const BenchRow& row, std::size_t done, std::size_t all);
  /// Removes the line, so that something else can be printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool wanted_;
  bool visible_ = false;
  Clock::time_point began_ = Clock::now();
  Clock::time_point shown_ = began_;
};

}  // namespace hymn
