#include "rpc/engine.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/helper_thread.hpp"
#include "control/process_watch.hpp"
#include "hymn/error.hpp"
#include "rpc/calls.hpp"

namespace hymn::rpc::detail {
namespace {

constexpr Duration longest_sleep = std::chrono::milliseconds(250);
constexpr std::size_t most_threads = 2048;
constexpr std::uint64_t bell_tag = std::uint64_t{1} << 40;
constexpr std::uint64_t process_tag = std::uint64_t{1} << 41;

/// How often who stands by looks whether it is to lead: from the first to the second, the longer
/// nothing happens.
constexpr Duration shortest_look = std::chrono::microseconds(500);
constexpr Duration longest_look = std::chrono::milliseconds(100);
constexpr Duration drowsy_look = std::chrono::milliseconds(2);

/// What this thread does for its engine.
struct Role {
  Engine* engine = nullptr;
  bool runs = false;
};
thread_local Role role;
/// The engine that this thread leads, as long as that has this term; threads of programs do, too.
struct Leading {
  Engine* engine = nullptr;
  std::uint64_t term = 0;
  bool awaits = false;  ///< and waits for a call: it runs no jobs
};
thread_local Leading leading;

std::atomic<std::uint64_t> last_term{0};

Descriptor process_of(int pid) {
  if (pid <= 0 || pid == ::getpid()) return {};
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

void watch_readable(int poll, int descriptor, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  ::epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event);
}

}  // namespace

Engine::Engine(int limit, Events events)
    : limit_(limit),
      events_(std::move(events)),
      poll_(::epoll_create1(EPOLL_CLOEXEC)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!poll_ || !bell_)
    throw ResourceError("an agent cannot watch its links",
                        {.remedy = "raise the limit of open files (ulimit -n)"});
  watch_readable(poll_.number(), bell_.number(), bell_tag);
}

Engine::~Engine() { join(); }

void Engine::add_link(int rank, Descriptor socket, int pid, std::size_t most_bytes) {
  Neighbour& neighbour = neighbours_[rank];
  neighbour.pid = pid;
  neighbour.process = process_of(pid);
  const auto tag = static_cast<std::uint64_t>(rank);
  if (neighbour.process)
    watch_readable(poll_.number(), neighbour.process.number(), process_tag | tag);
  neighbour.link = std::make_unique<Link>(std::move(socket), poll_.number(), tag, most_bytes);
}

void Engine::start() {
  Lock lock(mutex_);
  if (!call_helper(lock)) throw ResourceError("an agent cannot start its first thread");
}

Link* Engine::link(int rank) {
  const auto found = neighbours_.find(rank);
  return found == neighbours_.end() ? nullptr : found->second.link.get();
}

Engine* Engine::of_this_thread() noexcept { return role.engine; }

std::size_t Engine::threads() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

void Engine::submit(Job job) {
  Lock lock(mutex_);
  if (stopping_) return;
  jobs_.push_back(std::move(job));
  // The leader runs what it has passed on itself.
  if ((!leads() || leading.awaits) && running_ < limit_) (void)call_helper(lock);
}

/// There is work for one more thread. False: none can be had.
bool Engine::call_helper(Lock& /*held*/) {
  if (stopping_) return true;
  if (idle_ > 0) {
    changed_.notify_one();
    return true;
  }
  if (threads_.size() < most_threads) {
    try {
      threads_.push_back(start_helper_thread(
          "hymn rpc", [this] { serve(); }, [](std::string_view) {}));
      return true;
    } catch (const ResourceError&) {
    }
  }
  if (stands_by_) look_.notify_one();
  return stands_by_;
}

/// Somebody leads soon. False: nobody can be had.
bool Engine::call_leader(Lock& lock) {
  is_urgent_ = true;
  if (!stands_by_) return call_helper(lock);
  look_.notify_one();
  return true;
}

/// Somebody looks soon whether it is to lead.
bool Engine::keep_standby(Lock& lock) {
  if (!stands_by_) return call_helper(lock);
  if (is_drowsy_) look_.notify_one();
  return true;
}

bool Engine::leads() const {
  return lead_ != Lead::nobody && leading.engine == this && leading.term == term_;
}

void Engine::take_lead() {
  lead_ = Lead::polls;
  term_ = ++last_term;
  ++turns_;
  is_urgent_ = false;
  leading = {.engine = this, .term = term_};
}

void Engine::leave_lead(Lock& lock) {
  lead_ = Lead::nobody;
  leading = {};
  ++turns_;
  if (waiting_ > 0 || !inbox_.empty())
    (void)call_leader(lock);
  else
    (void)keep_standby(lock);
}

