// scan, exscan: the result so far goes from each rank to the next one, in accumulator form, piece
// by piece, so that all ranks are at work on another piece. Each element is reduced in rank order.
#pragma once

#include <algorithm>
#include <cstring>

#include "collectives/pairwise/port_operation.hpp"
#include "collectives/reduce/reducer.hpp"

namespace hymn {

class ScanPairwiseOperation final : public PortOperation {
 public:
  ScanPairwiseOperation(MessagePort& port, GroupShape shape, const Call& call)
      : PortOperation(port, call),
        shape_(shape),
        reducer_(reducer_for(call.request->inputs.dtype(), call.request->op)),
        left_(call.request->inputs.flat()),
        output_(call.request->outputs.flat()),
        is_inclusive_(call.request->type == OpType::scan),
        transfers_(shape.size > 1 ? port.open() : nullptr) {}

  void start() override {
    enter();
    if (shape_.size == 1) {
      if (is_inclusive_) reduce_all(reducer_, &left_.data, 1, output_.data, left_.count);
      return;
    }
    room_bytes_ = next_count() * reducer_.accumulator_bytes;
    rooms_ = std::make_unique_for_overwrite<std::byte[]>(3 * room_bytes_);
    recv_next();
  }

  bool step() override {
    if (shape_.size == 1) return true;
    while (transfers_->test()) {
      if (is_over_) return true;
      do_piece();
      if (!is_over_) recv_next();
    }
    return false;
  }

  bool peers_need_steps() const override { return true; }
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override {
    struct Kept final : AbandonedOperation {
      std::unique_ptr<std::byte[]> rooms;
      std::unique_ptr<AbandonedOperation> transfers;
      bool done() override { return transfers == nullptr || transfers->done(); }
    };
    auto kept = std::make_unique<Kept>();
    kept->rooms = std::move(rooms_);
    if (transfers_) kept->transfers = transfers_->abandon(reason);
    return kept;
  }

 private:
  /// Of accumulators: some fit the second-level cache, and each takes longer than a message's
  /// start.
  static constexpr std::size_t piece_bytes = std::size_t{64} << 10;

  bool is_first() const { return shape_.rank == 0; }
  bool is_last() const { return shape_.rank == shape_.size - 1; }
  std::size_t next_count() const {
    return std::min(left_.count,
                    std::max<std::size_t>(piece_bytes / reducer_.accumulator_bytes, 1));
  }
  /// What comes, and then goes: while one piece leaves, the next one comes.
  std::byte* passing() const { return rooms_.get() + (turn_ % 2) * room_bytes_; }
  /// This rank's input, as accumulators.
  std::byte* own() const { return rooms_.get() + 2 * room_bytes_; }
  BufferView bytes_of(std::size_t count) const {
    return BufferView(passing(), count * reducer_.accumulator_bytes, DataType::uint8);
  }

  /// Nothing is a piece, too, if it is all there is: so each rank hears from the one before it.
  void recv_next() {
    if (!is_first()) transfers_->recv(shape_.rank - 1, tag(0), bytes_of(next_count()));
  }

  void do_piece() {
    const std::size_t count = next_count();
    if (count != 0) reduce(count);
    if (!is_last()) transfers_->send(shape_.rank + 1, tag(0), bytes_of(count));
    left_ = left_.slice(count, left_.count - count);
    output_ = output_.slice(count, output_.count - count);
    is_over_ = left_.count == 0;
    ++turn_;
  }

  // In place, the input is gone once the output is there.
  void reduce(std::size_t count) {
    load_own(count);
    if (!is_inclusive_ && !is_first()) store(count);
    if (is_first()) std::memcpy(passing(), own(), count * reducer_.accumulator_bytes);
    // Folding the first with itself gives the same number, or the one NaN that stands for all.
    if (!is_first() || traits_of(reducer_.kind).family == ReduceFamily::order)
      reducer_.combine(passing(), own(), count);
    if (is_inclusive_) store(count);
  }

  void load_own(std::size_t count) const {
    if (reducer_.needs_load())
      reducer_.load(own(), left_.data, count, reducer_.factor);
    else
      std::memcpy(own(), left_.data, count * reducer_.accumulator_bytes);
  }
  void store(std::size_t count) const {
    if (reducer_.needs_store())
      reducer_.store(output_.data, passing(), count, shape_.rank + 1);
    else
      std::memcpy(output_.data, passing(), count * reducer_.accumulator_bytes);
  }

  GroupShape shape_;
  Reducer reducer_;
  ConstBufferView left_;  // of the input, and the output for that
  BufferView output_;
  bool is_inclusive_;
  bool is_over_ = false;
  unsigned turn_ = 0;  // counts pieces
  std::size_t room_bytes_ = 0;
  std::unique_ptr<std::byte[]> rooms_;  // must outlive the transfers
  std::unique_ptr<Transfers> transfers_;
};

}  // namespace hymn
