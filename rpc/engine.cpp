#include "rpc/engine.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/helper_thread.hpp"
#include "control/process_state.hpp"
#include "hymn/error.hpp"
#include "rpc/engine_role.hpp"

namespace hymn::rpc::detail {
namespace {

constexpr std::uint64_t bell_tag = std::uint64_t{1} << 40;
constexpr std::uint64_t process_tag = std::uint64_t{1} << 41;
/// How long who leads looks at streams before it sleeps: somewhat more than to sleep and be woken
/// costs.
constexpr Duration patience = std::chrono::microseconds(50);
/// Nor does it look at nothing else for longer.
constexpr Duration longest_unseen = std::chrono::milliseconds(1);
constexpr Duration between_silences = std::chrono::seconds(1);

Descriptor process_of(int pid) {
  if (pid <= 0 || pid == ::getpid()) return {};
  return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

/// The kernel closes what a process has open somewhat before it says that the process has ended.
bool ends_soon(const Descriptor& process) {
  constexpr int milliseconds = 10;
  pollfd end{.fd = process.number(), .events = POLLIN, .revents = 0};
  return ::poll(&end, 1, milliseconds) > 0;
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

void Engine::add_link(int rank, Descriptor socket, int pid, const LinkLimits& limits, int stream) {
  Neighbour& neighbour = neighbours_[rank];
  neighbour.pid = pid;
  neighbour.process = process_of(pid);
  const auto tag = static_cast<std::uint64_t>(rank);
  if (neighbour.process)
    watch_readable(poll_.number(), neighbour.process.number(), process_tag | tag);
  neighbour.link = std::make_unique<Link>(std::move(socket), poll_.number(), tag, limits,
                                          stream < 0 ? nullptr : &streams_->with(stream));
  has_plain_links_ = has_plain_links_ || stream < 0;
}

void Engine::start() {
  forks_.emplace([this] { close_in_child(); });
  Lock lock(mutex_);
  if (!call_helper(lock)) throw ResourceError("an agent cannot start its first thread");
}

/// Else others would not see the end of this process for as long as the child lives.
void Engine::close_in_child() {
  for (auto& [rank, neighbour] : neighbours_) neighbour.link->close_in_child();
}

Link* Engine::link(int rank) {
  const auto found = neighbours_.find(rank);
  return found == neighbours_.end() ? nullptr : found->second.link.get();
}

std::size_t Engine::threads() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

/// Streams first, awake for a while; then asleep, until something tells by a descriptor.
std::vector<Engine::Arrival> Engine::poll(TimePoint next) {
  if (next == TimePoint{}) return glance();
  std::vector<Arrival> arrivals;
  if (streams_ && streams_->await(is_rung_, patience)) {
    look_at_streams(arrivals);
    const TimePoint now = std::chrono::steady_clock::now();
    if (now - sockets_seen_ >= (has_plain_links_ ? patience : longest_unseen))
      look_at_sockets(now, arrivals);
  } else {
    sleep(next, arrivals);
  }
  // Whoever rings later is heard next time: what it rings for is looked at after this.
  is_rung_ = false;
  wakes_at_ = 0;  // until deadlines are looked at again
  return arrivals;
}

/// What is there, without waiting for more: between jobs. Who rings is heard by the next poll.
std::vector<Engine::Arrival> Engine::glance() {
  std::vector<Arrival> arrivals;
  if (streams_) look_at_streams(arrivals);
  look_at_sockets(TimePoint{}, arrivals);
  wakes_at_ = 0;
  return arrivals;
}

void Engine::look_at_streams(std::vector<Arrival>& arrivals) {
  for (const auto& [rank, neighbour] : neighbours_)
    if (neighbour.link->has_stream())
      take(rank, arrivals, [](Link& link, std::vector<Message>& messages) {
        link.look_at_stream(messages);
        return true;
      });
}

void Engine::sleep(TimePoint until, std::vector<Arrival>& arrivals) {
  const struct Waking {
    Engine& engine;
    ~Waking() {
      if (engine.streams_) engine.streams_->end_sleep();
      engine.is_asleep_ = false;
    }
  } waking{*this};
  is_asleep_ = true;
  const bool may_sleep = (!streams_ || streams_->begin_sleep()) && !is_rung_;
  look_at_sockets(may_sleep ? until : TimePoint{}, arrivals);
}

void Engine::look_at_sockets(TimePoint next, std::vector<Arrival>& arrivals) {
  const TimePoint now = sockets_seen_ = std::chrono::steady_clock::now();
  const TimePoint until = std::min(next, now + longest_sleep);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(poll_.number(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(std::max<std::int64_t>(left, 0)));
  look_for_silence(now, arrivals);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const std::uint64_t tag = event.data.u64;
    const int rank = static_cast<int>(tag & 0xffffffff);
    if ((tag & bell_tag) != 0) {
      std::uint64_t rings = 0;
      (void)!::read(bell_.number(), &rings, sizeof(rings));
    } else if ((tag & process_tag) != 0) {
      // What it has still sent comes first.
      read(rank, arrivals, true);
      lose(rank, words_of_end(how_it_ended(neighbours_[rank].pid)), arrivals);
    } else {
      if ((event.events & EPOLLOUT) != 0) link(rank)->flush();
      if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) read(rank, arrivals);
    }
  }
}

/// Of hosts whose end nothing else shows.
void Engine::look_for_silence(TimePoint now, std::vector<Arrival>& arrivals) {
  if (now - silence_seen_ < between_silences) return;
  silence_seen_ = now;
  for (const auto& [rank, neighbour] : neighbours_)
    if (!neighbour.is_lost && neighbour.link->is_silent(now))
      lose(rank, "its host has acknowledged nothing for 10 s", arrivals);
}

void Engine::read(int rank, std::vector<Arrival>& arrivals, bool all) {
  take(rank, arrivals,
       [all](Link& link, std::vector<Message>& messages) { return link.read(messages, all); });
}

/// `take` adds messages of the link, and tells whether more may come.
void Engine::take(int rank, std::vector<Arrival>& arrivals, const Take& take) {
  Neighbour& neighbour = neighbours_[rank];
  if (neighbour.is_lost || !neighbour.link->is_open()) return;
  std::vector<Message> messages;
  std::string why;
  try {
    if (!take(*neighbour.link, messages)) why = "it has closed the connection";
  } catch (const Error& error) {
    why = error.problem();
  } catch (const std::exception& error) {
    why = fmt::format("what it sends cannot be taken: {}", error.what());
  }
  for (Message& message : messages) {
    const MessageKind kind = message.head.kind;
    if (kind == MessageKind::goodbye || kind == MessageKind::abort) neighbour.has_left = true;
    arrivals.push_back({rank, false, {}, std::move(message)});
  }
  if (!why.empty()) lose(rank, std::move(why), arrivals);
}

void Engine::lose(int rank, std::string why, std::vector<Arrival>& arrivals) {
  Neighbour& neighbour = neighbours_[rank];
  if (neighbour.process)
    ::epoll_ctl(poll_.number(), EPOLL_CTL_DEL, neighbour.process.number(), nullptr);
  if (std::exchange(neighbour.is_lost, true)) return neighbour.link->close();
  const std::string given_up = neighbour.link->why_given_up();
  // A connection that ends mostly does so because its process has: that says more.
  if (neighbour.process && !neighbour.has_left && ends_soon(neighbour.process))
    why = words_of_end(how_it_ended(neighbour.pid));
  else if (!given_up.empty())
    why = given_up;
  neighbour.link->close();
  arrivals.push_back({rank, true, std::move(why), {}});
}

void Engine::note_deadline(TimePoint when) {
  const TimePoint::rep wakes_at = wakes_at_;
  if (wakes_at != 0 && when.time_since_epoch().count() < wakes_at) wake_poll();
}

void Engine::wake_poll() {
  is_rung_ = true;
  if (!is_asleep_) return;
  const std::uint64_t one = 1;
  (void)!::write(bell_.number(), &one, sizeof(one));
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
