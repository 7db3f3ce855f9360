#include "collectives/nccl/nccl_bridge.hpp"

#include <utility>

#include "collectives/nccl/launch.hpp"
#include "collectives/nccl/nccl_types.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

class NcclInterHostAllReduce final : public InterHostAllReduce {
 public:
  NcclInterHostAllReduce(std::shared_ptr<NcclChannel> column, const std::vector<BufferView>& shares,
                         const ReduceOp& op)
      : column_(std::move(column)) {
    for (const BufferView& share : shares)
      requests_.push_back(Request::all_reduce(share, share, op));
  }

  void begin() override {
    if (!requests_.empty()) column_->begin();
  }
  bool is_ready() override { return requests_.empty() || column_->step(); }
  // All at once: NCCL makes one operation of them.
  bool start(cuda_api::Stream stream, const InterHostWords& words) override {
    if (requests_.empty()) return false;
    requests_.push_back(Request::all_reduce(ConstBufferView(one_word(words.kernels)),
                                            one_word(words.crossed), ReduceOp::min));
    std::vector<NcclMessage> together;
    for (const Request& request : requests_)
      together.push_back({column_->place(stream), &request, /*peer=*/-1});
    launch_nccl_together(together);
    return true;
  }
  bool step() override { return requests_.empty() || column_->step(); }
  void check() override {
    if (!requests_.empty()) column_->check();
  }
  void abandon(const std::string&) noexcept override { column_->abort(); }
  bool is_gone() override { return column_->is_gone(); }

 private:
  static BufferView one_word(std::uint32_t* word) {
    return {word, 1, DataType::int32, MemoryKind::device};
  }

  std::shared_ptr<NcclChannel> column_;
  std::vector<Request> requests_;
};

class NcclBridge final : public HostBridge {
 public:
  NcclBridge(std::shared_ptr<NcclChannel> column, bool in_float32)
      : column_(std::move(column)), in_float32_(in_float32) {}

  Verdict can_carry(DataType dtype, ReduceKind kind) const override {
    std::string refusal = nccl_refusal(dtype, kind);
    if (refusal.empty() && in_float32_) refusal = float32_refusal(dtype);
    return refusal.empty() ? Verdict::yes() : Verdict::no(std::move(refusal));
  }
  Reproducibility promises() const override { return Reproducibility::ranks; }
  std::unique_ptr<InterHostAllReduce> prepare(std::vector<BufferView> shares, const ReduceOp& op,
                                              const Call&, bool is_captured) override {
    // To make a communicator is to allocate memory, which breaks the capture off.
    if (is_captured && !shares.empty() && !column_->was_ready())
      throw UsageError(
          "the stream is captured into a graph, but NCCL's communicator between the hosts has not "
          "been created yet",
          {.remedy = "make one such call before the capture"});
    return std::make_unique<NcclInterHostAllReduce>(column_, shares, op);
  }

 private:
  std::shared_ptr<NcclChannel> column_;
  const bool in_float32_;
};

}  // namespace

std::shared_ptr<HostBridge> make_nccl_bridge(std::shared_ptr<NcclChannel> column, bool in_float32) {
  return std::make_shared<NcclBridge>(std::move(column), in_float32);
}

}  // namespace hymn
