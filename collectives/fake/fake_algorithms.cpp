#include "collectives/fake/fake_algorithms.hpp"

#include <algorithm>

#include "base/paths.hpp"
#include "collectives/fake/fake_operation.hpp"
#include "collectives/planner/planner.hpp"
#include "collectives/reduce/can_reduce.hpp"

namespace hymn {
namespace {

using Context = std::shared_ptr<const PlanContext>;

/// Of what each member knows alone its own share.
PlanQuery query_of(const Request& request, int ranks) {
  if (const auto query = plan_query(request, ranks)) return *query;
  const bool has_input = request.inputs.layout() != Layout::none;
  const std::size_t in = request.inputs.total_count() * request.inputs.element_bytes();
  const std::size_t out = request.outputs.total_count() * request.outputs.element_bytes();
  return {.type = request.type,
          .dtype = has_input ? request.inputs.dtype() : request.outputs.dtype(),
          .op = request.op.kind(),
          .bytes = std::max(in, out)};
}

class FakeAlgorithm final : public Algorithm {
 public:
  FakeAlgorithm(const AlgorithmModel& model, Context context, const GroupShape& shape)
      : Algorithm(model), context_(std::move(context)), shape_(shape) {}

  Verdict can_run(const Request& request) const override {
    if (request.type == OpType::probe)
      return Verdict::no("in a fake world no message comes that could be looked at");
    if (Verdict known = can_reduce_and_move(request); !known.ok) return known;
    return model().can_run(query_of(request, shape_.size), *context_);
  }
  /// As little depends on the order of the ranks as on the ranks.
  Reproducibility promises(const Request&) const override { return Reproducibility::size; }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    // Refuses a factor that the type cannot hold.
    if (reduces(call.request->type))
      reducer_for(call.request->inputs.dtype(), call.request->op, shape_.reproducibility);
    return storage.emplace<FakeOperation>(shape_, call);
  }

 private:
  Context context_;
  GroupShape shape_;
};

bool is_of_processes_over_mpi(const AlgorithmModel& model) {
  return model.memory == MemoryKind::host && model.path != paths::threads &&
         model.path != paths::tcp && is_in_this_build(model);
}

}  // namespace

void add_fake_algorithms(Algorithms& algorithms, Context context, const GroupShape& shape) {
  for (const AlgorithmModel* model : algorithm_models())
    if (is_of_processes_over_mpi(*model))
      algorithms.push_back(std::make_unique<FakeAlgorithm>(*model, context, shape));
}

}  // namespace hymn
