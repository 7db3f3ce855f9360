#include "p2p/tcp/tcp_port.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "p2p/lost_message.hpp"

namespace hymn {
namespace {

constexpr std::uint64_t user_bit = std::uint64_t{1} << 63;

std::uint64_t packed_tag(MessageTag tag) { return tag.packed(63) | (tag.user ? user_bit : 0); }

/// What all messages of a group have in common.
struct TcpRoute {
  std::shared_ptr<tcp::Net> net;
  std::uint64_t group;
  std::vector<int> ranks;

  int world_rank(int peer) const {
    return peer == any_source ? any_source : ranks[static_cast<std::size_t>(peer)];
  }
  int member(int rank) const {
    return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
  }
};

class TcpTransfers final : public Transfers {
 public:
  explicit TcpTransfers(std::shared_ptr<const TcpRoute> route) : route_(std::move(route)) {}
  ~TcpTransfers() override { withdraw(); }

  void send(int peer, MessageTag tag, const ConstBufferView& view) override {
    tcp::Sending& message = sends_.emplace_back();
    message.to = route_->world_rank(peer);
    message.group = route_->group;
    message.tag = packed_tag(tag);
    message.data = static_cast<const std::byte*>(view.data);
    message.bytes = view.bytes();
    route_->net->start(message);
  }
  void recv(int peer, MessageTag tag, const BufferView& view) override {
    tcp::Receiving& receive = receives_.emplace_back();
    receive.from = route_->world_rank(peer);
    receive.tag = packed_tag(tag);
    receive.data = static_cast<std::byte*>(view.data);
    receive.room = view.bytes();
    element_bytes_ = std::max<std::size_t>(view.element_bytes(), 1);
    route_->net->start(route_->group, receive);
  }
  bool test() override {
    if (!all_done()) route_->net->turn();
    check();
    if (!all_done()) return false;
    if (!receives_.empty()) status_ = status_of(receives_.back());
    sends_.clear();
    receives_.clear();
    return true;
  }
  RecvStatus status() const override { return status_; }
  std::unique_ptr<AbandonedOperation> abandon(const std::string&) noexcept override {
    return withdraw() ? nullptr : std::make_unique<LostMessage>();
  }

 private:
  static bool is_done(const std::atomic<bool>& done) {
    return done.load(std::memory_order_acquire);
  }
  bool all_done() const {
    return std::ranges::all_of(sends_, [](const auto& one) { return is_done(one.done); }) &&
           std::ranges::all_of(receives_, [](const auto& one) { return is_done(one.done); });
  }
  void check() const {
    for (const tcp::Sending& message : sends_)
      if (is_done(message.done) && message.error) std::rethrow_exception(message.error);
    for (const tcp::Receiving& receive : receives_) {
      if (is_done(receive.done))
        check(receive);
      else
        route_->net->require_from(receive.from);
    }
  }
  static void check(const tcp::Receiving& receive) {
    if (receive.error) std::rethrow_exception(receive.error);
    const std::string sender = fmt::format("rank {}", receive.source);
    const bool is_of_collective = (receive.tag & user_bit) == 0;
    // Whoever takes part in a collective knows how much comes.
    if (is_of_collective && receive.bytes < receive.room)
      throw short_message(sender, receive.bytes, receive.room);
    if (receive.bytes > receive.room)
      throw UsageError(fmt::format("{} sent {} bytes to a buffer of {} bytes", sender,
                                   receive.bytes, receive.room),
                       {.remedy = "give the same count and dtype on both sides"});
  }
  RecvStatus status_of(const tcp::Receiving& receive) const {
    return {.source = route_->member(receive.source),
            .tag = static_cast<int>(receive.tag & ~user_bit),
            .count = receive.bytes / element_bytes_};
  }
  bool withdraw() noexcept {
    bool clean = true;
    for (tcp::Receiving& receive : receives_) {
      const bool is_of_user = (receive.tag & user_bit) != 0;
      clean = route_->net->withdraw(route_->group, receive, is_of_user) && clean;
    }
    for (tcp::Sending& message : sends_) clean = route_->net->withdraw(message) && clean;
    receives_.clear();
    sends_.clear();
    return clean;
  }

  std::shared_ptr<const TcpRoute> route_;
  std::deque<tcp::Sending> sends_;  // stay where they are
  std::deque<tcp::Receiving> receives_;
  std::size_t element_bytes_ = 1;
  RecvStatus status_;
};

class TcpPort final : public MessagePort {
 public:
  explicit TcpPort(std::shared_ptr<const TcpRoute> route) : route_(std::move(route)) {}

  Verdict can_carry(const Request& request) const override { return can_move_bytes(request); }
  std::unique_ptr<Transfers> open() override { return std::make_unique<TcpTransfers>(route_); }
  std::optional<RecvStatus> probe(int peer, MessageTag tag) override {
    const auto found = route_->net->probe(route_->group, route_->world_rank(peer), packed_tag(tag));
    if (!found) return std::nullopt;
    return RecvStatus{.source = route_->member(found->source),
                      .tag = static_cast<int>(tag.value),
                      .count = found->bytes};
  }
  bool can_park() const override { return true; }
  bool park(Operation& operation, long nanoseconds) override {
    const tcp::Net::Rest rest(*route_->net);
    if (operation.step()) return true;
    rest.sleep(nanoseconds);
    return operation.step();
  }

 private:
  std::shared_ptr<const TcpRoute> route_;
};

}  // namespace

std::shared_ptr<MessagePort> make_tcp_port(std::shared_ptr<tcp::Net> net, std::uint64_t group,
                                           std::vector<int> ranks) {
  return std::make_shared<TcpPort>(
      std::make_shared<const TcpRoute>(TcpRoute{std::move(net), group, std::move(ranks)}));
}

}  // namespace hymn
