#include "collectives/pairwise/exchange_port.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <mutex>

namespace hymn {
namespace {

/// A receive that waits for its message.
struct Posted {
  int peer;
  MessageTag tag;
  BufferView view;
  bool complete = false;
  RecvStatus status{};
  std::exception_ptr error{};

  /// Whether one message could match both.
  bool competes_with(const Posted& other) const {
    const bool same_tag = tag.user == other.tag.user && tag.value == other.tag.value;
    return same_tag && (peer == other.peer || peer == any_source || other.peer == any_source);
  }
};

/// What all transfers of one group share. Receives match in the order in which they were posted.
class Route {
 public:
  Route(std::shared_ptr<Exchange> exchange, std::vector<int> ranks)
      : exchange_(std::move(exchange)), ranks_(std::move(ranks)) {}

  void send(int peer, MessageTag tag, const ConstBufferView& view) {
    const auto* bytes = static_cast<const std::byte*>(view.data);
    exchange_->send(exchange_rank(peer), exchange_tag(tag), {bytes, view.bytes()});
  }
  bool has_left(int peer, MessageTag tag) {
    return exchange_->has_left(exchange_rank(peer), exchange_tag(tag));
  }
  void post(const std::shared_ptr<Posted>& receive) {
    std::lock_guard lock(mutex_);
    posted_.push_back(receive);
  }
  void withdraw(const std::shared_ptr<Posted>& receive) {
    std::lock_guard lock(mutex_);
    std::erase(posted_, receive);
  }
  /// Gives the messages that have come to the receives they match; then, when all of `mine` have
  /// been completed, forgets them, tells the status of the last, and returns true. Throws the error
  /// of one that has failed.
  bool poll(std::vector<std::shared_ptr<Posted>>& mine, RecvStatus& status) {
    std::lock_guard lock(mutex_);
    match();
    for (const auto& receive : mine) {
      if (receive->error) std::rethrow_exception(receive->error);
      if (!receive->complete) return false;
    }
    if (!mine.empty()) status = mine.back()->status;
    mine.clear();
    return true;
  }

 private:
  void match() {
    std::vector<const Posted*> empty_handed;
    for (const auto& receive : posted_) {
      const bool must_queue =
          std::any_of(empty_handed.begin(), empty_handed.end(),
                      [&](const Posted* earlier) { return earlier->competes_with(*receive); });
      if (must_queue) continue;
      if (auto message =
              exchange_->try_receive(exchange_rank(receive->peer), exchange_tag(receive->tag)))
        complete(*receive, *message);
      else
        empty_handed.push_back(receive.get());
    }
    std::erase_if(posted_, [](const auto& receive) { return receive->complete; });
  }
  static std::uint64_t exchange_tag(MessageTag tag) {
    return (tag.user ? group_tags::of_user : group_tags::of_collectives) | tag.packed(56);
  }
  int exchange_rank(int peer) const {
    return peer == any_source ? Exchange::from_anyone : ranks_[static_cast<std::size_t>(peer)];
  }
  void complete(Posted& receive, const ExchangeMessage& message) const {
    receive.complete = true;
    if (message.bytes.size() > receive.view.bytes()) {
      receive.error = std::make_exception_ptr(
          UsageError(fmt::format("rank {} sent {} bytes to a buffer of {} bytes", message.source,
                                 message.bytes.size(), receive.view.bytes()),
                     {.remedy = "give the same count and dtype on both sides"}));
      return;
    }
    if (!message.bytes.empty())
      std::memcpy(receive.view.data, message.bytes.data(), message.bytes.size());
    const auto source = std::lower_bound(ranks_.begin(), ranks_.end(), message.source);
    receive.status = {
        .source = static_cast<int>(source - ranks_.begin()),
        .tag = static_cast<int>(receive.tag.value),
        .count = message.bytes.size() / std::max<std::size_t>(receive.view.element_bytes(), 1)};
  }

  std::shared_ptr<Exchange> exchange_;
  std::vector<int> ranks_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Posted>> posted_;
};

class ExchangeTransfers final : public Transfers {
 public:
  explicit ExchangeTransfers(std::shared_ptr<Route> route) : route_(std::move(route)) {}
  ~ExchangeTransfers() override { withdraw(); }

  void send(int peer, MessageTag tag, const ConstBufferView& view) override {
    route_->send(peer, tag, view);
    sent_.emplace_back(peer, tag);
  }
  void recv(int peer, MessageTag tag, const BufferView& view) override {
    mine_.push_back(std::make_shared<Posted>(Posted{peer, tag, view}));
    route_->post(mine_.back());
  }
  bool test() override {
    if (!mine_.empty() && !route_->poll(mine_, status_)) return false;
    std::erase_if(sent_,
                  [this](const auto& sent) { return route_->has_left(sent.first, sent.second); });
    return sent_.empty();
  }
  RecvStatus status() const override { return status_; }
  std::unique_ptr<Residue> abandon(const std::string&) noexcept override {
    withdraw();  // afterwards nothing writes to the buffers
    return nullptr;
  }

 private:
  void withdraw() noexcept {
    for (const auto& receive : mine_) route_->withdraw(receive);
    mine_.clear();
  }

  std::shared_ptr<Route> route_;
  std::vector<std::shared_ptr<Posted>> mine_;
  std::vector<std::pair<int, MessageTag>> sent_;  ///< what may still need this rank's calls
  RecvStatus status_;
};

class ExchangePort final : public MessagePort {
 public:
  explicit ExchangePort(std::shared_ptr<Route> route) : route_(std::move(route)) {}

  std::string_view path() const override { return "exchange"; }
  Verdict can_carry(const Request& request) const override { return can_move_bytes(request); }
  std::unique_ptr<Transfers> open() override { return std::make_unique<ExchangeTransfers>(route_); }

 private:
  std::shared_ptr<Route> route_;
};

}  // namespace

std::shared_ptr<MessagePort> make_exchange_port(std::shared_ptr<Exchange> exchange,
                                                std::vector<int> ranks) {
  return std::make_shared<ExchangePort>(
      std::make_shared<Route>(std::move(exchange), std::move(ranks)));
}

}  // namespace hymn