void Engine::serve() {
  role = {.engine = this};
  Lock lock(mutex_);
  while (!stopping_) {
    if (has_job()) {
      run_job(lock);
    } else if (!stands_by_) {
      stand_by(lock);
    } else {
      ++idle_;
      changed_.wait(lock);
      --idle_;
    }
  }
  role = {};
}

void Engine::run_job(Lock& lock) {
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  ++running_;
  ++turns_;
  role.runs = true;
  if (has_job()) (void)call_helper(lock);
  if (!stands_by_ && !leads()) (void)keep_standby(lock);
  lock.unlock();
  job();
  job = nullptr;
  lock.lock();
  role.runs = false;
  --running_;
}

/// `turns_before`: when it looked last.
bool Engine::should_lead(std::uint64_t turns_before) const {
  if (lead_ == Lead::polls) return false;
  if (is_urgent_ && lead_ == Lead::nobody) return true;
  return turns_ == turns_before;
}

void Engine::stand_by(Lock& lock) {
  stands_by_ = true;
  Duration interval = shortest_look;
  std::uint64_t turns = turns_ - 1;
  while (!stopping_ && !has_job() && !should_lead(turns)) {
    interval = turns == turns_ ? std::min(2 * interval, longest_look) : shortest_look;
    is_drowsy_ = interval >= drowsy_look;
    turns = turns_;
    look_.wait_for(lock, interval);
  }
  stands_by_ = is_drowsy_ = false;
  if (!stopping_ && !has_job()) lead(lock);
}

void Engine::lead(Lock& lock) {
  take_lead();
  while (!stopping_ && leads()) {
    pass_on(lock);
    if (!leads()) break;
    if (has_job()) {
      work_as_leader(lock);
    } else if (is_wanted_ && waiting_ <= 1) {
      // Who waits one call after the other leads itself from the next on.
      is_wanted_ = false;
      lead_ = Lead::nobody;
      ++turns_;
    } else {
      take_in(lock, TimePoint::max());
    }
  }
  if (leads()) lead_ = Lead::nobody;
  leading = {};
}

void Engine::work_as_leader(Lock& lock) {
  lead_ = Lead::works;
  if (!stands_by_ || is_drowsy_) (void)keep_standby(lock);
  run_job(lock);
  if (leads()) lead_ = Lead::polls;
}

/// Waits for what comes next, or what is to be done by then.
void Engine::take_in(Lock& lock, TimePoint until) {
  lock.unlock();
  const TimePoint now = std::chrono::steady_clock::now();
  wakes_at_ = (now + longest_sleep).time_since_epoch().count();
  const TimePoint next = events_.overdue(now);
  lock.lock();
  // A continuation may have waited: somebody else may read then.
  if (!leads() || stopping_ || !inbox_.empty()) return;
  lock.unlock();
  std::vector<Arrival> arrivals = poll(std::min(next, until));
  lock.lock();
  std::move(arrivals.begin(), arrivals.end(), std::back_inserter(inbox_));
}

/// All that has come, in order, as long as this thread leads.
void Engine::pass_on(Lock& lock) {
  while (leads() && !inbox_.empty() && !stopping_) {
    Arrival arrival = std::move(inbox_.front());
    inbox_.pop_front();
    lock.unlock();
    if (arrival.is_loss)
      events_.lost(arrival.rank, arrival.why);
    else
      events_.message(arrival.rank, std::move(arrival.message));
    lock.lock();
  }
}

void Engine::await(CallWait& call, Deadline deadline) {
  hand_over_other(this);
  const bool runs = role.engine == this && role.runs;
  Lock lock(mutex_);
  if (runs) --running_;
  if (has_job()) (void)call_helper(lock);
  while (!call.is_done() && !stopping_ && !deadline.expired(std::chrono::steady_clock::now())) {
    if (leads() || lead_ == Lead::nobody) {
      await_leading(lock, call, deadline);
    } else {
      is_wanted_ = true;
      ++waiting_;
      lock.unlock();
      call.block(deadline);
      lock.lock();
      --waiting_;
    }
  }
  if (runs) ++running_;
  lock.unlock();
  if (!call.is_done()) call.block(deadline);
}

void Engine::await_leading(Lock& lock, CallWait& call, Deadline deadline) {
  const bool works = leads() && role.engine == this && role.runs;
  if (leads())
    lead_ = Lead::polls;
  else
    take_lead();
  const bool awaited = std::exchange(leading.awaits, true);
  call.set_polled(true);
  while (leads() && !stopping_ && !call.is_done() &&
         !deadline.expired(std::chrono::steady_clock::now())) {
    pass_on(lock);
    if (leads() && !call.is_done()) take_in(lock, deadline.when());
  }
  call.set_polled(false);
  leading.awaits = awaited;
  if (awaited && leads()) return;  // to a wait around this one
  if (!leads()) {
    leading = {};
  } else if (works && inbox_.empty()) {
    lead_ = Lead::works;
    (void)keep_standby(lock);
  } else {
    leave_lead(lock);
  }
}

