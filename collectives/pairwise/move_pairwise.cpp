// broadcast, gather, scatter, all_gather, all_to_all: every block goes straight to where it
// belongs.

#include <cstring>
#include <string>
#include <vector>

#include "collectives/pairwise/pairwise.hpp"
#include "collectives/pairwise/port_operation.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

class MovePairwiseOperation final : public PortOperation {
 public:
  MovePairwiseOperation(MessagePort& port, GroupShape shape, const Call& call)
      : PortOperation(port, call), shape_(shape), transfers_(port.open()) {}

  void start() override {
    enter();
    const Request& request = *call_.request;
    const bool is_root = shape_.rank == call_.peer;
    if (request.type == OpType::broadcast) {
      if (is_root)
        send_to_all(request.inputs.flat());
      else
        recv(call_.peer, request.outputs.flat());
    } else if (request.type == OpType::gather) {
      if (is_root)
        recv_blocks(request.inputs.flat());
      else
        send(call_.peer, request.inputs.flat());
    } else if (request.type == OpType::scatter) {
      if (is_root)
        send_blocks(request.inputs, request.outputs.flat());
      else
        recv(call_.peer, request.outputs.flat());
    } else if (request.type == OpType::all_gather) {
      send_to_all(request.inputs.flat());
      recv_blocks(request.inputs.flat());
    } else if (request.type == OpType::all_to_all) {
      start_all_to_all();
    } else {
      throw Error(ErrorKind::internal, "moves have no " + std::string(to_string(request.type)));
    }
  }
  bool step() override { return transfers_->test(); }
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override {
    return transfers_->abandon(reason);
  }

 private:
  void send(int peer, const ConstBufferView& view) { transfers_->send(peer, tag(0), view); }
  void recv(int peer, const BufferView& view) { transfers_->recv(peer, tag(0), view); }

  void send_to_all(const ConstBufferView& view) {
    for (int peer = 0; peer < shape_.size; ++peer)
      if (peer != shape_.rank) send(peer, view);
  }
  void copy(const ConstBufferView& from, const BufferView& to) {
    if (from.data == to.data || from.bytes() == 0) return;
    if (from.dtype != DataType::opaque) {
      std::memcpy(to.data, from.data, from.bytes());
    } else {
      // A type of another library may have gaps, which are not ours to write.
      recv(shape_.rank, to);
      send(shape_.rank, from);
    }
  }
  /// Receives every peer's block; this rank's own is copied.
  void recv_blocks(const ConstBufferView& own) {
    call_.request->outputs.for_each(shape_.size, [&](int peer, const BufferView& block) {
      if (peer == shape_.rank)
        copy(own, block);
      else
        recv(peer, block);
    });
  }
  void send_blocks(const InputBlocks& blocks, const BufferView& own) {
    blocks.for_each(shape_.size, [&](int peer, const ConstBufferView& block) {
      if (peer == shape_.rank)
        copy(block, own);
      else
        send(peer, block);
    });
  }
  void start_all_to_all() {
    InputBlocks inputs = call_.request->inputs;
    if (inputs.layout() == Layout::equal &&
        inputs.flat().data == call_.request->outputs.flat().data) {
      // In place: what arrives would overwrite what has yet to be sent.
      ConstBufferView copied = inputs.flat();
      if (copied.bytes() != 0) {
        staging_ = std::make_unique_for_overwrite<std::byte[]>(copied.bytes());
        std::memcpy(staging_.get(), copied.data, copied.bytes());
        copied.data = staging_.get();
      }
      inputs = InputBlocks::equal(copied);
    }
    call_.request->outputs.for_each(shape_.size, [&](int peer, const BufferView& block) {
      if (peer != shape_.rank) recv(peer, block);
    });
    send_blocks(inputs, call_.request->outputs.block(shape_.rank, shape_.size));
  }

  GroupShape shape_;
  std::unique_ptr<std::byte[]> staging_;  // must outlive the transfers
  std::unique_ptr<Transfers> transfers_;
};

class MovePairwise final : public Algorithm {
 public:
  MovePairwise(const AlgorithmModel& model, std::shared_ptr<MessagePort> port, GroupShape shape)
      : Algorithm(model, {OpType::broadcast, OpType::gather, OpType::scatter, OpType::all_gather,
                          OpType::all_to_all}),
        port_(std::move(port)),
        shape_(shape) {}

  Verdict can_run(const Request& request) const override { return port_->can_carry(request); }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return storage.emplace<MovePairwiseOperation>(*port_, shape_, call);
  }

 private:
  std::shared_ptr<MessagePort> port_;
  GroupShape shape_;
};

}  // namespace

std::unique_ptr<Algorithm> make_move_pairwise(const AlgorithmModel& model,
                                              std::shared_ptr<MessagePort> port, GroupShape shape) {
  return std::make_unique<MovePairwise>(model, std::move(port), shape);
}

}  // namespace hymn
