// The order in which one rank hands its operations to NCCL: one for all its groups.
//
// Communicators whose collectives are launched in different orders on different GPUs may wait for
// each other for ever. Programs make their calls in one order on all ranks, so this is the order in
// which they were started, also where a later group's communicator is ready sooner. Messages need
// only keep their order on their stream: between them, and between messages and collectives, ranks
// need not agree.
#pragma once

#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "collectives/nccl/channel.hpp"

namespace hymn {

/// One operation on its way to the GPU. The queue writes it; its owner takes it out before it dies.
class NcclLaunch {
 public:
  NcclLaunch(NcclChannel& channel, const Call& call, int peer)
      : channel_(channel), request_(*call.request), peer_(peer), call_(call) {}
  NcclLaunch(const NcclLaunch&) = delete;
  NcclLaunch& operator=(const NcclLaunch&) = delete;

  enum class Stage : unsigned char {
    waiting,  ///< for its communicator, or for its turn
    calling,  ///< NCCL is at it
    enqueued,
    failed,
  };
  Stage stage() const { return stage_.load(std::memory_order_acquire); }
  /// Once it is enqueued: what is recorded behind it. Null for what was captured into a graph.
  cuda_api::Event event() const { return event_; }
  /// Once it has failed.
  const std::exception_ptr& error() const { return error_; }

 private:
  friend class LaunchQueue;
  bool is_message() const { return !is_collective(request_.type); }

  NcclChannel& channel_;
  const Request& request_;
  const int peer_;
  const Call& call_;
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
  void add(NcclLaunch& launch);
  /// Launches what can be launched now. Sends and receives that are next to each other on a stream
  /// go together: apart, two ranks that send to each other would wait for ever. So do collectives
  /// that were started as one, which NCCL carries out at the same time. Never throws:
  /// failures go to the launches. Returns at once where another thread is at it.
  void advance();
  /// Calls `use`, alone in NCCL, when the channel's communicator is ready and all collectives that
  /// were added have been launched: true then. It begins to be made now. Throws what `use` does,
  /// and as NcclChannel::step().
  bool try_alone(NcclChannel& channel, const std::function<void()>& use);
  /// Calls `use` while no other thread of this rank is in NCCL.
  void alone(const std::function<void()>& use) {
    std::lock_guard lock(mutex_);
    use();
  }
  /// Takes it out; what NCCL has got by then stays there. Its stage is final then.
  void remove(NcclLaunch& launch);

 private:
  /// What is launched one after the other.
  struct Lane {
    std::deque<NcclLaunch*> waiting{};
    std::vector<NcclLaunch*> calling{};  ///< the first of all, which NCCL has not enqueued yet
    NcclLaunch* asked = nullptr;         ///< of those that wait: whose channel was stepped last
    bool is_empty() const { return waiting.empty() && calling.empty(); }
  };
  static void advance(Lane& lane);
  /// Where it belongs among those that wait.
  static std::deque<NcclLaunch*>::iterator place_of(const NcclLaunch& launch, Lane& lane);
  /// How many of those that wait, from the first on, go together; 0: some of them are still to
  /// come.
  static std::size_t count_together(const Lane& lane);
  /// True when it is through; false: it has to wait, and all behind it.
  static bool launch_first(Lane& lane);
  static bool are_ready(Lane& lane, std::span<NcclLaunch* const> together);
  static void enqueue(std::span<NcclLaunch* const> together);
  static void settle(NcclLaunch& launch);

  std::mutex mutex_;
  std::map<cuda_api::Stream, Lane> lanes_;  // null: the collectives of all streams
};

}  // namespace hymn
