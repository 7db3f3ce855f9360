// send, recv and probe: one message.

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

/// Sends nothing, and takes nothing: there is nothing to give up.
class PortProbeOperation final : public PortOperation {
 public:
  PortProbeOperation(MessagePort& port, const Call& call)
      : PortOperation(port, call), port_(port), tag_(MessageTag::of_user(call.request->tag)) {}

  void start() override {}
  bool step() override {
    found_ = port_.probe(call_.peer, tag_);
    return found_.has_value();
  }
  RecvStatus status() const override { return found_.value_or(RecvStatus{}); }
  std::unique_ptr<AbandonedOperation> abandon(const std::string&) noexcept override {
    return nullptr;
  }

 private:
  MessagePort& port_;
  MessageTag tag_;
  std::optional<RecvStatus> found_;
};

class SendRecv final : public Algorithm {
 public:
  SendRecv(const AlgorithmModel& model, std::shared_ptr<MessagePort> port)
      : Algorithm(model, all_of_messages), port_(std::move(port)) {}

  Verdict can_run(const Request& request) const override { return port_->can_carry(request); }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    if (call.request->type == OpType::probe)
      return storage.emplace<PortProbeOperation>(*port_, call);
    return storage.emplace<SendRecvOperation>(*port_, call);
  }

 private:
  std::shared_ptr<MessagePort> port_;
};

}  // namespace

std::unique_ptr<Algorithm> make_send_recv(const AlgorithmModel& model,
                                          std::shared_ptr<MessagePort> port) {
  return std::make_unique<SendRecv>(model, std::move(port));
}

}  // namespace hymn
