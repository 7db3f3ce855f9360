#include "collectives/cuda/peer_algorithm.hpp"

#include <utility>

#include "collectives/cuda/abandoned_peer_operation.hpp"
#include "collectives/cuda/peer_launch.hpp"
#include "collectives/cuda/peer_models.hpp"
#include "collectives/launch/gpu_operation.hpp"

namespace hymn {
namespace {

class PeerOperation final : public GpuOperation {
 public:
  PeerOperation(std::shared_ptr<PeerChannel> channel, const Call& call, PeerMethod method)
      : GpuOperation(*channel->parts().queue, channel->gpu(), launch_),
        channel_(std::move(channel)),
        launch_(*channel_, *call.request, method, call.peer) {}

  std::unique_ptr<AbandonedOperation> abandon(const std::string&) noexcept override {
    queue().remove(launch_);
    channel_->abort();
    if (has_landed() || launch_.event() == nullptr) return nullptr;
    return std::make_unique<AbandonedPeerOperation>(channel_, launch_.event());
  }

 private:
  void landed() override { channel_->check(); }

  std::shared_ptr<PeerChannel> channel_;
  PeerLaunch launch_;
};

struct PeerPart {
  const AlgorithmModel& model;
  PeerMethod method;
};
const PeerPart peer_parts[] = {{peer_models::one_shot, PeerMethod::one_shot},
                               {peer_models::two_shot, PeerMethod::two_shot},
                               {peer_models::windows, PeerMethod::windows}};

class PeerAlgorithm final : public Algorithm {
 public:
  PeerAlgorithm(const PeerPart& part, std::shared_ptr<PeerChannel> channel)
      : Algorithm(part.model), method_(part.method), channel_(std::move(channel)) {}
  Verdict can_run(const Request& request) const override {
    const PeerChannelParts& made_of = channel_->parts();
    return peer_can_run(request, method_, made_of.shape.size, made_of.slot_bytes);
  }
  // All elements are folded in the order of the ranks.
  Reproducibility promises(const Request&) const override { return Reproducibility::placement; }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return storage.emplace<PeerOperation>(channel_, call, method_);
  }

 private:
  const PeerMethod method_;
  std::shared_ptr<PeerChannel> channel_;
};

}  // namespace

void add_peer_algorithms(Algorithms& algorithms, const std::shared_ptr<PeerChannel>& channel) {
  for (const PeerPart& part : peer_parts)
    algorithms.push_back(std::make_unique<PeerAlgorithm>(part, channel));
}

void add_no_peer_algorithms(Algorithms& algorithms, const std::string& reason) {
  for (const PeerPart& part : peer_parts)
    algorithms.push_back(std::make_unique<AbsentAlgorithm>(part.model, part.model.serves, reason));
}

}  // namespace hymn
