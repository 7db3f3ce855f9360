// What the links of a group's hosts carry, in bytes per second and direction.
#pragma once

#include "collectives/plan_context.hpp"

namespace hymn {

/// Of one GPU when all read from all others at the same time.
double peer_bandwidth(const PlanContext& context);
/// Of a ring through all GPUs of the host with the narrowest one.
double ring_bandwidth(const PlanContext& context);
/// Of a host's network: its widest interface, or all of them together; the least of all hosts.
enum class Interfaces : unsigned char { widest, all };
double network_bandwidth(const PlanContext& context, Interfaces interfaces);

}  // namespace hymn
