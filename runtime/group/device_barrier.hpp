// Barriers that are given the ids of GPUs.
#pragma once

#include <cstdint>
#include <span>

#include "hymn/group_options.hpp"
#include "runtime/group/group_state.hpp"

namespace hymn::detail {

/// The options of a barrier that comes after what the default stream of these GPUs holds, where
/// none is given; as they are without ids, and on a rank that is no member. The errors are those of
/// ProcessGroup::barrier.
CallOptions on_devices(const GroupState& group, std::span<const int> device_ids,
                       const CallOptions& options);

/// A number is given where there must be a list.
[[noreturn]] void refuse_device_id(const GroupState& group, std::int64_t device_id);

}  // namespace hymn::detail
