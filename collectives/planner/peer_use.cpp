#include "collectives/planner/peer_use.hpp"

#include <fmt/format.h>

namespace hymn {
namespace {

bool is_hierarchical(std::string_view algorithm) {
  return algorithm.find("_hierarchical_") != std::string_view::npos;
}

// The sizes up to which PyTorch's all_reduce inside a node works in one shot, and at all.
constexpr std::size_t c10d_one_shot = std::size_t{256} << 10;
constexpr std::size_t c10d_two_shot = std::size_t{10} << 20;

std::string left_by_c10d(std::string_view algorithm, const PlanQuery& query) {
  if (is_hierarchical(algorithm)) return std::string(c10d_inside_a_host);
  if (query.type != OpType::all_reduce || query.dtype != DataType::bfloat16 ||
      query.op != ReduceKind::sum)
    return "HYMN_P2P_COMPAT=c10d: only all_reduce of bfloat16 with sum";
  if (query.bytes > c10d_two_shot)
    return fmt::format("HYMN_P2P_COMPAT=c10d: at most {} bytes", c10d_two_shot);
  const bool in_one = query.bytes <= c10d_one_shot;
  if (in_one == (algorithm == "all_reduce_one_shot")) return "";
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

std::string held_back(std::string_view path, std::string_view algorithm, const PlanQuery& query,
                      const PlanContext& context) {
  if (path != paths::cuda_p2p || context.peers == PeerUse::named) return "";
  if (context.peers == PeerUse::c10d) return left_by_c10d(algorithm, query);
  if (measured_seconds(path, algorithm, query, context)) return "";
  return not_measured(context.layout.size,
                      reduces(query.type) ? std::optional(query.dtype) : std::nullopt);
}

bool is_settled(std::string_view path, std::string_view algorithm, const PlanQuery& query,
                const PlanContext& context) {
  return path == paths::cuda_p2p && context.peers == PeerUse::c10d &&
         left_by_c10d(algorithm, query).empty();
}

}  // namespace hymn
