// The order in which one rank hands its operations to its GPU, through NCCL or as kernels of hymn's
// own: one for all its groups.
//
// Communicators whose collectives are launched in different orders on different GPUs may wait for
// each other for ever. Programs make their calls in one order on all ranks, so this is the order in
// which they were started, also where a later group's communicator is ready sooner. Messages need
// only keep their order on their stream: between them, and between messages
// and collectives, ranks need not agree.
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "gpu/gpu_device.hpp"
#include "hymn/request.hpp"

namespace hymn {

/// One operation on its way to the GPU. The queue writes it; its owner takes it out before it dies.
class GpuLaunch {
 public:
  explicit GpuLaunch(const Request& request) : request_(request) {}
  virtual ~GpuLaunch() = default;
  GpuLaunch(const GpuLaunch&) = delete;
  GpuLaunch& operator=(const GpuLaunch&) = delete;

  enum class Stage : unsigned char {
    waiting,  ///< until it is ready, or for its turn
    calling,  ///< its library is at it
    enqueued,
    failed,
  };
  Stage stage() const { return stage_.load(std::memory_order_acquire); }
  /// Once it is enqueued: what is recorded behind it. Null for what was captured into a graph.
  cuda_api::Event event() const { return event_; }
  /// Once it has failed.
  const std::exception_ptr& error() const { return error_; }
  /// Of one that has been taken out: an event behind all that is on its stream. To be given back;
  /// null for what was captured, and where the GPU fails.
  cuda_api::Event mark_what_is_there() noexcept;

 protected:
  // Called by the queue, under its lock.
  virtual GpuDevice& gpu() const = 0;
  /// That of operations which are given none.
  virtual cuda_api::Stream own_stream() = 0;
  /// It has its place in the order.
  virtual void begin() {}
  /// What it is a part of that is carried out as one; null: it stands alone.
  virtual const void* coalesced_in() const { return nullptr; }
  /// How many of these follow each other from this one on, itself included.
  virtual std::size_t together() const { return 1; }
  /// Before it is put on its stream, and afterwards until that is through. Throws when it has
  /// failed.
  virtual bool is_ready() = 0;
  /// Puts it on its stream.
  virtual void enqueue() = 0;
  /// The same for all that go together, this being the first. They are of one kind.
  virtual void enqueue_together(std::span<GpuLaunch* const> together);
  /// It is there, and something has been recorded behind it.
  virtual void took_off() {}

  const Request& request() const { return request_; }
  cuda_api::Stream stream() const { return stream_; }
  /// Whether it goes into a graph.
  bool is_captured() const { return is_captured_; }

 private:
  friend class LaunchQueue;
  bool is_message() const { return !is_collective(request_.type); }
  /// What are launched one after the other have the same: a stream, of a GPU, as the default
  /// streams of all GPUs have one handle. Nulls: the collectives of all groups.
  using LaneKey = std::pair<const GpuDevice*, cuda_api::Stream>;
  LaneKey lane() const { return is_message() ? LaneKey{&gpu(), stream_} : LaneKey{}; }

  const Request& request_;
  cuda_api::Stream stream_ = nullptr;
  bool is_captured_ = false;
  cuda_api::Event event_ = nullptr;
  std::exception_ptr error_;
  std::atomic<Stage> stage_{Stage::waiting};
};

/// Thread-safe.
class LaunchQueue {
 public:
  /// Takes its place in the order, on the stream that the request names, or hymn's own. Throws
  /// BackendError.
  void add(GpuLaunch& launch);
  /// Launches what can be launched now. Sends and receives that are next to each other in a lane go
  /// together: apart, two ranks that send to each other would wait for ever. So do collectives
  /// that were started as one, which NCCL carries out at the same time. Never throws:
  /// failures go to the launches. Returns at once where another thread is at it.
  void advance();
  /// Calls `use`, alone on the GPU's library, when the channel is ready and all collectives that
  /// were added have been launched: true then. It begins to be made now. Throws what `use` does,
  /// and as the channel's step().
  template <class Channel>
  bool try_alone(Channel& channel, const std::function<void()>& use) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return false;
    channel.begin();
    if (has_collectives() || !channel.step()) return false;
    use();
    return true;
  }
  /// Calls `use` while no other thread of this rank is in NCCL.
  void alone(const std::function<void()>& use) {
    std::lock_guard lock(mutex_);
    use();
  }
  /// Takes it out; what NCCL has got by then stays there. Its stage is final then.
  void remove(GpuLaunch& launch);

 private:
  /// What is launched one after the other.
  struct Lane {
    std::deque<GpuLaunch*> waiting{};
    std::vector<GpuLaunch*> calling{};  ///< the first of all, which are not on their streams yet
    GpuLaunch* asked = nullptr;         ///< of those that wait: who was asked last
    bool is_empty() const { return waiting.empty() && calling.empty(); }
  };
  /// Whether some are not launched yet. Under the mutex.
  bool has_collectives() const;
  static void advance(Lane& lane);
  /// Where it belongs among those that wait.
  static std::deque<GpuLaunch*>::iterator place_of(const GpuLaunch& launch, Lane& lane);
  /// How many of those that wait, from the first on, go together; 0: some of them are still to
  /// come.
  static std::size_t count_together(const Lane& lane);
  /// True when it is through; false: it has to wait, and all behind it.
  static bool launch_first(Lane& lane);
  static bool are_ready(Lane& lane, std::span<GpuLaunch* const> together);
  static void enqueue(std::span<GpuLaunch* const> together);
  static void settle(GpuLaunch& launch);

  std::mutex mutex_;
  std::map<GpuLaunch::LaneKey, Lane> lanes_;
};

}  // namespace hymn
