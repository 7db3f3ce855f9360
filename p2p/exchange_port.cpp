#include "p2p/exchange_port.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <ranges>
#include <set>
#include <span>

#include "p2p/lost_message.hpp"

namespace hymn {
namespace {

/// A receive that waits for its message.
struct Posted {
  int peer;
  MessageTag tag;
  BufferView view;
  std::uint64_t number = 0;  ///< in the order in which they were posted
  bool complete = false;
  std::size_t bytes = 0;  ///< of what has come
  RecvStatus status{};
  std::exception_ptr error{};
};

/// What all transfers of one group share. Receives match in the order in which they were posted.
class Route {
 public:
  Route(std::shared_ptr<Exchange> exchange, std::vector<int> ranks,
        std::function<void(std::size_t)> drop)
      : exchange_(std::move(exchange)), ranks_(std::move(ranks)), drop_(std::move(drop)) {}
  Route(const Route&) = delete;
  Route& operator=(const Route&) = delete;
  ~Route() {
    if (drop_ && !kept_.empty()) drop_(kept_.size());
  }

  std::uint64_t send(int peer, MessageTag tag, const ConstBufferView& view) {
    const auto* bytes = static_cast<const std::byte*>(view.data);
    return exchange_->send_numbered(exchange_rank(peer), exchange_tag(tag), {bytes, view.bytes()});
  }
  bool has_left(std::uint64_t message) { return exchange_->has_left(message); }
  void post(const std::shared_ptr<Posted>& receive) {
    std::lock_guard lock(mutex_);
    receive->number = next_++;
    posted_[queue_of(*receive)].push_back(receive);
  }
  /// Afterwards nothing writes to their buffers. What has come for them unnoticed is kept for those
  /// who ask for it next. False: there is no memory for that, so that it is lost.
  bool withdraw(std::span<const std::shared_ptr<Posted>> receives) noexcept {
    std::lock_guard lock(mutex_);
    for (const auto& receive : receives) remove(receive);
    bool all = true;
    for (const auto& receive : receives | std::views::reverse) all = put_back(*receive) && all;
    return all;
  }
  /// As MessagePort::probe(). What waits has been taken from the exchange, which cannot be looked
  /// into, and is kept here.
  std::optional<RecvStatus> probe(int peer, MessageTag tag) {
    std::lock_guard lock(mutex_);
    const std::uint64_t wanted = exchange_tag(tag);
    match_in_order(wanted);
    if (find_kept(peer, wanted) == kept_.end()) {
      auto message = exchange_->try_receive(exchange_rank(peer), wanted);
      if (!message) return std::nullopt;
      kept_.push_back({wanted, std::move(*message)});
      match_in_order(wanted);  // a receive may have waited for just this one
    }
    const auto found = find_kept(peer, wanted);
    if (found == kept_.end()) return std::nullopt;
    return RecvStatus{.source = member_of(found->message.source),
                      .tag = static_cast<int>(tag.value),
                      .count = found->message.bytes.size()};
  }
  /// Gives the messages that have come to `mine`, and to those that were posted before them and
  /// match the same; then, when all of `mine` have been completed, forgets them, tells the status
  /// of the last, and returns true. Throws the error of one that has failed.
  bool poll(std::vector<std::shared_ptr<Posted>>& mine, RecvStatus& status) {
    std::lock_guard lock(mutex_);
    for (const auto& receive : mine)
      if (!receive->complete) match(*receive);
    for (const auto& receive : mine) {
      if (receive->error) std::rethrow_exception(receive->error);
      if (!receive->complete) return false;
    }
    if (!mine.empty()) status = mine.back()->status;
    mine.clear();
    return true;
  }

 private:
  struct Kept {
    std::uint64_t tag;
    ExchangeMessage message;
  };
  using Queues = std::map<std::pair<std::uint64_t, int>, std::deque<std::shared_ptr<Posted>>>;

