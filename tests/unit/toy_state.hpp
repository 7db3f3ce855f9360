// What the toy GPUs' driver and NCCL share: tests/unit/toy_gpus.hpp.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/gpu_functions.hpp"
#include "gpu/nccl_api.hpp"
#include "tests/unit/fake_memory.hpp"
#include "tests/unit/toy_shared_memory.hpp"

namespace hymn::test {

struct ToyTeam;

constexpr int multiprocessors_of_toy_gpu = 4;
/// So many blocks of kernels that wait for other GPUs run beside each other.
constexpr unsigned blocks_of_toy_gpu = 2 * multiprocessors_of_toy_gpu;

/// NCCL's communicator of one rank.
struct ToyComm {
  int number = 0;
  int gpu = 0;
  int rank = 0;
  std::shared_ptr<ToyTeam> team;
  int busy = 0;           ///< so often it will still say that it is in progress
  bool was_used = false;  ///< the first use connects GPUs, and takes longer
  bool is_finalized = false;
  bool is_gone = false;
  mutable int calls_inside = 0;    ///< threads that are in a call on it
  std::shared_ptr<int> waits_for;  ///< a split: ranks of the parent that have not come
  std::size_t collectives = 0;
  std::size_t splits = 0;
  std::map<int, double> factors;        ///< of its own operations
  std::map<void*, void*> known;         ///< buffers, by handle
  nccl_api::Window* opening = nullptr;  ///< where the handle of a window will be written
};

struct ToyTeam {
  std::size_t size = 0;
  std::vector<ToyComm*> ranks;
  std::map<std::size_t, std::map<int, std::pair<int, ToyComm*>>> splits;  ///< by count, by rank
  int finalized = 0;
  bool is_full() const { return ranks.size() == size; }
};

/// One call of NCCL as a stream holds it.
struct ToyCall {
  enum class Kind { collective, send, recv };
  Kind kind = Kind::collective;
  std::string name;
  ToyComm* comm = nullptr;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  int type = 0;
  int op = 0;
  int peer = -1;
  std::size_t sequence = 0;  ///< of the communicator's collectives
  bool done = false;
};

/// What a stream does at one time.
struct ToyTask {
  std::vector<ToyCall> calls{};
  std::function<void()> work{};
  std::shared_ptr<bool> sets{};
  std::shared_ptr<bool> awaits{};
  std::function<void()> aside{};  ///< done by a thread of its own: it waits for other GPUs
  unsigned blocks = 0;            ///< of that: all must find room on the GPU
  std::shared_ptr<std::atomic<bool>> aside_is_done{};
};

struct ToyStream {
  int gpu = 0;
  bool high = false;
  unsigned long long id = 0;  ///< no other stream ever has it, though one may have the address
  bool is_destroyed = false;
  bool is_capturing = false;
  cuda_api::CaptureMode capture_mode = cuda_api::capture_global;
  std::thread::id capturing{};  ///< the thread that has begun it
  bool is_broken = false;       ///< something was called that a capture forbids
  int open_in_graph = 0;        ///< memory that was captured, and its release not yet
  std::deque<ToyTask> tasks;
  std::vector<ToyTask> graph;
};

struct ToyEvent {
  bool has_timing = false;
  std::shared_ptr<bool> happened = std::make_shared<bool>(true);
  std::shared_ptr<double> milliseconds = std::make_shared<double>(0);  ///< when it happened
  bool is_captured = false;
};

/// Its members are used under its mutex.
struct ToyState {
  std::mutex mutex;
  std::condition_variable changed;
  int gpus = 0;
  int first_visible = 0;  ///< the GPU that this process knows as its first
  FakeMemory memory;
  std::unique_ptr<ToySharedMemory> shared;  ///< where other processes reach it, as well
  int allocations = 0;                      ///< through the driver, and not yet given back
  int open_of_nccl = 0;                     ///< of these, what NCCL has made
  int open_on_streams = 0;                  ///< in the order of streams, and not yet given back
  std::vector<std::shared_ptr<void>> memory_of_graphs;
  bool has_memory_pools = true;
  std::list<ToyStream> streams;
  std::list<ToyEvent> events;
  std::list<ToyComm> comms;
  std::vector<std::pair<cuda_api::Stream, ToyTask>> not_yet;  ///< NCCL has still to enqueue these
  std::map<std::string, std::shared_ptr<ToyTeam>> teams;      ///< by id
  std::vector<std::string> held;
  std::map<std::string, int> failures;
  std::function<void()> after_look;  ///< called once, by who has found that an event is still due
  std::map<int, std::vector<std::string>> calls;  ///< by GPU
  std::map<std::string, int> counts;
  std::vector<std::string> violations;
  nccl_api::Config config;
  int comm_state = 0;
  int version = 22809;
  int ids = 0;
  int event_queries = 0;
  int held_up = 0;  ///< threads in calls that do not return
  bool has_peer_access = true;
  unsigned long long streams_made = 0;
  std::set<std::pair<int, const void*>> loaded_kernels;  ///< by GPU
  std::list<std::jthread> threads;

  /// Whether kernels that wait for other GPUs, of hymn or of NCCL, are on that GPU's streams.
  bool has_waiting_kernels(int gpu);
  std::map<int, ToyStream*> default_streams;  ///< by GPU, once something has been asked of them

  ToyStream& default_stream(int gpu);
  /// Makes one, or what another was.
  ToyStream& make_stream(int gpu);
  /// What is on it goes on.
  void destroy_stream(ToyStream& stream);
  /// Whether no kernel is running that was put aside.
  bool is_idle_aside() const;
  /// Does whatever can be done on any stream.
  void progress();
  bool is_held(const std::string& name) const;
  void violation(const std::string& text) { violations.push_back(text); }

 private:
  bool step(ToyStream& stream);
  bool is_aside_done(int gpu, ToyTask& task);
  std::map<int, unsigned> blocks_running_;  ///< of what is put aside, by GPU
  std::vector<std::shared_ptr<std::atomic<bool>>> asides_;
  bool carry_out(ToyCall& call);
  std::vector<ToyCall*> at_front(const ToyTeam& team);
};

extern ToyState* toy;  // plain functions know nothing else

/// Puts it on the stream, or into the graph that is captured from it.
void toy_enqueue(cuda_api::Stream stream, ToyTask task);
/// Carries a collective out for all its ranks.
void toy_collective(const std::vector<ToyCall*>& parts);

cuda_api::Functions toy_cuda(const ToyState& state);
nccl_api::Functions toy_nccl();
void add_toy_kernels(cuda_api::Functions& functions);
void add_toy_ipc_staging(cuda_api::Functions& functions);

/// In that mode, by this thread.
void toy_begin_capture(ToyStream& stream, cuda_api::CaptureMode mode);
/// What the driver forbids beside a capture, unless the thread has said that it knows what it does:
/// breaks the capture, then, and is not 0. Under the toys' mutex.
cuda_api::Result toy_unsafe(const char* what);

/// Of this thread; -1: none is current.
int toy_current_gpu();

/// Memory of a GPU, that the driver knows.
void* toy_allocate(int gpu, std::size_t bytes, MemoryKind kind);
void toy_free(void* pointer);

}  // namespace hymn::test
