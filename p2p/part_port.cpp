#include "p2p/part_port.hpp"

#include <algorithm>
#include <utility>

namespace hymn {
namespace {

class PartTransfers final : public Transfers {
 public:
  PartTransfers(std::unique_ptr<Transfers> transfers, const std::vector<int>& members)
      : transfers_(std::move(transfers)), members_(members) {}

  void send(int peer, MessageTag tag, const ConstBufferView& view) override {
    transfers_->send(rank_of(peer), tag, view);
  }
  void recv(int peer, MessageTag tag, const BufferView& view) override {
    transfers_->recv(rank_of(peer), tag, view);
  }
  bool test() override { return transfers_->test(); }
  RecvStatus status() const override {
    RecvStatus status = transfers_->status();
    const auto found = std::find(members_.begin(), members_.end(), status.source);
    status.source = static_cast<int>(found - members_.begin());
    return status;
  }
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override {
    return transfers_->abandon(reason);
  }

 private:
  int rank_of(int peer) const { return members_[static_cast<std::size_t>(peer)]; }

  std::unique_ptr<Transfers> transfers_;
  const std::vector<int>& members_;  // of the port, which outlives this
};

class PartPort final : public MessagePort {
 public:
  PartPort(std::shared_ptr<MessagePort> port, std::vector<int> members)
      : port_(std::move(port)), members_(std::move(members)) {}

  Verdict can_carry(const Request& request) const override { return port_->can_carry(request); }
  std::unique_ptr<Transfers> open() override {
    return std::make_unique<PartTransfers>(port_->open(), members_);
  }

 private:
  std::shared_ptr<MessagePort> port_;
  std::vector<int> members_;
};

}  // namespace

std::shared_ptr<MessagePort> make_part_port(std::shared_ptr<MessagePort> port,
                                            std::vector<int> members) {
  return std::make_shared<PartPort>(std::move(port), std::move(members));
}

}  // namespace hymn
