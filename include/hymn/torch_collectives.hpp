// Collectives of libtorch's tensors in the memory of the host: docs/training.md.
//
// They see no autograd: what they write is no function of what they read. Tensors may lie in any
// way; those without gaps travel as they lie, so that ranks whose strides differ are told
// (HYMN_CHECKS), others as copies. Errors: hymn::torch::Error.
#pragma once

#include "hymn/standard.hpp"  // first

#include <memory>
#include <string>
#include <utility>

#include "hymn/hymn_shaped.h"
#include "hymn/torch_group.hpp"
#include "hymn/torch_tensors.hpp"

namespace hymn::torch {

namespace detail {

/// What a collective reads and writes: tensors, or contiguous copies of them.
class Operands {
 public:
  /// `as_blocks`: rows are cut into one block for each rank, so that they must be contiguous.
  Operands(const at::Tensor& input, const at::Tensor& output, bool as_blocks) : output_(output) {
    require_host_tensor(input, "the input");
    require_host_tensor(output, "the output");
    if (input.scalar_type() != output.scalar_type())
      throw Error(hymnUsageError, std::string("the input is of ") +
                                      c10::toString(input.scalar_type()) + ", the output of " +
                                      c10::toString(output.scalar_type()));
    for (std::int64_t i = 0; i < output.dim(); ++i)
      if (output.stride(i) == 0 && output.size(i) > 1)
        throw Error(hymnUsageError, "elements of the output share their memory: clone it first");
    const bool is_in_place = input.is_same(output);
    receives_ = usable(output, as_blocks);
    sends_ = is_in_place ? receives_ : usable(input, as_blocks);
  }

  const at::Tensor& sends() const { return sends_; }
  const at::Tensor& receives() const { return receives_; }
  /// Results go to where the caller expects them.
  void finish() const {
    const c10::NoGradGuard no_grad;
    if (!receives_.is_same(output_)) output_.copy_(receives_);
  }

 private:
  static at::Tensor usable(const at::Tensor& tensor, bool as_blocks) {
    const bool is = as_blocks ? tensor.is_contiguous() : tensor.is_non_overlapping_and_dense();
    const c10::NoGradGuard no_grad;
    // Whose elements are not what lies in memory.
    if (tensor.is_conj() || tensor.is_neg())
      return tensor.resolve_conj().resolve_neg().contiguous();
    return is ? tensor : tensor.contiguous();
  }

  at::Tensor output_;
  at::Tensor sends_;
  at::Tensor receives_;
};

inline hymnShape_t shape_of(const at::Tensor& tensor) {
  return {tensor.sizes().data(), tensor.strides().data(), tensor.sizes().size()};
}

}  // namespace detail

/// A collective in flight, with its tensors. When the last copy is dropped it is waited for, as
/// nothing else keeps these. Not for use inside a coalescing scope.
class Work {
 public:
  Work(hymnWork_t work, const detail::Operands& operands)
      : state_(std::make_shared<State>(work, operands)) {}

  /// Waits until the output is there, once. Throws Error where the operation has failed, or its
  /// limit has passed. Without it the output is not to be looked at.
  void wait() {
    if (state_->work == nullptr)
      throw Error(hymnUsageError, "this work is not waited for here: a hook has given it away");
    detail::check_own(hymnWorkWait(state_->work));
    state_->operands->finish();
  }

  /// For hooks: the handle, which is the caller's then, and what must live until it has completed.
  std::pair<hymnWork_t, std::unique_ptr<detail::Operands>> release() {
    return {std::exchange(state_->work, nullptr),
            std::unique_ptr<detail::Operands>(std::exchange(state_->operands, nullptr))};
  }

 private:
  struct State {
    State(hymnWork_t work_, const detail::Operands& operands_)
        : work(work_), operands(new detail::Operands(operands_)) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
      if (work == nullptr) return;
      // MPI may go on writing to what a failed operation was given: that stays.
      if (hymnWorkWait(work) == hymnSuccess) delete operands;
      hymnWorkFree(work);
    }

    hymnWork_t work;
    detail::Operands* operands;
  };
  std::shared_ptr<State> state_;
};

