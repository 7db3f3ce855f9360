#include "collectives/hierarchical/hierarchical.hpp"

#include "collectives/hierarchical/collective.hpp"
#include "collectives/hierarchical/hierarchical_model.hpp"
#include "collectives/shm_base/shm_reduction.hpp"

namespace hymn {
namespace {

class Hierarchical final : public Algorithm {
 public:
  Hierarchical(HierarchyParts parts, std::string refusal)
      : Algorithm(hierarchical_model), refusal_(std::move(refusal)) {
    if (refusal_.empty()) hierarchy_ = std::make_shared<Hierarchy>(std::move(parts));
  }

  Verdict can_run(const Request& request) const override {
    if (!refusal_.empty()) return Verdict::no(refusal_);
    if (request.type == OpType::barrier) return Verdict::yes();
    const bool cuts_input = has_input_blocks(request.type);
    const bool cuts_output = has_output_blocks(request.type);
    if ((cuts_input && request.inputs.layout() != Layout::equal) ||
        (cuts_output && request.outputs.layout() != Layout::equal))
      return Verdict::no("the blocks are not equal parts of one buffer");
    if (request.inputs.dtype() == DataType::opaque)
      return Verdict::no("unknown MPI type: its layout is known to MPI alone");
    if (request.inputs.dtype() == DataType::value)
      if (Verdict whole = cuts_whole(request.inputs.element_bytes()); !whole.ok) return whole;
    if (reduces(request.type)) {
      Verdict verdict = can_reduce_in_memory(request);
      if (!verdict.ok) return verdict;
    }
    const auto* custom = request.op.custom_reduction();
    if (reduces(request.type) && custom != nullptr && !custom->commutative)
      if (Verdict ordered = Hierarchy::can_scan(hierarchy_->map().in_rank_order()); !ordered.ok)
        return ordered;
    if (is_prefix(request.type)) return Hierarchy::can_scan(hierarchy_->map().in_rank_order());
    if (!cuts_input && !cuts_output) return Verdict::yes();
    return Hierarchy::has_room_for_blocks(hierarchy_->map().members(),
                                          request.inputs.element_bytes());
  }
  // What a host comes to depends on who is there.
  Reproducibility promises(const Request&) const override { return Reproducibility::runs; }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return storage.emplace<HierarchicalCollective>(hierarchy_, call);
  }

 private:
  std::string refusal_;
  std::shared_ptr<Hierarchy> hierarchy_;
};

}  // namespace

std::unique_ptr<Algorithm> make_hierarchical(HierarchyParts parts, std::string refusal) {
  return std::make_unique<Hierarchical>(std::move(parts), std::move(refusal));
}

}  // namespace hymn
