#include "collectives/nccl/nccl_algorithm.hpp"

#include <utility>

#include "collectives/launch/gpu_operation.hpp"
#include "collectives/nccl/nccl_launch.hpp"
#include "collectives/nccl/nccl_models.hpp"
#include "collectives/nccl/nccl_types.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

/// What an operation that was given up has left on the GPU. NCCL ends it some time after the abort.
class AbandonedNcclOperation final : public AbandonedOperation {
 public:
  AbandonedNcclOperation(std::shared_ptr<NcclChannel> channel, cuda_api::Event event)
      : channel_(std::move(channel)), event_(event) {}
  ~AbandonedNcclOperation() override {
    if (event_ != nullptr) channel_->gpu().give_back(event_);
  }
  bool done() override {
    return channel_->is_gone() && (event_ == nullptr || channel_->gpu().is_over(event_));
  }

 private:
  std::shared_ptr<NcclChannel> channel_;
  cuda_api::Event event_;
};

class NcclOperation final : public GpuOperation {
 public:
  /// `wide`: as NcclLaunch.
  NcclOperation(std::shared_ptr<NcclChannel> channel, const Call& call,
                std::unique_ptr<Float32Reduction> wide = nullptr)
      : GpuOperation(channel->queue(), channel->gpu(), launch_),
        channel_(std::move(channel)),
        is_message_(!is_collective(call.request->type)),
        wide_(std::move(wide)),
        launch_(*channel_, call, is_message_ ? 1 - channel_->parts().shape.rank : call.peer,
                wide_.get()) {
    if (call.request->type == OpType::recv)
      status_ = {.source = call.peer, .count = call.request->outputs.flat().count};
  }
  // One that never started has no place, and one that has ended has none any more.
  ~NcclOperation() override = default;

  // Messages wait for those that come right after them: see LaunchQueue::advance().
  void start() override {
    queue().add(launch_);
    if (!is_message_) queue().advance();
  }

  std::unique_ptr<AbandonedOperation> abandon(const std::string&) noexcept override {
    queue().remove(launch_);
    if (has_landed() || launch_.stage() == NcclLaunch::Stage::waiting) return nullptr;
    cuda_api::Event event = launch_.event();
    if (event != nullptr) channel_->landed();
    if (wide_ != nullptr) event = give_up_memory(event);
    channel_->abort();
    return std::make_unique<AbandonedNcclOperation>(channel_, event);
  }

  RecvStatus status() const override { return status_; }

 private:
  void check() override { channel_->check(); }
  void landed() override { channel_->landed(); }
  // The GPU may not have come to what is on the stream, and NCCL may still put something there.
  cuda_api::Event give_up_memory(cuda_api::Event event) noexcept {
    if (event == nullptr) event = launch_.mark_what_is_there();
    if (auto release = wide_->release_behind(event)) channel_->when_gone(std::move(release));
    return event;
  }

  std::shared_ptr<NcclChannel> channel_;
  bool is_message_;
  std::unique_ptr<Float32Reduction> wide_;  // null: NCCL reduces what it is given
  NcclLaunch launch_;
  RecvStatus status_;
};

// To make a communicator is to allocate memory, which breaks the capture off.
void require_ready_for_capture(const NcclChannel& channel, const OrderingDomain& domain) {
  if (domain.kind == OrderingDomain::Kind::host || channel.was_ready() ||
      !channel.gpu().is_capturing(static_cast<cuda_api::Stream>(domain.stream)))
    return;
  throw UsageError(
      "the stream is captured into a graph, but NCCL's communicator has not been created yet",
      {.remedy = "make one such call before the capture"});
}

class NcclAlgorithm final : public Algorithm {
 public:
  NcclAlgorithm(std::shared_ptr<NcclChannel> channel, bool in_float32)
      : Algorithm(nccl_models::nccl), channel_(std::move(channel)), in_float32_(in_float32) {}
  Verdict can_run(const Request& request) const override {
    Verdict verdict = nccl_can_run(request);
    if (!verdict.ok || !in_float32_ || !reduces(request.type)) return verdict;
    std::string refusal = float32_refusal(request.inputs.dtype());
    if (!refusal.empty()) return Verdict::no(std::move(refusal));
    return verdict;
  }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    require_apart_for_nccl(*call.request);
    const bool is_message = !is_collective(call.request->type);
    auto channel = is_message ? channel_->pair_with(call.peer) : channel_;
    require_ready_for_capture(*channel, call.request->domain);
    return storage.emplace<NcclOperation>(std::move(channel), call);
  }

 private:
  std::shared_ptr<NcclChannel> channel_;
  const bool in_float32_;
};

class Float32NcclAlgorithm final : public Algorithm {
 public:
  Float32NcclAlgorithm(std::shared_ptr<NcclChannel> channel,
                       std::shared_ptr<cuda::GpuKernels> kernels)
      : Algorithm(nccl_models::float32),
        channel_(std::move(channel)),
        kernels_(std::move(kernels)) {}
  Verdict can_run(const Request& request) const override {
    Verdict verdict = can_reduce_in_float32(request);
    return verdict.ok ? nccl_can_run(request) : verdict;
  }
  // The input is copied: it may overlap the output.
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    require_ready_for_capture(*channel_, call.request->domain);
    return storage.emplace<NcclOperation>(
        channel_, call,
        std::make_unique<Float32Reduction>(kernels_, *call.request, channel_->parts().shape,
                                           call.peer));
  }

 private:
  std::shared_ptr<NcclChannel> channel_;
  std::shared_ptr<cuda::GpuKernels> kernels_;
};

}  // namespace

std::unique_ptr<Algorithm> make_nccl_algorithm(std::shared_ptr<NcclChannel> channel,
                                               bool in_float32) {
  return std::make_unique<NcclAlgorithm>(std::move(channel), in_float32);
}

std::unique_ptr<Algorithm> make_float32_nccl_algorithm(std::shared_ptr<NcclChannel> channel,
                                                       std::shared_ptr<cuda::GpuKernels> kernels) {
  return std::make_unique<Float32NcclAlgorithm>(std::move(channel), std::move(kernels));
}

}  // namespace hymn