void Engine::wake_other_leader() {
  if (leading.engine != this) wake_poll();
}

void Engine::hand_over() {
  Lock lock(mutex_);
  if (leads()) {
    lead_ = Lead::nobody;
    (void)call_leader(lock);
  }
  leading = {};
}

void Engine::hand_over_other(const Engine* but) {
  if (leading.engine != nullptr && leading.engine != but) leading.engine->hand_over();
}

std::vector<Engine::Arrival> Engine::poll(TimePoint next) {
  const TimePoint now = std::chrono::steady_clock::now();
  const TimePoint until = std::min(next, now + longest_sleep);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(poll_.number(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(std::max<std::int64_t>(left, 0)));
  wakes_at_ = 0;  // until deadlines are looked at again
  std::vector<Arrival> arrivals;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const std::uint64_t tag = event.data.u64;
    const int rank = static_cast<int>(tag & 0xffffffff);
    if ((tag & bell_tag) != 0) {
      std::uint64_t rings = 0;
      (void)!::read(bell_.number(), &rings, sizeof(rings));
    } else if ((tag & process_tag) != 0) {
      // What it has still sent comes first.
      read(rank, arrivals);
      lose(rank, words_of_end(how_it_ended(neighbours_[rank].pid)), arrivals);
    } else {
      if ((event.events & EPOLLOUT) != 0) link(rank)->flush();
      if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) read(rank, arrivals);
    }
  }
  return arrivals;
}

void Engine::read(int rank, std::vector<Arrival>& arrivals) {
  Neighbour& neighbour = neighbours_[rank];
  if (neighbour.is_lost || !neighbour.link->is_open()) return;
  std::vector<Message> messages;
  std::string why;
  try {
    if (!neighbour.link->read(messages)) why = "it has closed the connection";
  } catch (const Error& error) {
    why = error.problem();
  } catch (const std::exception& error) {
    why = fmt::format("what it sends cannot be taken: {}", error.what());
  }
  for (Message& message : messages) arrivals.push_back({rank, false, {}, std::move(message)});
  if (!why.empty()) lose(rank, std::move(why), arrivals);
}

void Engine::lose(int rank, std::string why, std::vector<Arrival>& arrivals) {
  Neighbour& neighbour = neighbours_[rank];
  if (neighbour.process)
    ::epoll_ctl(poll_.number(), EPOLL_CTL_DEL, neighbour.process.number(), nullptr);
  neighbour.link->close();
  if (std::exchange(neighbour.is_lost, true)) return;
  // A connection that ends mostly does so because its process has: that says more.
  if (neighbour.process && has_ended(neighbour.pid))
    why = words_of_end(how_it_ended(neighbour.pid));
  arrivals.push_back({rank, true, std::move(why), {}});
}

void Engine::note_deadline(TimePoint when) {
  const TimePoint::rep wakes_at = wakes_at_;
  if (wakes_at != 0 && when.time_since_epoch().count() < wakes_at) wake_poll();
}

void Engine::wake_poll() {
  const std::uint64_t one = 1;
  (void)!::write(bell_.number(), &one, sizeof(one));
}

void Engine::begin_wait() {
  Lock lock(mutex_);
  if (role.runs) --running_;
  const bool can_run = !has_job() || call_helper(lock);
  const bool can_lead = lead_ != Lead::nobody || call_leader(lock);
  if ((can_run && can_lead) || stopping_) return;
  if (role.runs) ++running_;
  throw ResourceError(fmt::format("{} threads of an agent wait for calls, and there is no other to "
                                  "read their answers",
                                  threads_.size()),
                      {.remedy = "nest calls less deeply, or return futures from handlers"});
}

void Engine::end_wait() {
  const std::lock_guard lock(mutex_);
  if (role.runs) ++running_;
}

void Engine::stop() {
  std::deque<Job> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(jobs_);
  }
  changed_.notify_all();
  look_.notify_all();
  wake_poll();
}

void Engine::join() {
  std::vector<std::thread> ended;
  {
    const std::lock_guard lock(mutex_);
    ended.swap(threads_);
  }
  for (std::thread& thread : ended) {
    if (thread.get_id() == std::this_thread::get_id())
      thread.detach();
    else
      thread.join();
  }
}

}  // namespace hymn::rpc::detail
