#include <utility>

#include "collectives/cuda/inter_host_all_reduce.hpp"
#include "collectives/pairwise/pairwise.hpp"
#include "collectives/pairwise/pairwise_models.hpp"
#include "collectives/staged/staged.hpp"
#include "gpu/cuda_calls.hpp"
#include "hymn/error.hpp"
#include "p2p/part_port.hpp"

namespace hymn {
namespace {

class StagedInterHostAllReduce final : public InterHostAllReduce {
 public:
  StagedInterHostAllReduce(std::shared_ptr<StagingArea> area, std::shared_ptr<Algorithm> carrier,
                           std::vector<BufferView> shares, const ReduceOp& op, const Call& call)
      : area_(std::move(area)),
        carrier_(std::move(carrier)),
        shares_(std::move(shares)),
        op_(op),
        outer_(call) {
    std::size_t bytes = 0;
    for (const BufferView& share : shares_) bytes += share.bytes();
    if (bytes > 0) copies_ = area_->pool.take(bytes);
  }
  ~StagedInterHostAllReduce() override {
    carried_.clear();
    if (copied_ != nullptr) area_->gpu->give_back(copied_);
    if (copies_.data != nullptr) area_->pool.give_back(copies_);
  }

  bool start(cuda_api::Stream stream, const InterHostWords&) override {
    if (shares_.empty()) return false;
    stream_ = stream;
    for_each_copy([this](void* copy, const BufferView& share) {
      call(cuda(), cuda().to_host_on, copy, at(share), share.bytes(), stream_);
    });
    copied_ = area_->gpu->mark(stream_);
    return false;
  }

  bool is_folded() override {
    if (copied_ == nullptr) return true;
    if (!area_->gpu->has_happened(copied_)) return false;
    area_->gpu->give_back(std::exchange(copied_, nullptr));
    return true;
  }

  bool step() override {
    if (shares_.empty()) return true;
    if (carried_.get() == nullptr) carry();
    if (!carried_.get()->step()) return false;
    for_each_copy([this](void* copy, const BufferView& share) {
      call(cuda(), cuda().to_gpu_on, at(share), static_cast<const void*>(copy), share.bytes(),
           stream_);
    });
    has_crossed_ = true;
    return true;
  }

  void abandon(const std::string& reason) noexcept override {
    if (carried_.get() != nullptr && !has_crossed_) abandoned_ = carried_.get()->abandon(reason);
  }
  bool is_gone() override { return abandoned_ == nullptr || abandoned_->done(); }

 private:
  const cuda_api::Functions& cuda() const { return area_->gpu->cuda(); }
  static cuda_api::Pointer at(const BufferView& share) {
    return reinterpret_cast<cuda_api::Pointer>(share.data);
  }
  template <class Visit>
  void for_each_copy(Visit visit) {
    const GpuDevice::Entry entry(*area_->gpu);
    auto* copy = static_cast<std::byte*>(copies_.data);
    for (const BufferView& share : shares_) {
      visit(copy, share);
      copy += share.bytes();
    }
  }
  void carry() {
    std::size_t count = 0;
    for (const BufferView& share : shares_) count += share.count;
    const BufferView all(copies_.data, count, shares_.front().dtype);
    request_ = Request::all_reduce(all, all, op_);
    call_ = {.request = &request_, .sequence = outer_.sequence, .order = outer_.order};
    carrier_->prepare(carried_, call_).start();
  }

  std::shared_ptr<StagingArea> area_;
  std::shared_ptr<Algorithm> carrier_;
  std::vector<BufferView> shares_;
  ReduceOp op_;
  const Call& outer_;
  PinnedPool::Block copies_;  // one behind the other
  cuda_api::Stream stream_ = nullptr;
  cuda_api::Event copied_ = nullptr;
  Request request_;
  Call call_;
  std::unique_ptr<AbandonedOperation> abandoned_;
  OperationStorage carried_;
  bool has_crossed_ = false;
};

class StagedBridge final : public HostBridge {
 public:
  StagedBridge(std::shared_ptr<StagingArea> area, std::shared_ptr<Algorithm> carrier)
      : area_(std::move(area)), carrier_(std::move(carrier)) {}

  Verdict can_carry(DataType, ReduceKind) const override { return Verdict::yes(); }
  // What is folded together depends on who is on which host.
  Reproducibility promises() const override { return Reproducibility::runs; }
  std::unique_ptr<InterHostAllReduce> prepare(std::vector<BufferView> shares, const ReduceOp& op,
                                              const Call& call, bool is_captured) override {
    if (is_captured)
      throw UnsupportedError("a CUDA graph cannot capture what goes through host memory",
                             {.remedy = "leave it out of the capture"});
    return std::make_unique<StagedInterHostAllReduce>(area_, carrier_, std::move(shares), op, call);
  }

 private:
  std::shared_ptr<StagingArea> area_;
  std::shared_ptr<Algorithm> carrier_;
};

}  // namespace

std::shared_ptr<HostBridge> make_staged_bridge(std::shared_ptr<StagingArea> area,
                                               std::shared_ptr<MessagePort> port,
                                               std::vector<int> column, int place) {
  const GroupShape shape{.rank = place, .size = static_cast<int>(column.size())};
  std::shared_ptr<Algorithm> carrier = make_reduce_pairwise(
      pairwise_models::over_mpi, make_part_port(std::move(port), std::move(column)), shape);
  return std::make_shared<StagedBridge>(std::move(area), std::move(carrier));
}

}  // namespace hymn
