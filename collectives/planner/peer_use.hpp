// When operations may go through the peer memory of GPUs, beyond whether they can.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/config.hpp"
#include "base/private.hpp"
#include "collectives/planner/planner.hpp"

namespace hymn {

/// The reason where ranks are on several hosts.
inline constexpr std::string_view c10d_inside_a_host = "HYMN_P2P_COMPAT=c10d: only inside a host";
/// The reason for everything else than this.
inline constexpr std::string_view c10d_carries =
    "HYMN_P2P_COMPAT=c10d: only all_reduce of bfloat16 with sum";

/// Of a group with this path setting.
HYMN_PRIVATE PeerUse peer_use(const PathPolicy& path, P2pCompat compat);

/// The reason where nothing of it has been measured on so many ranks, or nothing of reductions of
/// that type.
std::string not_measured(int ranks, std::optional<DataType> dtype = std::nullopt);

/// Why an operation is left to other paths though its own could carry it; empty: it is not. Only
/// peer memory ever is.
HYMN_PRIVATE std::string held_back(const AlgorithmModel& model, const PlanQuery& query,
                                   const PlanContext& context);

/// Whether an operation takes this path by a setting, whatever others cost.
bool is_settled(const AlgorithmModel& model, const PlanQuery& query, const PlanContext& context);

}  // namespace hymn
