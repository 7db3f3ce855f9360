// The threads of an agent.
//
// One of them leads: it alone reads the links, and passes on what has come. Requests become jobs,
// which any thread runs. A leader that would run one, or wait, lets another thread lead: so there
// is always one that reads, however many handlers wait for calls of their own. Threads that wait
// for calls do not count; others take their places.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "hymn/timeout.hpp"
#include "rpc/link.hpp"

namespace hymn::rpc::detail {

class Engine {
 public:
  using Job = std::function<void()>;

  /// All called by the thread that leads, without locks.
  struct Events {
    std::function<void(int rank, Message message)> message;
    /// The last one about this rank.
    std::function<void(int rank, const std::string& why)> lost;
    /// Ends what is overdue, and returns when the next will be.
    std::function<TimePoint(TimePoint now)> overdue;
  };

  Engine(int limit, Events events);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// stop() has been called.
  ~Engine();

  /// Before start(). `pid`: of a process of this host whose end is to be seen; 0: none.
  void add_link(int rank, Descriptor socket, int pid, std::size_t most_bytes);
  void start();
  /// Null for this worker itself.
  Link* link(int rank);

  void submit(Job job);
  /// Something is to be looked at then.
  void note_deadline(TimePoint when);
  std::size_t threads() const;

  /// No thread takes anything up any more; jobs that have not begun are dropped.
  void stop();
  /// After stop(): waits for all threads, but for the one that calls.
  void join();

  /// The one whose thread this is, if any.
  static Engine* of_this_thread() noexcept;
  /// Around each wait of a thread of this engine. Throws ResourceError where no thread is left that
  /// could go on.
  void begin_wait();
  void end_wait();

 private:
  struct Arrival {
    int rank;
    bool is_loss;
    std::string why;
    Message message;
  };
  struct Neighbour {
    std::unique_ptr<Link> link;
    Descriptor process;
    int pid = 0;
    bool is_lost = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  void serve();
  void run_job(Lock& lock);
  void lead(Lock& lock);
  bool pass_on(Lock& lock);
  std::vector<Arrival> poll(TimePoint next);
  void read(int rank, std::vector<Arrival>& arrivals);
  void lose(int rank, std::string why, std::vector<Arrival>& arrivals);
  bool call_helper(Lock& lock);
  void wake_poll();

  const int limit_;
  const Events events_;
  Descriptor poll_;
  Descriptor bell_;
  std::map<int, Neighbour> neighbours_;
  std::atomic<TimePoint::rep> wakes_at_{0};

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::deque<Arrival> inbox_;
  std::vector<std::thread> threads_;
  bool is_led_ = false;
  bool stopping_ = false;
  int running_ = 0;
  int idle_ = 0;
};

/// Around whatever waits: where the thread is an engine's, another one takes its place.
class WaitScope {
 public:
  WaitScope() : engine_(Engine::of_this_thread()) {
    if (engine_ != nullptr) engine_->begin_wait();
  }
  ~WaitScope() {
    if (engine_ != nullptr) engine_->end_wait();
  }
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  Engine* engine_;
};

}  // namespace hymn::rpc::detail
