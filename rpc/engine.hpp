// The threads of an agent, and those that wait for its calls.
//
// One thread at a time leads: it alone reads the links, and passes on what has come. Whoever waits
// for a call leads if nobody else does, so that its answer wakes it and nobody else. Requests
// become jobs. A thread of the engine's that leads runs a job itself, and goes on leading
// afterwards, and reads between jobs, however many wait; if that takes long, or nobody leads any
// more, the thread that stands by takes the lead. It looks every now and then, for waking it with
// each call would cost more than the call. Threads that wait for calls do not count; others take
// their places.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "base/own_process.hpp"
#include "hymn/timeout.hpp"
#include "rpc/link.hpp"

namespace hymn::rpc::detail {

class CallWait;

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
    /// A thread cannot go on.
    std::function<void(const std::string& why)> failed;
  };

  Engine(int limit, Events events);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// stop() has been called.
  ~Engine();

  /// Before add_link(): those to the workers of this host that share memory with this one.
  void use_streams(std::unique_ptr<ByteStreams> streams) { streams_ = std::move(streams); }
  /// Before start(). `pid`: of a process of this host whose end is to be seen; 0: none. `stream`:
  /// its number among the streams; -1: it has none.
  void add_link(int rank, Descriptor socket, int pid, const LinkLimits& limits, int stream);
  void start();
  /// Null for this worker itself.
  Link* link(int rank);
  bool is_on_this_host(int rank) const { return neighbours_.at(rank).pid != 0; }

  void submit(Job job);
  /// News: what ends a call. Who leads does it soon, one after the other, so that each may wait for
  /// those behind it.
  void report(Job news);
  /// Does what has been reported and not been done.
  void report_all();
  /// Something is to be looked at then.
  void note_deadline(TimePoint when);
  std::size_t threads() const;

  /// No thread takes anything up any more; jobs that have not begun are dropped.
  void stop();
  /// After stop(): waits for all threads, but for the one that calls.
  void join();

  /// The one whose thread this is, if any; none in a child made by fork().
  static Engine* of_this_thread() noexcept;
  /// Until the call has ended, or the deadline has passed. Any thread that is not another engine's.
  void await(CallWait& call, Deadline deadline);
  /// Who leads looks again whether its call has ended, unless that is this thread.
  void wake_other_leader();
  /// Around each other wait of a thread of this engine. Throws ResourceError where no thread is
  /// left that could go on.
  void begin_wait();
  void end_wait();
  /// What this thread leads, others lead from now on; but for this one.
  static void hand_over_other(const Engine* but);

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
    bool has_left = false;  ///< it has said that it goes
  };
  using Lock = std::unique_lock<std::mutex>;

  enum class Lead : unsigned char { nobody, polls, works };

  void serve();
  TimePoint run_job(Lock& lock);
  void stand_by(Lock& lock);
  bool should_lead(std::uint64_t turns_before) const;
  void lead(Lock& lock);
  void work_as_leader(Lock& lock);
  void pass_on(Lock& lock);
  void take_in(Lock& lock, TimePoint until, const CallWait* awaited);
  std::vector<Arrival> look_around(TimePoint until, const CallWait* awaited);
  bool has_news() const { return !inbox_.empty() || !news_.empty(); }
  void do_news(Lock& lock);
  void tell(const Job& event, int rank);
  void await_leading(Lock& lock, CallWait& call, Deadline deadline);
  bool leads() const;
  void hand_over();
  void take_lead();
  void leave_lead(Lock& lock);
  bool give_up_lead(Lock& lock);
  void follow(Lock& lock, CallWait& call, Deadline deadline, bool may_lead);
  [[noreturn]] void refuse_wait() const;
  bool has_job() const { return !jobs_.empty() && running_ < limit_; }
  bool call_leader(Lock& lock);
  bool keep_standby(Lock& lock);
  std::vector<Arrival> poll(TimePoint next);
  std::vector<Arrival> glance();
  void look_at_streams(std::vector<Arrival>& arrivals);
  void sleep(TimePoint until, std::vector<Arrival>& arrivals);
  void look_at_sockets(TimePoint until, std::vector<Arrival>& arrivals);
  void read(int rank, std::vector<Arrival>& arrivals, bool all = false);
  using Take = std::function<bool(Link& link, std::vector<Message>& messages)>;
  void take(int rank, std::vector<Arrival>& arrivals, const Take& take);
  void lose(int rank, std::string why, std::vector<Arrival>& arrivals);
  bool call_helper(Lock& lock);
  void look_for_silence(TimePoint now, std::vector<Arrival>& arrivals);
  void wake_poll();
  void close_in_child();

  const OwnProcess process_;
  const int limit_;
  const Events events_;
  Descriptor poll_;
  Descriptor bell_;
  std::unique_ptr<ByteStreams> streams_;  ///< before the links, which use them; null: none
  std::map<int, Neighbour> neighbours_;
  bool has_plain_links_ = false;
  TimePoint sockets_seen_{};  ///< by who leads; no later than streams
  TimePoint silence_seen_{};  ///< by who leads
  std::atomic<bool> is_rung_{false};
  std::atomic<bool> is_asleep_{false};  ///< so that the bell is needed
  std::atomic<TimePoint::rep> wakes_at_{0};

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::deque<Arrival> inbox_;
  std::deque<Job> news_;
  std::vector<std::thread> threads_;
  bool stopping_ = false;
  int running_ = 0;
  bool are_quick_ = false;  ///< the last job was
  int idle_ = 0;
  int waiting_ = 0;  ///< in await(), without leading
  Lead lead_ = Lead::nobody;
  std::uint64_t term_ = 0;   ///< a new one for each that leads
  std::uint64_t turns_ = 0;  ///< something has been done by who leads
  bool is_wanted_ = false;   ///< who waits would have led
  std::condition_variable look_;
  bool stands_by_ = false;
  bool is_drowsy_ = false;  ///< who stands by looks seldom
  bool is_urgent_ = false;  ///< who stands by is to lead at once

  std::optional<ForkWatch> forks_;  ///< from start() on: what a child of then closes
};

/// Around whatever waits: where the thread is an engine's, another one takes its place.
class WaitScope {
 public:
  WaitScope() : engine_(Engine::of_this_thread()) {
    Engine::hand_over_other(nullptr);
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