  static std::pair<std::uint64_t, int> queue_of(const Posted& receive) {
    return {exchange_tag(receive.tag), receive.peer};
  }
  void match(const Posted& wanted) {
    const std::uint64_t tag = exchange_tag(wanted.tag);
    if (posted_.contains({tag, any_source})) return match_in_order(tag);
    while (!wanted.complete) {
      const std::shared_ptr<Posted> first = posted_.at(queue_of(wanted)).front();
      if (!take(first)) return;
    }
  }
  // A message may be for one of two, the one that names its sender and the one that takes any: who
  // waits in vain keeps back those behind it that match the same.
  void match_in_order(std::uint64_t tag) {
    std::vector<std::shared_ptr<Posted>> all;
    for (auto queue = posted_.lower_bound({tag, any_source});
         queue != posted_.end() && queue->first.first == tag; ++queue)
      all.insert(all.end(), queue->second.begin(), queue->second.end());
    std::ranges::sort(all, {}, [](const auto& posted) { return posted->number; });
    std::set<int> empty_handed;
    for (const auto& posted : all) {
      const bool must_queue = empty_handed.contains(posted->peer) ||
                              empty_handed.contains(any_source) ||
                              (posted->peer == any_source && !empty_handed.empty());
      if (!must_queue && !take(posted)) empty_handed.insert(posted->peer);
    }
  }
  /// False: its message has not come.
  bool take(const std::shared_ptr<Posted>& posted) {
    const auto message = take_message(posted->peer, exchange_tag(posted->tag));
    if (!message) return false;
    complete(*posted, *message);
    remove(posted);
    return true;
  }
  /// What has been kept came before what the exchange has.
  std::optional<ExchangeMessage> take_message(int peer, std::uint64_t tag) {
    const auto kept = find_kept(peer, tag);
    if (kept == kept_.end()) return exchange_->try_receive(exchange_rank(peer), tag);
    ExchangeMessage message = std::move(kept->message);
    kept_.erase(kept);
    return message;
  }
  std::deque<Kept>::iterator find_kept(int peer, std::uint64_t tag) {
    return std::ranges::find_if(kept_, [&](const Kept& kept) {
      return kept.tag == tag && (peer == any_source || kept.message.source == exchange_rank(peer));
    });
  }
  /// Before all others, for it has come before them.
  bool put_back(const Posted& receive) noexcept {
    if (!receive.complete || receive.error || !receive.tag.user) return true;
    const auto* data = static_cast<const std::byte*>(receive.view.data);
    try {
      kept_.push_front({exchange_tag(receive.tag),
                        {exchange_rank(receive.status.source), {data, data + receive.bytes}}});
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }
  void remove(const std::shared_ptr<Posted>& posted) {
    const auto queue = posted_.find(queue_of(*posted));
    if (queue == posted_.end()) return;
    std::erase(queue->second, posted);
    if (queue->second.empty()) posted_.erase(queue);
  }
  static std::uint64_t exchange_tag(MessageTag tag) {
    return (tag.user ? group_tags::of_user : group_tags::of_collectives) | tag.packed(56);
  }
  int exchange_rank(int peer) const {
    return peer == any_source ? Exchange::from_anyone : ranks_[static_cast<std::size_t>(peer)];
  }
  int member_of(int rank) const {
    return static_cast<int>(std::ranges::find(ranks_, rank) - ranks_.begin());
  }
  void complete(Posted& receive, const ExchangeMessage& message) const {
    receive.complete = true;
    receive.bytes = message.bytes.size();
    // Whoever takes part in a collective knows how much comes.
    if (!receive.tag.user && message.bytes.size() < receive.view.bytes()) {
      receive.error = std::make_exception_ptr(short_message(
          fmt::format("rank {}", message.source), message.bytes.size(), receive.view.bytes()));
      return;
    }
    if (message.bytes.size() > receive.view.bytes()) {
      receive.error = std::make_exception_ptr(
          UsageError(fmt::format("rank {} sent {} bytes to a buffer of {} bytes", message.source,
                                 message.bytes.size(), receive.view.bytes()),
                     {.remedy = "give the same count and dtype on both sides"}));
      return;
    }
    if (!message.bytes.empty())
      std::memcpy(receive.view.data, message.bytes.data(), message.bytes.size());
    receive.status = {
        .source = member_of(message.source),
        .tag = static_cast<int>(receive.tag.value),
        .count = message.bytes.size() / std::max<std::size_t>(receive.view.element_bytes(), 1)};
  }

  std::shared_ptr<Exchange> exchange_;
  std::vector<int> ranks_;
  std::function<void(std::size_t)> drop_;
  std::mutex mutex_;
  std::uint64_t next_ = 0;
  std::deque<Kept> kept_;  ///< what a probe has found, or a receive has left
  Queues posted_;          ///< by tag and sender; none of them empty
};

class ExchangeTransfers final : public Transfers {
 public:
  explicit ExchangeTransfers(std::shared_ptr<Route> route) : route_(std::move(route)) {}
  ~ExchangeTransfers() override { withdraw(); }

  void send(int peer, MessageTag tag, const ConstBufferView& view) override {
    sent_.push_back(route_->send(peer, tag, view));
  }
  void recv(int peer, MessageTag tag, const BufferView& view) override {
    mine_.push_back(std::make_shared<Posted>(Posted{peer, tag, view}));
    route_->post(mine_.back());
  }
  bool test() override {
    if (!mine_.empty() && !route_->poll(mine_, status_)) return false;
    std::erase_if(sent_, [this](std::uint64_t message) { return route_->has_left(message); });
    return sent_.empty();
  }
  RecvStatus status() const override { return status_; }
  std::unique_ptr<AbandonedOperation> abandon(const std::string&) noexcept override {
    const bool clean = withdraw() && has_all_left();
    return clean ? nullptr : std::make_unique<LostMessage>();
  }

 private:
  /// What the exchange has taken it will send, sooner or later.
  bool has_all_left() noexcept {
    try {
      return std::ranges::all_of(
          sent_, [this](std::uint64_t message) { return route_->has_left(message); });
    } catch (const std::exception&) {
      return false;
    }
  }
  bool withdraw() noexcept {
    const bool clean = route_->withdraw(mine_);
    mine_.clear();
    return clean;
  }

  std::shared_ptr<Route> route_;
  std::vector<std::shared_ptr<Posted>> mine_;
  std::vector<std::uint64_t> sent_;  ///< what may still need this rank's calls
  RecvStatus status_;
};

class ExchangePort final : public MessagePort {
 public:
  explicit ExchangePort(std::shared_ptr<Route> route) : route_(std::move(route)) {}

  Verdict can_carry(const Request& request) const override { return can_move_bytes(request); }
  std::unique_ptr<Transfers> open() override { return std::make_unique<ExchangeTransfers>(route_); }
  std::optional<RecvStatus> probe(int peer, MessageTag tag) override {
    return route_->probe(peer, tag);
  }

 private:
  std::shared_ptr<Route> route_;
};

}  // namespace

std::shared_ptr<MessagePort> make_exchange_port(std::shared_ptr<Exchange> exchange,
                                                std::vector<int> ranks,
                                                std::function<void(std::size_t)> drop) {
  return std::make_shared<ExchangePort>(
      std::make_shared<Route>(std::move(exchange), std::move(ranks), std::move(drop)));
}

}  // namespace hymn
