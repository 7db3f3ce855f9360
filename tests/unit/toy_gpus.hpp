// GPUs, their driver and NCCL in miniature, for ranks that are threads: memory of GPUs is memory of
// the host, streams are queues of what is to be done, and a collective is carried out when it has
// come to the front of a stream of every rank, as on GPUs. So what deadlocks there stands still
// here. What NCCL's documentation forbids is noted as a violation.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/memory_query.hpp"
#include "runtime/world/thread_world.hpp"
#include "tests/unit/eventually.hpp"

namespace hymn::test {

struct ToyState;

/// One at a time: the functions know no other. Thread-safe.
class ToyGpus {
 public:
  explicit ToyGpus(int gpus);
  ~ToyGpus();
  ToyGpus(const ToyGpus&) = delete;
  ToyGpus& operator=(const ToyGpus&) = delete;

  /// What NCCL says of its version, from now on; by default 22809.
  void set_version(int version);
  /// What a world needs to find all this instead of the real libraries.
  const PretendedGpus& pretended() const { return pretended_; }
  /// A host with these GPUs, for ranks to be placed on.
  std::shared_ptr<const Machine> machine() const { return machine_; }

  /// Runs `body` on one rank for each GPU.
  void run(const std::function<void(World&)>& body, const WorldOptions& options = {},
           const Config& config = {}) const;
  /// The same with other libraries for each rank.
  void run_mixed(const std::vector<const PretendedGpus*>& libraries,
                 const std::function<void(World&)>& body) const;
  /// One rank for each GPU, so many of them on each of these pretended hosts.
  void run_on_hosts(const std::vector<int>& gpus, const std::function<void(World&)>& body,
                    const Config& config = {}) const;
  /// On one host for ranks with these GPUs, as HYMN_GPU names them.
  void run_on_gpus(const std::vector<std::string>& own,
                   const std::function<void(World&)>& body) const;
  /// On one host for so many ranks, of which those from the number of GPUs on have none.
  void run_with_others(int ranks, const std::function<void(World&)>& body,
                       const Config& config = {}) const;

  // --- Memory and streams of a GPU
  void* allocate(int gpu, std::size_t bytes, MemoryKind kind = MemoryKind::device);
  void free(void* pointer);
  void* make_stream(int gpu);
  /// The legacy one.
  void* default_stream(int gpu);
  /// What is on it goes on; the next stream of that GPU has its address.
  void destroy_stream(void* stream);
  /// From now on what is enqueued goes into a graph instead. In CUDA's "global" mode: any thread
  /// can break it.
  void capture(void* stream);
  void end_capture(void* stream);
  /// Enqueues what the graph holds.
  void launch_graph(void* stream);
  /// Enqueues something that the GPU does itself.
  void enqueue(void* stream, std::function<void()> work);
  /// What is enqueued behind it waits until the function that it returns is called.
  std::function<void()> gate(void* stream);
  /// Until all of it has been done, or a minute has passed: then false.
  bool synchronize(void* stream);

  // --- Faults
  /// Calls of these names ("init", "split", "abort", "finalize") do not return, "collective"s
  /// are not carried out, and what is in progress stays so ("settling"), before release().
  void hold(const std::string& name);
  void release();
  /// The next call of this name ("launch", "load_module", "allocate_on", "release_on", or one of
  /// NCCL's) returns that.
  void fail(const std::string& name, int result);
  /// From now on no GPU has memory in the order of streams.
  void take_memory_pools();
  /// Who looks next for an event that is still due does this before it goes on.
  void after_next_look(std::function<void()> act);
  /// All communicators say that of themselves from now on.
  void set_state(int state);

  // --- What has been called
  /// On communicators of that GPU: "all_reduce on 2", where 2 numbers the communicators of the run.
  std::vector<std::string> calls(int gpu) const;
  int count(const std::string& name) const;  ///< calls of that name, of all GPUs
  std::vector<std::string> violations() const;
  nccl_api::Config last_config() const;
  int streams_of_high_priority() const;
  int open_events() const;
  int open_allocations() const;  ///< that hymn has made through the driver
  int open_of_nccl() const;      ///< the same by NCCL
  int open_on_streams() const;   ///< the same in the order of streams
  int queries() const;           ///< of events

 private:
  std::vector<PretendedRank> ranks(int count, const Config& config) const;

  std::unique_ptr<ToyState> state_;
  NcclLibrary nccl_;
  GpuFunctions& functions_;  ///< of no others, ever: kernels are known by its address
  std::unique_ptr<MemoryQuery> memory_;
  PretendedGpus pretended_;
  std::shared_ptr<const Machine> machine_;
};

/// A buffer in the memory of a GPU. As on a real one, tests fill and read it through its own
/// functions only.
template <class T>
class ToyBuffer {
 public:
  ToyBuffer(ToyGpus& gpus, int gpu, std::vector<T> values, MemoryKind kind = MemoryKind::device)
      : gpus_(gpus),
        count_(values.size()),
        data_(static_cast<T*>(gpus.allocate(gpu, values.size() * sizeof(T), kind))) {
    std::copy(values.begin(), values.end(), data_);
  }
  ~ToyBuffer() {
    if (data_ != nullptr) gpus_.free(data_);
  }
  ToyBuffer(const ToyBuffer&) = delete;
  ToyBuffer& operator=(const ToyBuffer&) = delete;
  /// Says nothing of where it is: that is found out.
  BufferView view() const { return {data_, count_, data_type_of<T>}; }
  T* data() const { return data_; }
  std::vector<T> values() const { return {data_, data_ + count_}; }

 private:
  ToyGpus& gpus_;
  std::size_t count_;
  T* data_;
};

/// The words of what `act` throws of this type, or what else becomes of it.
template <class Thrown>
std::string thrown_by(const std::function<void()>& act) {
  try {
    act();
  } catch (const Thrown& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "nothing was thrown";
}

}  // namespace hymn::test
