#include "collectives/cuda/hierarchical_algorithm.hpp"

#include <utility>

#include "collectives/cuda/hierarchical_launch.hpp"
#include "collectives/cuda/peer_launch.hpp"
#include "collectives/launch/gpu_operation.hpp"

namespace hymn {
namespace {

/// What an operation that was given up has left: kernels that end soon, and what is between hosts.
class AbandonedHierarchicalOperation final : public AbandonedOperation {
 public:
  AbandonedHierarchicalOperation(std::shared_ptr<PeerChannel> channel,
                                 std::unique_ptr<InterHostAllReduce> inter_host,
                                 cuda_api::Event event)
      : channel_(std::move(channel)), inter_host_(std::move(inter_host)), event_(event) {}
  ~AbandonedHierarchicalOperation() override {
    if (event_ != nullptr) channel_->gpu().give_back(event_);
  }
  bool done() override {
    return inter_host_->is_gone() && (event_ == nullptr || channel_->gpu().is_over(event_));
  }

 private:
  std::shared_ptr<PeerChannel> channel_;
  std::unique_ptr<InterHostAllReduce> inter_host_;
  cuda_api::Event event_;
};

class HierarchicalOperation final : public GpuOperation {
 public:
  HierarchicalOperation(std::shared_ptr<PeerChannel> channel, const HostShares& shares,
                        std::unique_ptr<InterHostAllReduce> inter_host, const Request& request)
      : GpuOperation(*channel->parts().queue, channel->gpu(), launch_),
        channel_(std::move(channel)),
        inter_host_(std::move(inter_host)),
        launch_(*channel_, shares, *inter_host_, request) {}

  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override {
    queue().remove(launch_);
    channel_->abort();
    if (has_landed() || !launch_.has_begun()) return nullptr;
    inter_host_->abandon(reason);
    cuda_api::Event event = launch_.event();
    if (event == nullptr) event = launch_.mark_what_is_there();
    return std::make_unique<AbandonedHierarchicalOperation>(channel_, std::move(inter_host_),
                                                            event);
  }

 private:
  void check() override { inter_host_->check(); }
  void landed() override { channel_->check(); }

  std::shared_ptr<PeerChannel> channel_;
  std::unique_ptr<InterHostAllReduce> inter_host_;
  HierarchicalLaunch launch_;
};

class HierarchicalPeer final : public Algorithm {
 public:
  HierarchicalPeer(const AlgorithmModel& model, std::shared_ptr<PeerChannel> channel,
                   std::shared_ptr<HostBridge> bridge)
      : Algorithm(model), channel_(std::move(channel)), bridge_(std::move(bridge)) {}

  Verdict can_run(const Request& request) const override {
    const PeerChannelParts& made_of = channel_->parts();
    Verdict kernels =
        peer_can_run(request, PeerMethod::two_shot, made_of.shape.size, made_of.slot_bytes);
    if (!kernels.ok) return kernels;
    return bridge_->can_carry(request.inputs.dtype(), request.op.kind());
  }
  Reproducibility promises(const Request&) const override { return bridge_->promises(); }

  Operation& prepare(OperationStorage& storage, const Call& call) override {
    const Request& request = *call.request;
    const BufferView& out = request.outputs.flat();
    const PeerChannelParts& made_of = channel_->parts();
    const HostShares shares(out.bytes(), made_of.shape.size, made_of.slot_bytes);
    const bool is_captured =
        request.domain.kind != OrderingDomain::Kind::host &&
        channel_->gpu().is_capturing(static_cast<cuda_api::Stream>(request.domain.stream));
    std::unique_ptr<InterHostAllReduce> inter_host =
        bridge_->prepare(shares_of(shares, made_of.shape.rank, out), request.op, call, is_captured);
    return storage.emplace<HierarchicalOperation>(channel_, shares, std::move(inter_host), request);
  }

 private:
  std::shared_ptr<PeerChannel> channel_;
  std::shared_ptr<HostBridge> bridge_;
};

}  // namespace

std::unique_ptr<Algorithm> make_hierarchical_peer(const AlgorithmModel& model,
                                                  std::shared_ptr<PeerChannel> channel,
                                                  std::shared_ptr<HostBridge> bridge) {
  return std::make_unique<HierarchicalPeer>(model, std::move(channel), std::move(bridge));
}

}  // namespace hymn
