#include "collectives/planner/planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/kept_name.hpp"
#include "base/paths.hpp"
#include "collectives/cuda/kernel_image.hpp"
#include "collectives/planner/models.hpp"
#include "collectives/planner/peer_use.hpp"
#include "collectives/planner/tuning_table.hpp"

namespace hymn {
namespace {

// What a model stands on is written beside its figures.
std::string_view source_of(std::string_view path, std::string_view method) {
  return cost_row(path, method, CostSetting::one_host).stands_on;
}

const std::array<PathModel, 22>& models() {
  static const bool has_kernels = !cuda::kernel_image().empty();
  static const std::array<PathModel, 22> all = {{
      {"cuda_p2p", "all_reduce_one_shot", has_kernels, peer_one_shot_can_run, peer_one_shot_seconds,
       source_of("cuda_p2p", "one_shot")},
      {"cuda_p2p", "all_reduce_two_shot", has_kernels, peer_two_shot_can_run, peer_two_shot_seconds,
       source_of("cuda_p2p", "two_shot")},
      {"cuda_p2p", "*_windows", has_kernels, peer_windows_can_run, peer_windows_seconds,
       source_of("cuda_p2p", "windows"), peer_windows_serve},
      {"cuda_p2p", "all_reduce_hierarchical_nccl", has_kernels, hierarchical_nccl_can_run,
       hierarchical_nccl_seconds, source_of("cuda_p2p", "hierarchical_nccl")},
      {"cuda_p2p", "all_reduce_hierarchical_staged", has_kernels, hierarchical_staged_can_run,
       hierarchical_staged_seconds, source_of("cuda_p2p", "hierarchical_staged")},
      {"nccl", "*_nccl", true, nccl_can_run, nccl_seconds, source_of("nccl", "nccl")},
      {"shm", "all_reduce_one_shot", true, shm_one_shot_can_run, shm_one_shot_seconds,
       source_of("shm", "one_shot")},
      {"shm", "all_reduce_swapped", true, shm_swapped_can_run, shm_swapped_seconds,
       source_of("shm", "swapped")},
      {"shm", "all_reduce_sharing", true, shm_can_run, shm_sharing_seconds,
       source_of("shm", "sharing")},
      {"shm", "all_reduce_two_shot", true, shm_can_run, shm_two_shot_seconds,
       source_of("shm", "two_shot")},
      {"shm", "*_shown", true, shm_shown_can_run, shm_shown_seconds, source_of("shm", "one_shot"),
       shm_shown_serve},
      {"shm", "scatter_slots", true, shm_scatter_can_run, shm_slots_seconds,
       source_of("shm", "slots")},
      {"shm", "*_slots", true, shm_can_run, shm_slots_seconds, source_of("shm", "slots"),
       shm_slots_serve},
      {"shm", "*_flags", true, shm_can_run, shm_slots_seconds, source_of("shm", "slots"),
       shm_flags_serve},
      {"shm", "*_rings", true, shm_can_run, shm_slots_seconds, source_of("shm", "slots"),
       shm_rings_serve},
      {"shm", "*_pairwise", true, shm_can_run, shm_messages_seconds, source_of("shm", "messages")},
      {"hierarchical", "*_hierarchical", true, hierarchical_can_run, hierarchical_seconds,
       source_of("hierarchical", "hierarchical")},
      {"threads", "*_direct", true, threads_can_run, threads_seconds,
       source_of("threads", "direct")},
      {"mpi", "*_mpi", true, mpi_can_run, mpi_seconds, source_of("mpi", "mpi")},
      {"mpi_p2p", "*_pairwise", true, messages_can_run, mpi_p2p_seconds,
       source_of("mpi_p2p", "pairwise")},
      {"exchange", "*_pairwise", true, messages_can_run, exchange_seconds,
       source_of("exchange", "pairwise")},
      {"staged", "*_staged", true, staged_can_run, staged_seconds, source_of("staged", "staged")},
  }};
  return all;
}

// A barrier on a stream is not to hold up the host, as what is staged does, however fast it is.
bool spares_the_host(std::string_view path, const PlanQuery& query) {
  return query.type == OpType::barrier && is_on_device(query) && path != paths::staged;
}

// It is NCCL's own for float32, and copies on the GPU that take little beside it.
bool is_widened(std::string_view path, std::string_view algorithm) {
  return path == paths::nccl && algorithm.ends_with("_float32");
}

bool is_model_of(const PathModel& model, std::string_view path, std::string_view algorithm) {
  if (model.path != path) return false;
  if (!model.algorithm.starts_with('*')) return model.algorithm == algorithm;
  return algorithm.ends_with(model.algorithm.substr(1));
}

/// Whether every path that has no list of its own carries it out.
bool is_on_all_paths(OpType type) {
  switch (type) {
    case OpType::all_reduce:
    case OpType::broadcast:
    case OpType::reduce:
    case OpType::gather:
    case OpType::scatter:
    case OpType::all_gather:
    case OpType::reduce_scatter:
    case OpType::all_to_all:
    case OpType::barrier:
      return true;
    case OpType::send:
    case OpType::recv:
    case OpType::batch:
      break;
  }
  return false;
}

}  // namespace

bool PathModel::serves(OpType type) const {
  if (algorithm.starts_with('*')) return only == nullptr ? is_on_all_paths(type) : only(type);
  return algorithm_for(algorithm, type) == algorithm;
}

std::span<const PathModel> path_models() { return models(); }

std::string_view algorithm_for(std::string_view name, OpType type) {
  const std::string_view collective = to_string(type);
  if (!is_collective(type) ||
      (name.starts_with(collective) && name.substr(collective.size()).starts_with('_')))
    return name;
  const std::size_t last = name.rfind('_');
  return kept_name(fmt::format("{}_{}", collective,
                               last == std::string_view::npos ? name : name.substr(last + 1)));
}

std::optional<double> measured_seconds(std::string_view path, std::string_view algorithm,
                                       const PlanQuery& query, const PlanContext& context) {
  if (context.tuning == nullptr) return std::nullopt;
  const MemoryKind memory = is_on_device(query) ? MemoryKind::device : MemoryKind::host;
  return context.tuning->seconds(path, algorithm, query.type, query.dtype, context.layout.size,
                                 static_cast<int>(context.layout.hosts.size()), query.bytes,
                                 memory);
}

Cost predict(std::string_view path, std::string_view algorithm, const PlanQuery& query,
             const PlanContext& context) {
  const GroupLayout& layout = context.layout;
  if (layout.hosts.empty()) return {};
  const bool settled = is_settled(path, algorithm, query, context) || spares_the_host(path, query);
  if (const auto measured = measured_seconds(path, algorithm, query, context))
    return {*measured, "tuned on " + context.tuning->measured, settled};
  if (is_widened(path, algorithm)) {
    PlanQuery wide = query;
    wide.bytes = query.bytes / size_of(query.dtype) * size_of(DataType::float32);
    return {nccl_seconds(wide, context), "default table", settled};
  }
  for (const PathModel& model : path_models())
    if (is_model_of(model, path, algorithm))
      return {model.seconds(query, context), "default table", settled};
  return {};
}

bool is_faster(const Cost& cost, const Cost& other) {
  if (cost.is_settled != other.is_settled) return cost.is_settled;
  return cost.seconds > 0 && other.seconds > 0 && cost.seconds < other.seconds;
}

}  // namespace hymn
