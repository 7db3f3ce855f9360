// Dissemination barrier: in round k each rank tells the one 2^k further on, so that after
// ceil(log2 p) rounds everybody has heard, through others, from everybody.

#include "collectives/pairwise/pairwise.hpp"
#include "collectives/pairwise/port_operation.hpp"
#include "collectives/plan.hpp"

namespace hymn {
namespace {

class BarrierPairwiseOperation final : public PortOperation {
 public:
  BarrierPairwiseOperation(MessagePort& port, GroupShape shape, const Call& call)
      : PortOperation(port, call), shape_(shape), transfers_(port.open()) {}

  void start() override {
    enter();
    begin_round();
  }
  bool step() override {
    while (round_ < dissemination_rounds(shape_.size)) {
      if (!transfers_->test()) return false;
      ++round_;
      begin_round();
    }
    return true;
  }
  bool peers_need_steps() const override { return true; }
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override {
    return transfers_->abandon(reason);
  }

 private:
  void begin_round() {
    if (round_ >= dissemination_rounds(shape_.size)) return;
    transfers_->recv(dissemination_from(shape_.rank, shape_.size, round_), tag(round_), {});
    transfers_->send(dissemination_to(shape_.rank, shape_.size, round_), tag(round_), {});
  }

  GroupShape shape_;
  unsigned round_ = 0;
  std::unique_ptr<Transfers> transfers_;
};

class BarrierPairwise final : public Algorithm {
 public:
  BarrierPairwise(const AlgorithmModel& model, std::shared_ptr<MessagePort> port, GroupShape shape)
      : Algorithm(model, {OpType::barrier}), port_(std::move(port)), shape_(shape) {}

  Verdict can_run(const Request&) const override { return Verdict::yes(); }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return storage.emplace<BarrierPairwiseOperation>(*port_, shape_, call);
  }

 private:
  std::shared_ptr<MessagePort> port_;
  GroupShape shape_;
};

}  // namespace

std::unique_ptr<Algorithm> make_barrier_pairwise(const AlgorithmModel& model,
                                                 std::shared_ptr<MessagePort> port,
                                                 GroupShape shape) {
  return std::make_unique<BarrierPairwise>(model, std::move(port), shape);
}

}  // namespace hymn
