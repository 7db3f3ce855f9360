#include "p2p/transports.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "p2p/joined_residue.hpp"

namespace hymn {
namespace {

using Ports = std::vector<std::shared_ptr<MessagePort>>;

class JoinedTransfers final : public Transfers {
 public:
  explicit JoinedTransfers(std::shared_ptr<const Ports> ports) : ports_(std::move(ports)) {}

  void send(int peer, MessageTag tag, const ConstBufferView& view) override {
    to(peer).send(peer, tag, view);
  }
  void recv(int peer, MessageTag tag, const BufferView& view) override {
    last_ = &to(peer);
    last_->recv(peer, tag, view);
  }
  // All are asked, so that all go on.
  bool test() override {
    bool all = true;
    for (const Part& part : parts_) all = part.transfers->test() && all;
    return all;
  }
  RecvStatus status() const override { return last_ != nullptr ? last_->status() : RecvStatus{}; }
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override {
    std::unique_ptr<JoinedResidue> left;
    for (const Part& part : parts_) JoinedResidue::add(left, part.transfers->abandon(reason));
    return left;
  }

 private:
  struct Part {
    MessagePort* port;
    std::unique_ptr<Transfers> transfers;
  };

  Transfers& to(int peer) {
    MessagePort* const port = (*ports_)[static_cast<std::size_t>(peer)].get();
    const auto found = std::ranges::find(parts_, port, &Part::port);
    if (found != parts_.end()) return *found->transfers;
    return *parts_.emplace_back(port, port->open()).transfers;
  }

  std::shared_ptr<const Ports> ports_;  // by peer
  std::vector<Part> parts_;
  Transfers* last_ = nullptr;  // that was given a receive
};

class JoinedPort final : public MessagePort {
 public:
  /// `peers`: those that it is for.
  JoinedPort(Ports ports, std::span<const int> peers)
      : ports_(std::make_shared<const Ports>(std::move(ports))) {
    for (const int peer : peers) {
      const auto& port = (*ports_)[static_cast<std::size_t>(peer)];
      if (std::ranges::find(used_, port.get()) == used_.end()) used_.push_back(port.get());
    }
  }

  Verdict can_carry(const Request& request) const override {
    // A message from anybody would have to be awaited on all of them, and taken from one.
    if (request.type == OpType::recv && request.peer == any_source)
      return Verdict::no("messages from different ranks come by different transports");
    for (const MessagePort* port : used_)
      if (Verdict verdict = port->can_carry(request); !verdict.ok) return verdict;
    return Verdict::yes();
  }
  std::unique_ptr<Transfers> open() override { return std::make_unique<JoinedTransfers>(ports_); }

 private:
  std::shared_ptr<const Ports> ports_;  // by peer
  std::vector<const MessagePort*> used_;
};

}  // namespace

void Transports::add(const std::shared_ptr<MessagePort>& port, std::span<const int> peers) {
  for (const int peer : peers) {
    auto& place = better_[static_cast<std::size_t>(peer)];
    if (place == nullptr) place = port;
  }
}

void Transports::add(const std::shared_ptr<MessagePort>& port) {
  for (auto& place : better_)
    if (place == nullptr) place = port;
}

std::shared_ptr<MessagePort> Transports::reaching(std::span<const int> peers) const {
  if (peers.empty()) return least_;
  const auto& first = to(peers.front());
  const bool is_one = std::ranges::all_of(peers, [&](int peer) { return to(peer) == first; });
  if (is_one) return first;
  Ports ports;
  for (int member = 0; member < static_cast<int>(better_.size()); ++member)
    ports.push_back(to(member));
  return std::make_shared<JoinedPort>(std::move(ports), peers);
}

}  // namespace hymn
