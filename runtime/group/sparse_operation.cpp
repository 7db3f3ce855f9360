#include "runtime/group/sparse_operation.hpp"

#include <algorithm>

#include "collectives/pairwise/pairwise.hpp"
#include "collectives/pairwise/pairwise_models.hpp"
#include "p2p/exchange_port.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/world_context.hpp"

namespace hymn::detail {
namespace {

GroupShape shape_of(const GroupState& group) {
  GroupShape shape = group.members().shape();
  shape.reproducibility =
      group.options().reproducibility.value_or(group.world().settings.reproducibility);
  return shape;
}

class AbandonedParts final : public AbandonedOperation {
 public:
  AbandonedParts(std::vector<std::unique_ptr<AbandonedOperation>> parts,
                 std::shared_ptr<SparseReduction> memory)
      : memory_(std::move(memory)), parts_(std::move(parts)) {}
  bool done() override {
    return std::ranges::all_of(parts_, [](const auto& part) { return part->done(); });
  }

 private:
  std::shared_ptr<SparseReduction> memory_;  // which parts may still write to
  std::vector<std::unique_ptr<AbandonedOperation>> parts_;
};

}  // namespace

// The port is of this call alone: so what it tells of calls does not depend on others that are
// under way.
SparseOperation::SparseOperation(const GroupState& group,
                                 std::shared_ptr<SparseReduction> reduction, Algorithm& algorithm,
                                 const Call& call, ErrorContext context, SparseTensor* result)
    : shape_(shape_of(group)),
      reduction_(std::move(reduction)),
      port_(make_exchange_port(group.means().exchange, group.members().ranks())),
      call_(call),
      context_(std::move(context)),
      result_(result),
      heads_(std::make_unique<OperationStorage>()) {
  algorithm.prepare(*heads_, call);
}

bool SparseOperation::step() {
  if (!has_heads_) {
    if (!heads_->get()->step()) return false;
    has_heads_ = true;
    try {
      reduction_->require_agreement(context_);
    } catch (const Error&) {  // what all have found alike
      refusal_ = std::current_exception();
      return true;
    }
    if (!reduction_->goes_by_messages()) return true;
    begin_rest();
  }
  std::erase_if(rest_, [](const auto& operation) { return operation->get()->step(); });
  if (!rest_.empty()) return false;
  if (result_ != nullptr) *result_ = reduction_->result();
  return true;
}

void SparseOperation::begin_rest() {
  for (const Request& request : reduction_->requests()) {
    call_.request = &request;
    const bool reduces = request.type == OpType::all_reduce;
    const auto algorithm = reduces
                               ? make_reduce_pairwise(pairwise_models::over_exchange, port_, shape_)
                               : make_move_pairwise(pairwise_models::over_exchange, port_, shape_);
    rest_.push_back(std::make_unique<OperationStorage>());
    algorithm->prepare(*rest_.back(), call_);
    rest_.back()->get()->start();
  }
}

std::unique_ptr<AbandonedOperation> SparseOperation::abandon(const std::string& reason) noexcept {
  std::vector<std::unique_ptr<AbandonedOperation>> parts;
  const auto leave = [&](const std::unique_ptr<OperationStorage>& operation) {
    if (operation->get() == nullptr) return;
    if (auto part = operation->get()->abandon(reason)) parts.push_back(std::move(part));
  };
  if (!has_heads_) leave(heads_);
  std::ranges::for_each(rest_, leave);
  return parts.empty() ? nullptr : std::make_unique<AbandonedParts>(std::move(parts), reduction_);
}

}  // namespace hymn::detail
