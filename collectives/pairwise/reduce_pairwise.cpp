// Reductions. all_reduce, reduce, reduce_scatter: every rank gets everybody's copy of its own
// slice, reduces it in rank order, and passes the result to whoever wants it. One rank alone
// computes each element, so all ranks get the same bits, whatever the operation. Where messages
// cost more than what is in them (is_reduced_everywhere), every slice is the whole, and nothing is
// passed on. scan, exscan: scan_pairwise.hpp.

#include <vector>

#include "collectives/costs/traffic.hpp"
#include "collectives/pairwise/pairwise.hpp"
#include "collectives/pairwise/port_operation.hpp"
#include "collectives/pairwise/scan_pairwise.hpp"
#include "collectives/plan.hpp"
#include "collectives/reduce/reducer.hpp"

namespace hymn {
namespace {

bool is_everywhere(const Request& request, int ranks) {
  return request.type == OpType::all_reduce &&
         is_reduced_everywhere(request.type, request.op.kind(), request.inputs.flat().bytes(),
                               ranks);
}

class ReducePairwiseOperation final : public PortOperation {
 public:
  ReducePairwiseOperation(MessagePort& port, GroupShape shape, const Call& call)
      : PortOperation(port, call),
        shape_(shape),
        reducer_(
            reducer_for(call.request->inputs.dtype(), call.request->op, shape.reproducibility)),
        is_everywhere_(is_everywhere(*call.request, shape.size)),
        transfers_(shape.size > 1 ? port.open() : nullptr) {}

  void start() override {
    enter();
    if (alone()) {
      reduce_alone();
      return;
    }
    const BufferView own = result();
    const std::size_t bytes = own.bytes();
    const auto peers = static_cast<std::size_t>(shape_.size - 1);
    staging_ = std::make_unique_for_overwrite<std::byte[]>(bytes * peers + spare_bytes(own));
    for (int peer = 0; peer < shape_.size; ++peer) {
      if (peer == shape_.rank) continue;
      BufferView copy = own;
      copy.data = staging_.get() + bytes * arrival_index(peer);
      transfers_->recv(peer, tag(0), copy);
      transfers_->send(peer, tag(0), input_for(peer));
    }
    if (call_.request->op.kind() == ReduceKind::premul_sum) exchange_factors();
  }

  bool step() override {
    if (alone()) return true;
    if (!transfers_->test()) return false;
    if (phase_ == 0) {
      reduce_own();
      spread();
      phase_ = 1;
    }
    return transfers_->test();
  }

  bool peers_need_steps() const override { return is_passed_on(); }
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override {
    struct Kept final : AbandonedOperation {
      std::unique_ptr<std::byte[]> staging;
      std::vector<double> factors;
      std::unique_ptr<AbandonedOperation> transfers;
      bool done() override { return transfers == nullptr || transfers->done(); }
    };
    auto kept = std::make_unique<Kept>();
    kept->staging = std::move(staging_);
    kept->factors = std::move(factors_);
    if (transfers_) kept->transfers = transfers_->abandon(reason);
    return kept;
  }

 private:
  /// One rank has nobody to exchange messages with, and needs nothing of the heap.
  bool alone() const { return shape_.size == 1; }
  void reduce_alone() {
    const ConstBufferView input = input_for(0);
    reduce_all(reducer_, &input.data, 1, result().data, input.count);
  }
  bool scattered() const { return call_.request->type == OpType::reduce_scatter; }
  /// Whether a slice that has been reduced is wanted by others.
  bool is_passed_on() const { return !scattered() && !is_everywhere_; }
  bool is_root() const { return shape_.rank == call_.peer; }

  std::size_t arrival_index(int peer) const {
    return static_cast<std::size_t>(peer < shape_.rank ? peer : peer - 1);
  }
  template <class View>
  View slice_of(const View& whole, int owner) const {
    if (is_everywhere_) return whole;
    const Slice slice = even_slice(whole.count, owner, shape_.size);
    return whole.slice(slice.offset, slice.count);
  }
  /// What this rank contributes to the slice that `owner` reduces.
  ConstBufferView input_for(int owner) const {
    return scattered() ? call_.request->inputs.block(owner, shape_.size)
                       : slice_of(call_.request->inputs.flat(), owner);
  }
  /// A rank that reduces for the root alone has no output of its own to put its slice into.
  bool needs_spare() const { return call_.request->type == OpType::reduce && !is_root(); }
  std::size_t spare_bytes(const BufferView& own) const { return needs_spare() ? own.bytes() : 0; }

