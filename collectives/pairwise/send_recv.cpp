// send and recv: one message.

#include "collectives/pairwise/pairwise.hpp"
#include "collectives/pairwise/port_operation.hpp"

namespace hymn {
namespace {

class SendRecvOperation final : public PortOperation {
 public:
  SendRecvOperation(MessagePort& port, const Call& call)
      : PortOperation(port, call), transfers_(port.open()) {}

  void start() override {
    const Request& request = *call_.request;
    const MessageTag tag = MessageTag::of_user(request.tag);
    if (request.type == OpType::send)
      transfers_->send(call_.peer, tag, request.inputs.flat());
    else
      transfers_->recv(call_.peer, tag, request.outputs.flat());
  }
  bool step() override { return transfers_->test(); }
  RecvStatus status() const override { return transfers_->status(); }
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override {
    return transfers_->abandon(reason);
  }

 private:
  std::unique_ptr<Transfers> transfers_;
};

class SendRecv final : public Algorithm {
 public:
  explicit SendRecv(std::shared_ptr<MessagePort> port) : port_(std::move(port)) {}

  std::string_view name() const override { return "send_recv"; }
  std::string_view path() const override { return port_->path(); }
  bool serves(OpType type) const override { return type == OpType::send || type == OpType::recv; }
  Verdict can_run(const Request& request) const override { return port_->can_carry(request); }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return storage.emplace<SendRecvOperation>(*port_, call);
  }

 private:
  std::shared_ptr<MessagePort> port_;
};

}  // namespace

std::unique_ptr<Algorithm> make_send_recv(std::shared_ptr<MessagePort> port) {
  return std::make_unique<SendRecv>(std::move(port));
}

}  // namespace hymn