namespace detail {

inline Work start(hymnCollective_t collective, const Operands& operands, hymnCollectiveCall_t call,
                  const Group& group) {
  const at::Tensor& sends = operands.sends();
  const at::Tensor& receives = operands.receives();
  call.sendbuf = sends.data_ptr();
  call.recvbuf = receives.data_ptr();
  call.dtype = data_type_of(sends.scalar_type());
  const hymnShape_t send = shape_of(sends);
  const hymnShape_t recv = shape_of(receives);
  hymnWork_t work = nullptr;
  check_own(hymnICollectiveShaped(collective, &call, &send, &recv, group.handle(), nullptr, &work));
  return {work, operands};
}

inline Work start_in_place(hymnCollective_t collective, const at::Tensor& tensor, hymnOp_t op,
                           int root, const Group& group) {
  const Operands operands(tensor, tensor, false);
  hymnCollectiveCall_t call{};
  call.count = static_cast<std::size_t>(tensor.numel());
  call.op = op;
  call.root = root;
  return start(collective, operands, call, group);
}

/// `many` has `few` for each rank of the group.
inline std::size_t block_of(const at::Tensor& many, const at::Tensor& few, const Group& group) {
  require_host_tensor(many, "a tensor");
  require_host_tensor(few, "a tensor");
  if (many.numel() != few.numel() * group.size())
    throw Error(hymnUsageError, "of " + std::to_string(many.numel()) + " and " +
                                    std::to_string(few.numel()) + " elements the one is not " +
                                    std::to_string(group.size()) +
                                    " times the other: a block for each rank");
  return static_cast<std::size_t>(few.numel());
}

}  // namespace detail

// Each has a twin that only starts it. Ranks are global, as in hymn.h.

/// In place: the reduction of the tensors of all ranks.
inline Work all_reduce_async(const at::Tensor& tensor, const Group& group, hymnOp_t op = hymnSum) {
  return detail::start_in_place(hymnCollectiveAllReduce, tensor, op, 0, group);
}
inline void all_reduce(const at::Tensor& tensor, const Group& group, hymnOp_t op = hymnSum) {
  all_reduce_async(tensor, group, op).wait();
}

/// The root's becomes everybody's.
inline Work broadcast_async(const at::Tensor& tensor, int root, const Group& group) {
  return detail::start_in_place(hymnCollectiveBroadcast, tensor, hymnSum, root, group);
}
inline void broadcast(const at::Tensor& tensor, int root, const Group& group) {
  broadcast_async(tensor, root, group).wait();
}

/// The root's becomes the reduction of all; the others' stay as they are.
inline Work reduce_async(const at::Tensor& tensor, int root, const Group& group,
                         hymnOp_t op = hymnSum) {
  return detail::start_in_place(hymnCollectiveReduce, tensor, op, root, group);
}
inline void reduce(const at::Tensor& tensor, int root, const Group& group, hymnOp_t op = hymnSum) {
  reduce_async(tensor, root, group, op).wait();
}

/// As all_gather_into_tensor: the inputs of all ranks, one after the other.
inline Work all_gather_async(const at::Tensor& output, const at::Tensor& input,
                             const Group& group) {
  hymnCollectiveCall_t call{};
  call.count = detail::block_of(output, input, group);
  return detail::start(hymnCollectiveAllGather, {input, output, true}, call, group);
}
inline void all_gather(const at::Tensor& output, const at::Tensor& input, const Group& group) {
  all_gather_async(output, input, group).wait();
}

/// As reduce_scatter_tensor: of the reduction of the inputs, this rank's block.
inline Work reduce_scatter_async(const at::Tensor& output, const at::Tensor& input,
                                 const Group& group, hymnOp_t op = hymnSum) {
  hymnCollectiveCall_t call{};
  call.count = detail::block_of(input, output, group);
  call.op = op;
  return detail::start(hymnCollectiveReduceScatter, {input, output, true}, call, group);
}
inline void reduce_scatter(const at::Tensor& output, const at::Tensor& input, const Group& group,
                           hymnOp_t op = hymnSum) {
  reduce_scatter_async(output, input, group, op).wait();
}

/// As all_to_all_single, with equal blocks: block i of the output is from rank i.
inline Work all_to_all_async(const at::Tensor& output, const at::Tensor& input,
                             const Group& group) {
  const int ranks = group.size();
  if (output.numel() != input.numel() || input.numel() % ranks != 0)
    throw Error(hymnUsageError, "an all_to_all of " + std::to_string(input.numel()) + " to " +
                                    std::to_string(output.numel()) + " elements, between " +
                                    std::to_string(ranks) + " ranks");
  hymnCollectiveCall_t call{};
  call.count = static_cast<std::size_t>(input.numel() / ranks);
  return detail::start(hymnCollectiveAllToAll, {input, output, true}, call, group);
}
inline void all_to_all(const at::Tensor& output, const at::Tensor& input, const Group& group) {
  all_to_all_async(output, input, group).wait();
}

}  // namespace hymn::torch