  /// Where this rank's slice of the result goes. The address of a spare slice is set by
  /// reduce_own().
  BufferView result() const {
    if (scattered()) return call_.request->outputs.flat();
    if (!needs_spare()) return slice_of(call_.request->outputs.flat(), shape_.rank);
    const ConstBufferView mine = input_for(shape_.rank);
    BufferView spare(nullptr, mine.count, mine.dtype);
    spare.opaque = mine.opaque;
    if (staging_)
      spare.data = staging_.get() + mine.bytes() * static_cast<std::size_t>(shape_.size - 1);
    return spare;
  }

  /// Every rank scales by a factor of its own.
  void exchange_factors() {
    factors_.assign(static_cast<std::size_t>(shape_.size), call_.request->op.factor());
    const ConstBufferView mine =
        view_of(std::as_const(factors_[static_cast<std::size_t>(shape_.rank)]));
    for (int peer = 0; peer < shape_.size; ++peer) {
      if (peer == shape_.rank) continue;
      transfers_->recv(peer, tag(2), view_of(factors_[static_cast<std::size_t>(peer)]));
      transfers_->send(peer, tag(2), mine);
    }
  }

  void reduce_own() {
    const BufferView own = result();
    if (own.count == 0) return;
    std::vector<const void*> inputs;
    for (int peer = 0; peer < shape_.size; ++peer) {
      inputs.push_back(peer == shape_.rank ? input_for(peer).data
                                           : staging_.get() + own.bytes() * arrival_index(peer));
    }
    reduce_all(reducer_, inputs.data(), shape_.size, own.data, own.count,
               factors_.empty() ? nullptr : factors_.data());
  }

  void spread() {
    if (!is_passed_on()) return;
    const BufferView own = result();
    const bool to_root_only = call_.request->type == OpType::reduce;
    for (int peer = 0; peer < shape_.size; ++peer) {
      if (peer == shape_.rank) continue;
      if (!to_root_only || is_root())
        transfers_->recv(peer, tag(1), slice_of(call_.request->outputs.flat(), peer));
      if (!to_root_only || peer == call_.peer) transfers_->send(peer, tag(1), own);
    }
  }

  GroupShape shape_;
  Reducer reducer_;
  bool is_everywhere_;
  unsigned phase_ = 0;
  std::unique_ptr<std::byte[]> staging_;  // must outlive the transfers
  std::vector<double> factors_;           // likewise
  std::unique_ptr<Transfers> transfers_;
};

class ReducePairwise final : public Algorithm {
 public:
  ReducePairwise(const AlgorithmModel& model, std::shared_ptr<MessagePort> port, GroupShape shape)
      : Algorithm(model, {OpType::all_reduce, OpType::reduce, OpType::reduce_scatter, OpType::scan,
                          OpType::exscan}),
        port_(std::move(port)),
        shape_(shape) {}

  Verdict can_run(const Request& request) const override {
    std::string reason = refusal(request.inputs.dtype(), request.op.kind());
    if (!reason.empty()) return Verdict::no(std::move(reason));
    return port_->can_carry(request);
  }
  /// In rank order, whatever carries the messages. What is passed on has been rounded.
  Reproducibility promises(const Request& request) const override {
    return is_prefix(request.type) ? Reproducibility::placement : Reproducibility::size;
  }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    if (is_prefix(call.request->type))
      return storage.emplace<ScanPairwiseOperation>(*port_, shape_, call);
    return storage.emplace<ReducePairwiseOperation>(*port_, shape_, call);
  }

 private:
  std::shared_ptr<MessagePort> port_;
  GroupShape shape_;
};

}  // namespace

std::unique_ptr<Algorithm> make_reduce_pairwise(const AlgorithmModel& model,
                                                std::shared_ptr<MessagePort> port,
                                                GroupShape shape) {
  return std::make_unique<ReducePairwise>(model, std::move(port), shape);
}

}  // namespace hymn
