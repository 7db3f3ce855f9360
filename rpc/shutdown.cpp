#include "rpc/shutdown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "hymn/error.hpp"
#include "rpc/engine.hpp"

namespace hymn::rpc::detail {
namespace {

constexpr Duration between_looks = std::chrono::milliseconds(20);

std::unique_ptr<std::atomic<std::uint64_t>[]> zeros(int size) {
  return std::make_unique<std::atomic<std::uint64_t>[]>(static_cast<std::size_t>(size));
}

Message about_shutdown(MessageKind kind, std::uint64_t round) {
  Message message;
  message.head.kind = kind;
  message.head.call = round;
  return message;
}

}  // namespace

Shutdown::Shutdown(int rank, int size, Post post, std::function<bool()> is_idle)
    : rank_(rank),
      size_(size),
      post_(std::move(post)),
      is_idle_(std::move(is_idle)),
      made_(zeros(size)),
      served_(zeros(size)),
      gone_(static_cast<std::size_t>(size)) {}

void Shutdown::note_served(int rank) {
  ++served_[static_cast<std::size_t>(rank)];
  --serving_;
  look();
}

bool Shutdown::is_quiet() const { return has_come_ && serving_ == 0 && is_idle_(); }

void Shutdown::look() {
  if (!is_attentive_) return;
  std::optional<std::pair<int, std::uint64_t>> asked;
  {
    const std::lock_guard lock(mutex_);
    if (asked_ && is_quiet()) asked.swap(asked_);
    is_attentive_ = asked_.has_value() || is_in_round_;
  }
  changed_.notify_all();
  if (asked) tell(asked->first, asked->second);
}

CallCounts Shutdown::counts() const {
  CallCounts counts;
  for (int i = 0; i < size_; ++i) {
    counts.made.push_back(made_[static_cast<std::size_t>(i)]);
    counts.served.push_back(served_[static_cast<std::size_t>(i)]);
  }
  return counts;
}

void Shutdown::tell(int to, std::uint64_t round) {
  Message message = about_shutdown(MessageKind::shutdown_tell, round);
  message.packed = pack(counts());
  post_(to, std::move(message));
}

void Shutdown::take(int from, Message& message) {
  {
    const std::lock_guard lock(mutex_);
    if (message.head.kind == MessageKind::shutdown_ask) {
      asked_ = {from, message.head.call};
      is_attentive_ = true;
    } else if (message.head.kind == MessageKind::shutdown_done) {
      done_ = true;
    } else if (message.head.kind == MessageKind::shutdown_come) {
      if (message.head.call != 0)
        come_.insert(from);
      else
        come_.erase(from);
    } else if (message.head.call == round_) {
      CallCounts told;
      unpack(message.packed, told);
      const auto size = static_cast<std::size_t>(size_);
      if (told.made.size() == size && told.served.size() == size) told_[from] = std::move(told);
    }
  }
  changed_.notify_all();
  look();
}

void Shutdown::lose(int rank) {
  {
    const std::lock_guard lock(mutex_);
    gone_[static_cast<std::size_t>(rank)] = true;
  }
  changed_.notify_all();
}

void Shutdown::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

int Shutdown::leader() const {
  for (int rank = 0; rank < rank_; ++rank)
    if (!gone_[static_cast<std::size_t>(rank)]) return rank;
  return rank_;
}

std::vector<int> Shutdown::living() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_ && !gone_[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
  return ranks;
}

void Shutdown::wait(Lock& lock, Deadline deadline, const std::function<bool()>& until) {
  const WaitScope scope;
  while (!until() && !stopped_ && !deadline.expired(std::chrono::steady_clock::now()))
    changed_.wait_for(lock, between_looks);
}

void Shutdown::run(Deadline deadline) {
  announce(true);
  look();
  try {
    agree(deadline);
  } catch (...) {
    announce(false);
    throw;
  }
}

void Shutdown::agree(Deadline deadline) {
  // Nothing is sent under the lock.
  for (const int rank : led_to_the_end(deadline))
    post_(rank, about_shutdown(MessageKind::shutdown_done, 0));
}

std::vector<int> Shutdown::led_to_the_end(Deadline deadline) {
  Lock lock(mutex_);
  // Under the lock, and also where it ends with an error.
  const struct RoundEnd {
    bool& is_in_round;
    ~RoundEnd() { is_in_round = false; }
  } round_end{is_in_round_};
  std::optional<std::map<int, CallCounts>> before;
  const auto expired = [&] { return deadline.expired(std::chrono::steady_clock::now()); };
  while (!done_ && !stopped_) {
    if (expired()) throw too_late(missing());
    if (leader() != rank_) {
      wait(lock, deadline, [&] { return done_ || leader() == rank_; });
    } else if (round(lock, deadline)) {
      const bool is_same = before == told_;
      before = told_;
      done_ = is_same && is_balanced();
    }
  }
  if (stopped_ || leader() != rank_) return {};
  return living();
}

/// Who lives and has not come, as far as this worker has heard.
std::vector<int> Shutdown::missing() const {
  std::vector<int> ranks;
  for (const int rank : living())
    if (!come_.contains(rank)) ranks.push_back(rank);
  return ranks;
}

TimeoutError Shutdown::too_late(const std::vector<int>& ranks) const {
  const std::string what =
      ranks.empty() ? std::string("all have come to shutdown(), but calls are in flight")
                    : fmt::format("ranks {} have not come to shutdown(), or wait for calls",
                                  fmt::join(ranks, ", "));
  return TimeoutError(what, Duration{0},
                      {.rank = rank_,
                       .operation = "shutdown",
                       .remedy = "let all workers call shutdown(), and give it the time that calls "
                                 "in flight need; it may be called again",
                       .missing = ranks});
}

/// Tells all others that this worker waits for the end, or no longer.
void Shutdown::announce(bool has_come) {
  has_come_ = has_come;
  std::vector<int> others;
  {
    const std::lock_guard lock(mutex_);
    others = living();
  }
  for (const int rank : others)
    post_(rank, about_shutdown(MessageKind::shutdown_come, has_come ? 1 : 0));
}

/// Asks all, and waits. False: somebody has gone meanwhile.
bool Shutdown::round(Lock& lock, Deadline deadline) {
  const std::vector<int> others = living();
  const std::uint64_t number = ++round_;
  told_.clear();
  is_attentive_ = is_in_round_ = true;
  lock.unlock();
  for (const int rank : others) post_(rank, about_shutdown(MessageKind::shutdown_ask, number));
  lock.lock();
  const auto untold = [&] {
    std::vector<int> ranks;
    for (const int rank : living())
      if (!told_.contains(rank)) ranks.push_back(rank);
    if (!is_quiet()) ranks.push_back(rank_);
    return ranks;
  };
  wait(lock, deadline, [&] { return untold().empty(); });
  if (stopped_) return false;
  if (const auto ranks = untold(); !ranks.empty()) throw too_late(ranks);
  told_[rank_] = counts();
  return others == living();
}

bool Shutdown::is_balanced() const {
  std::vector<int> ranks = living();
  ranks.push_back(rank_);
  for (const int maker : ranks)
    for (const int server : ranks)
      if (told_.at(maker).made[static_cast<std::size_t>(server)] !=
          told_.at(server).served[static_cast<std::size_t>(maker)])
        return false;
  return true;
}

}  // namespace hymn::rpc::detail
