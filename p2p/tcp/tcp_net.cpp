#include "p2p/tcp/tcp_net.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <thread>

#include "hymn/error.hpp"
#include "hymn/request.hpp"

namespace hymn::tcp {
namespace {

constexpr std::size_t scratch_bytes = std::size_t{64} << 10;

thread_local bool is_resting_here = false;

/// More streams than one are done without where they would take the descriptors of connections to
/// other ranks, or of all else.
Limits affordable(Limits limits, int size, const Logger& logger) {
  limits.streams = std::clamp(limits.streams, std::uint64_t{1}, most_streams);
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return limits;
  constexpr std::uint64_t spare = Net::most_strangers + 64;
  const std::uint64_t left = files.rlim_cur > spare ? files.rlim_cur - spare : 0;
  const std::uint64_t most =
      std::max(std::uint64_t{1}, left / static_cast<std::uint64_t>(std::max(size - 1, 1)));
  if (most >= limits.streams) return limits;
  logger.info(
      fmt::format("{} streams to each of {} ranks would take too many descriptors: there are {} "
                  "(ulimit -n), which is enough for {} streams",
                  limits.streams, size - 1, files.rlim_cur, most));
  limits.streams = most;
  return limits;
}

}  // namespace

Net::Net(int rank, int size, Logger logger, Limits limits)
    : logger_(logger),
      nonce_(random_nonce()),
      site_{.rank = rank,
            .limits = affordable(limits, size, logger),
            .finish = [this](Sending& message) { finish(message); },
            .logger = logger},
      scratch_(scratch_bytes),
      forks_([this] { close_in_child(); }) {
  Sorter& sorter = *this;
  for (int peer = 0; peer < size; ++peer) {
    links_.push_back(std::make_unique<Link>(peer, site_, poller_, sorter));
  }
}

Net::~Net() = default;

void Net::set_token(const Token& token) {
  const std::lock_guard lock(mutex_);
  site_.token = token;
}

void Net::introduce(int rank, const Address& address, const Nonce& nonce) {
  const std::lock_guard lock(mutex_);
  if (!link(rank).is_introduced()) link(rank).introduce(address, nonce);
}

bool Net::knows(int rank) const {
  const std::lock_guard lock(mutex_);
  return link(rank).is_introduced();
}

bool Net::has_heard(int rank) const {
  const std::lock_guard lock(mutex_);
  return link(rank).has_heard();
}

// --- Groups ---

void Net::open(std::uint64_t group) {
  const std::lock_guard lock(mutex_);
  auto& box = boxes_[group];
  if (!box) box = make_mailbox();
  awaited_.erase(group);
}

std::unique_ptr<Mailbox> Net::make_mailbox() {
  Post& post = *this;
  return std::make_unique<Mailbox>(post);
}

void Net::close(std::uint64_t group) {
  const std::lock_guard lock(mutex_);
  awaited_.erase(group);
  end_box(group);
}

void Net::end_box(std::uint64_t group) {
  ended_.add(group);
  const auto found = boxes_.find(group);
  if (found == boxes_.end()) return;
  drop(found->second->close(), group);
  boxes_.erase(found);
}

void Net::drop(std::size_t messages, std::uint64_t group) {
  if (messages == 0) return;
  dropped_.fetch_add(messages, std::memory_order_relaxed);
  logger_.debug(fmt::format("{} message(s) dropped: group {} has ended without receiving them",
                            messages, group));
}

bool Net::sort(const std::shared_ptr<Incoming>& message) {
  auto found = boxes_.find(message->group);
  if (found == boxes_.end()) {
    if (ended_.contains(message->group)) {
      drop(1, message->group);
      return false;
    }
    // A member may send before this rank has made the group.
    if (awaited_.size() == most_awaited) {
      const std::uint64_t oldest = awaited_.begin()->first;
      awaited_.erase(oldest);
      end_box(oldest);
    }
    awaited_.try_emplace(message->group, {});
    found = boxes_.emplace(message->group, make_mailbox()).first;
  }
  found->second->arrive(message);
  return true;
}

// --- Messages ---

void Net::start(Sending& message) {
  const std::lock_guard lock(mutex_);
  link(message.to).start(message);
}

void Net::start(std::uint64_t group, Receiving& receive) {
  const std::lock_guard lock(mutex_);
  const auto found = boxes_.find(group);
  if (found == boxes_.end())
    throw UsageError("the group has ended: nothing can be received in it any more");
  found->second->post(receive);
}

bool Net::withdraw(Sending& message) noexcept {
  const std::lock_guard lock(mutex_);
  return message.done.load(std::memory_order_relaxed) || link(message.to).withdraw(message);
}

bool Net::withdraw(std::uint64_t group, Receiving& receive, bool keep) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = boxes_.find(group);
  if (found == boxes_.end()) return true;
  if (receive.done.load(std::memory_order_relaxed))
    return !keep || found->second->put_back(receive);
  return found->second->withdraw(receive, keep);
}

