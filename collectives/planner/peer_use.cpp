#include "collectives/planner/peer_use.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/cuda/peer_models.hpp"
#include "collectives/nccl/nccl_models.hpp"

namespace hymn {
namespace {

bool is_hierarchical(const AlgorithmModel& model) {
  return &model == &nccl_models::hierarchical_nccl || &model == &peer_models::hierarchical_staged;
}

// The sizes up to which PyTorch's all_reduce inside a node works in one shot, and at all.
constexpr std::size_t c10d_one_shot = std::size_t{256} << 10;
constexpr std::size_t c10d_two_shot = std::size_t{10} << 20;
// For the latter it rounds sizes up, so that every rank has whole steps of its warps.
constexpr std::size_t c10d_step = 512;
constexpr int c10d_ranks = 8;

/// Whether the GPUs of a host are known to reach each other by something else than NVLink.
bool is_without_nvlink(const HostSummary& host) {
  return host.worst_link >= GpuLinkKind::pcie_switch && host.worst_link < GpuLinkKind::unknown;
}

std::string left_by_c10d(const AlgorithmModel& model, const PlanQuery& query,
                         const GroupLayout& layout) {
  if (layout.size > c10d_ranks)
    return fmt::format("HYMN_P2P_COMPAT=c10d: at most {} ranks", c10d_ranks);
  if (std::any_of(layout.hosts.begin(), layout.hosts.end(), is_without_nvlink))
    return "HYMN_P2P_COMPAT=c10d: only over NVLink";
  if (is_hierarchical(model)) return std::string(c10d_inside_a_host);
  if (query.type != OpType::all_reduce || query.dtype != DataType::bfloat16 ||
      query.op != ReduceKind::sum)
    return std::string(c10d_carries);
  const std::size_t step = c10d_step * static_cast<std::size_t>(std::max(layout.size, 1));
  if (const std::size_t most = c10d_two_shot / step * step; query.bytes > most)
    return fmt::format("HYMN_P2P_COMPAT=c10d: at most {} bytes", most);
  const bool in_one = query.bytes <= c10d_one_shot;
  if (in_one == (&model == &peer_models::one_shot)) return "";
  return fmt::format("HYMN_P2P_COMPAT=c10d: {} {} bytes take {}", in_one ? "up to" : "more than",
                     c10d_one_shot, in_one ? "one shot" : "two shots");
}

}  // namespace

PeerUse peer_use(const PathPolicy& path, P2pCompat compat) {
  if (compat == P2pCompat::c10d) return PeerUse::c10d;
  return path.names(paths::cuda_p2p) ? PeerUse::named : PeerUse::measured;
}

std::string not_measured(int ranks, std::optional<DataType> dtype) {
  return fmt::format(
      "it has not been measured here: run `hymn tune --memory device{}` on {} ranks, or name "
      "cuda_p2p in HYMN_PATH",
      dtype ? fmt::format(" --dtype {}", to_string(*dtype)) : "", ranks);
}

std::string held_back(const AlgorithmModel& model, const PlanQuery& query,
                      const PlanContext& context) {
  if (model.path != paths::cuda_p2p || context.peers == PeerUse::named) return "";
  if (context.peers == PeerUse::c10d) return left_by_c10d(model, query, context.layout);
  if (measured_seconds(model, query, context)) return "";
  return not_measured(context.layout.size,
                      reduces(query.type) ? std::optional(query.dtype) : std::nullopt);
}

bool is_settled(const AlgorithmModel& model, const PlanQuery& query, const PlanContext& context) {
  return model.path == paths::cuda_p2p && context.peers == PeerUse::c10d &&
         left_by_c10d(model, query, context.layout).empty();
}

}  // namespace hymn
