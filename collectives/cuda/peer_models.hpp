// What hymn's kernels between GPUs can do, and what they cost. The rules and figures of peer memory
// are here in builds without its kernels, too, so that `hymn explain` can tell what a machine is
// good for.
#pragma once

#include "collectives/algorithm_model.hpp"

namespace hymn::peer_models {

extern const AlgorithmModel one_shot;
extern const AlgorithmModel two_shot;
extern const AlgorithmModel windows;
/// all_reduce on several hosts: peer memory inside each; between them messages, in memory of the
/// host.
extern const AlgorithmModel hierarchical_staged;

/// What such all_reduces have in common, whatever goes between hosts.
Verdict can_reduce_by_host(const PlanQuery& query, const PlanContext& context);
double seconds_inside_hosts(const PlanQuery& query, const PlanContext& context);
/// The ranks of a host take a share each, at the same time, and share the host's network: together
/// they are as one rank of each host with all of it. Bytes moved for each byte of the size.
double bytes_between_hosts(const PlanContext& context);

}  // namespace hymn::peer_models
