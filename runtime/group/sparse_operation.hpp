// A sparse all_reduce as one operation: of a Work the whole, of a blocking call what all ranks must
// know of each other, and the rest where another rank has a Work of it.
#pragma once

#include <memory>
#include <vector>

#include "collectives/algorithm.hpp"
#include "p2p/message_port.hpp"
#include "runtime/group/sparse_reduction.hpp"

namespace hymn::detail {

/// The all_gather of heads is carried as any other, in its place among the calls of the group. What
/// comes then begins on each rank when that has the heads, which is in no order with other calls:
/// so it goes by messages of its own, over the exchange that each group has. Where all ranks make
/// the blocking call it ends with the heads.
class SparseOperation final : public Operation {
 public:
  /// `call` is that of the heads, and `algorithm` carries it. `context` is that of errors of which
  /// all ranks hear. `result`: null, where the caller takes it from the reduction.
  SparseOperation(const GroupState& group, std::shared_ptr<SparseReduction> reduction,
                  Algorithm& algorithm, const Call& call, ErrorContext context,
                  SparseTensor* result);

  void start() override { heads_->get()->start(); }
  bool step() override;
  bool peers_need_steps() const override { return true; }
  std::exception_ptr refusal() const override { return refusal_; }
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override;

 private:
  void begin_rest();

  GroupShape shape_;
  std::shared_ptr<SparseReduction> reduction_;
  std::shared_ptr<MessagePort> port_;
  Call call_;
  ErrorContext context_;
  SparseTensor* result_;
  std::unique_ptr<OperationStorage> heads_;
  /// Under way after the heads; those that have completed are gone.
  std::vector<std::unique_ptr<OperationStorage>> rest_;
  bool has_heads_ = false;
  std::exception_ptr refusal_;
};

}  // namespace hymn::detail
