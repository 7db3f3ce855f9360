#include "collectives/cuda/peer_algorithm.hpp"

#include <utility>

#include "base/paths.hpp"
#include "collectives/cuda/abandoned_peer_operation.hpp"
#include "collectives/cuda/peer_launch.hpp"
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
    return std::make_unique<AbandonedPeerOperation<PeerChannel>>(channel_, launch_.event());
  }

 private:
  void landed() override { channel_->check(); }

  std::shared_ptr<PeerChannel> channel_;
  PeerLaunch launch_;
};

/// What a method is called.
struct NamedMethod {
  std::string_view name;
  PeerMethod method;
};
constexpr NamedMethod named_methods[] = {{"all_reduce_one_shot", PeerMethod::one_shot},
                                         {"all_reduce_two_shot", PeerMethod::two_shot},
                                         {"all_gather_windows", PeerMethod::windows}};

class PeerAlgorithm final : public Algorithm {
 public:
  /// `channel` null: it can run nothing, for that reason.
  PeerAlgorithm(const NamedMethod& part, std::shared_ptr<PeerChannel> channel, std::string reason)
      : part_(part), channel_(std::move(channel)), reason_(std::move(reason)) {}
  std::string_view name() const override { return part_.name; }
  std::string_view path() const override { return paths::cuda_p2p; }
  bool takes(MemoryKind memory) const override { return memory == MemoryKind::device; }
  bool serves(OpType type) const override { return has_peer_kernel(part_.method, type); }
  Verdict can_run(const Request& request) const override {
    if (channel_ == nullptr) return Verdict::no(reason_);
    const PeerChannelParts& made_of = channel_->parts();
    return peer_can_run(request, part_.method, made_of.shape.size, made_of.slot_bytes);
  }
  // All elements are folded in the order of the ranks.
  Reproducibility promises(const Request&) const override { return Reproducibility::placement; }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return storage.emplace<PeerOperation>(channel_, call, part_.method);
  }

 private:
  const NamedMethod& part_;
  std::shared_ptr<PeerChannel> channel_;
  std::string reason_;
};

}  // namespace

void add_peer_algorithms(Algorithms& algorithms, const std::shared_ptr<PeerChannel>& channel) {
  for (const NamedMethod& part : named_methods)
    algorithms.push_back(std::make_unique<PeerAlgorithm>(part, channel, ""));
}

void add_no_peer_algorithms(Algorithms& algorithms, const std::string& reason) {
  for (const NamedMethod& part : named_methods)
    algorithms.push_back(std::make_unique<PeerAlgorithm>(part, nullptr, reason));
}

}  // namespace hymn