std::optional<Net::Found> Net::probe(std::uint64_t group, int from, std::uint64_t tag) {
  const std::lock_guard lock(mutex_);
  move();
  const auto box = boxes_.find(group);
  if (box == boxes_.end()) return std::nullopt;
  const Incoming* const message = box->second->probe(from, tag);
  if (message == nullptr) return std::nullopt;
  return Found{message->source, message->bytes};
}

void Net::finish(Receiving& receive) {
  receive.done.store(true, std::memory_order_release);
  wake();
}

void Net::finish(Sending& message) {
  message.done.store(true, std::memory_order_release);
  wake();
}

// Who is awake looks itself.
void Net::wake() {
  if (resting_.load() > (is_resting_here ? 1 : 0)) poller_.wake();
}

Net::Rest::Rest(Net& net) : net_(net) {
  net_.resting_.fetch_add(1);
  is_resting_here = true;
}

Net::Rest::~Rest() {
  is_resting_here = false;
  if (net_.resting_.fetch_sub(1) == 1) net_.poller_.forget_wake();
}

// --- Moving ---

void Net::turn() {
  const std::lock_guard lock(mutex_);
  move();
}

// What has come by a link goes before who connects anew, which may end that link's connection.
void Net::move() {
  const std::span<const Ready> all = poller_.look();
  for (const Ready& ready : all) {
    if (ready.owner == Owner::link)
      link(static_cast<int>(ready.number)).on_event(ready.events, scratch_);
    if (ready.owner == Owner::stream)
      link(static_cast<int>(ready.number / most_streams))
          .on_event_of(ready.number % most_streams, ready.events, scratch_);
  }
  for (const Ready& ready : all) {
    switch (ready.owner) {
      case Owner::listener:
        accept();
        break;
      case Owner::guest:
        hear(ready.number);
        break;
      case Owner::waker:
      case Owner::link:
      case Owner::stream:
        break;
    }
  }
  const TimePoint now = std::chrono::steady_clock::now();
  if (now >= next_look_) look_after(now);
}

void Net::look_after(TimePoint now) {
  constexpr Duration between_looks = std::chrono::milliseconds(10);
  next_look_ = now + between_looks;
  bool failed = is_deaf(now);
  for (const auto& one : links_) {
    if (one->is_restless()) one->look_after(now);
    failed = failed || one->is_lost(now);
  }
  forget_guests(now);
  has_failures_.store(failed, std::memory_order_relaxed);
}

bool Net::is_deaf(TimePoint now) const {
  return deaf_since_ && now - *deaf_since_ > site_.limits.patience;
}

void Net::look_whether_failed(int rank) {
  const std::lock_guard lock(mutex_);
  const TimePoint now = std::chrono::steady_clock::now();
  if (is_deaf(now))
    throw ResourceError("no descriptors are left for those who connect to this rank",
                        {.remedy = "raise the limit of open files (ulimit -n)"});
  if (rank != any_source && link(rank).is_lost(now)) std::rethrow_exception(link(rank).error());
}

std::vector<int> Net::away() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank)
    if (rank != site_.rank && !link(rank).is_up() && !link(rank).is_dead()) ranks.push_back(rank);
  return ranks;
}

void Net::note_dead(int rank) {
  const std::lock_guard lock(mutex_);
  link(rank).note_dead(std::chrono::steady_clock::now());
}

bool Net::is_troubled() const {
  const std::lock_guard lock(mutex_);
  const TimePoint now = std::chrono::steady_clock::now();
  return std::ranges::any_of(links_, [now](const auto& one) { return one->is_troubled(now); });
}

std::string Net::trouble_with(int rank) const {
  const std::lock_guard lock(mutex_);
  return link(rank).trouble(std::chrono::steady_clock::now());
}

// --- The end ---

void Net::shut_down(Duration limit) {
  const TimePoint until = std::chrono::steady_clock::now() + limit;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      const bool drained =
          std::ranges::all_of(links_, [](const auto& one) { return one->is_drained(); });
      if (drained || std::chrono::steady_clock::now() >= until) break;
      move();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  const std::lock_guard lock(mutex_);
  for (const auto& one : links_) one->close();
  guests_.clear();
  listener_ = {};
}

// Its parent goes on with them; but the other ends must see when the parent ends.
void Net::close_in_child() {
  for (const auto& one : links_) one->close_in_child();
  for (auto& [number, guest] : guests_) guest.socket = {};
  listener_ = {};
  poller_.close();
}

std::uint64_t Net::streams_to(int rank) const {
  const std::lock_guard lock(mutex_);
  return link(rank).streams();
}

void Net::cut(int rank, std::uint64_t stream) {
  const std::lock_guard lock(mutex_);
  link(rank).cut(stream);
}

}  // namespace hymn::tcp
