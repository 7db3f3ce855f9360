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

namespace hymn::rpc::detail {
namespace {

constexpr Duration longest_sleep = std::chrono::milliseconds(250);
constexpr std::size_t most_threads = 2048;
constexpr std::uint64_t bell_tag = std::uint64_t{1} << 40;
constexpr std::uint64_t process_tag = std::uint64_t{1} << 41;

/// What this thread does for its engine.
struct Role {
  Engine* engine = nullptr;
  bool leads = false;
  bool runs = false;
};
thread_local Role role;

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
  if (!(role.engine == this && role.leads) && running_ < limit_) (void)call_helper(lock);
}

/// There is work for one more thread. False: none can be had.
bool Engine::call_helper(Lock& /*held*/) {
  if (stopping_) return true;
  if (idle_ > 0) {
    changed_.notify_one();
    return true;
  }
  if (threads_.size() >= most_threads) return false;
  try {
    threads_.push_back(start_helper_thread(
        "hymn rpc", [this] { serve(); }, [](std::string_view) {}));
  } catch (const ResourceError&) {
    return false;
  }
  return true;
}

void Engine::serve() {
  role = {.engine = this};
  Lock lock(mutex_);
  while (!stopping_) {
    if (!jobs_.empty() && running_ < limit_) {
      run_job(lock);
    } else if (!is_led_) {
      lead(lock);
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
  role.runs = true;
  if (!is_led_ || (!jobs_.empty() && running_ < limit_)) (void)call_helper(lock);
  lock.unlock();
  job();
  job = nullptr;
  lock.lock();
  role.runs = false;
  --running_;
}

void Engine::lead(Lock& lock) {
  is_led_ = true;
  role.leads = true;
  while (!stopping_ && pass_on(lock) && (jobs_.empty() || running_ >= limit_)) {
    lock.unlock();
    const TimePoint now = std::chrono::steady_clock::now();
    wakes_at_ = (now + longest_sleep).time_since_epoch().count();
    const TimePoint next = events_.overdue(now);
    std::vector<Arrival> arrivals;
    // A continuation may have waited: somebody else reads then.
    if (role.leads) arrivals = poll(next);
    lock.lock();
    std::move(arrivals.begin(), arrivals.end(), std::back_inserter(inbox_));
  }
  if (role.leads) is_led_ = role.leads = false;
}

/// All that has come, in order. False: this thread leads no longer.
bool Engine::pass_on(Lock& lock) {
  while (role.leads && !inbox_.empty() && !stopping_) {
    Arrival arrival = std::move(inbox_.front());
    inbox_.pop_front();
    lock.unlock();
    if (arrival.is_loss)
      events_.lost(arrival.rank, arrival.why);
    else
      events_.message(arrival.rank, std::move(arrival.message));
    lock.lock();
  }
  return role.leads;
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
  if (std::exchange(role.leads, false)) is_led_ = false;
  if (role.runs) --running_;
  const bool is_needed = !is_led_ || (!jobs_.empty() && running_ < limit_);
  if (!is_needed || call_helper(lock) || is_led_) return;
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
