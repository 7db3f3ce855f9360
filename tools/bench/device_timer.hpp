// Times one collective on one rank in the memory of its GPU, and verifies what comes out.
//
// Operations are enqueued on a stream one behind the other, as programs do that train. Between two
// of them the stream writes the whole input anew, with other values, from a pattern in the GPU's
// memory; events before and behind each operation tell how long the stream was at it. Beside that
// counts what the host needs to enqueue it.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "gpu/device_memory.hpp"
#include "tools/bench/device_graph.hpp"
#include "tools/bench/timer.hpp"

namespace hymn {

/// Means of the iterations of one block, in microseconds.
struct BlockTime {
  double us = 0;
  double enqueue_us = 0;  ///< of the host; 0 where nothing is enqueued
};

/// The GPU of a rank that measures on it. Throws UnsupportedError, the same on all ranks, where one
/// of them has none. Collective.
std::shared_ptr<GpuDevice> require_gpus(World& world);

class DeviceTimer : public BenchTally {
 public:
  /// With room for sizes up to `bytes`. Operations that take longer than `limit` are given up.
  /// `in_graphs`: they are captured, up to 32 at a time, and launched together; what the host needs
  /// is then its part of the launch.
  DeviceTimer(World& world, std::shared_ptr<GpuDevice> gpu, const BenchCase& bench_case,
              DataType dtype, ReduceOp op, std::size_t bytes, Timeout limit,
              bool in_graphs = false);
  ~DeviceTimer();

  BenchCall call(const BenchShape& shape) const {
    return BenchCall(case_, shape, dtype_, op_, first_.data(), second_.data(), MemoryKind::device);
  }
  /// How fast this GPU copies within its memory what no cache holds, in GB/s read and written
  /// together; 0 where there is no room to try. Ranks that share a GPU must not try at the same
  /// time.
  double copy_rate() const;
  /// On which everything happens.
  cuda_api::Stream stream() const { return stream_; }

  /// One side of the comparison: how an operation gets onto the stream, and what is looked at until
  /// all are through (for what has gone wrong with them).
  struct Side {
    std::function<void()> enqueue;
    std::function<void()> look;
  };
  /// As BenchTimer::time_block(). Throws TimeoutError.
  BlockTime time_block(const BenchCall& call, std::size_t iterations, std::size_t check,
                       const Side& side);

 private:
  struct Marks {
    cuda_api::Event before = nullptr;
    cuda_api::Event behind = nullptr;
  };
  Marks make_marks() const;
  void write_input(const BenchCall& call, std::size_t phase);
  void record(cuda_api::Event event) const;
  /// Several operations one behind the other, each between its marks.
  void enqueue(const BenchCall& call, std::size_t operations, const Side& side,
               Clock::duration& spent);
  std::unique_ptr<DeviceGraph> enqueue_graph(const BenchCall& call, std::size_t operations,
                                             const Side& side, Clock::duration& spent);
  /// Until the stream has done all; the microseconds between the first so many marks.
  double await(std::size_t marks, const Side& side);
  void verify_output(const BenchCall& call, std::size_t phase);

  std::shared_ptr<GpuDevice> gpu_;
  Timeout limit_;
  bool in_graphs_;
  bool is_capturing_ = false;
  std::size_t phase_ = 0;  // of the last operation's input
  DeviceMemory pattern_;   // the sequence, from any phase on as long as the longest input
  DeviceMemory first_;
  DeviceMemory second_;
  cuda_api::Stream stream_ = nullptr;
  std::array<Marks, 32> marks_;    // of operations that are on the stream at the same time
  cuda_api::Event end_ = nullptr;  // of all that was enqueued
  std::vector<std::byte> found_;
};

}  // namespace hymn
