#include "runtime/join/leave_groups.hpp"

#include "runtime/group/group_state.hpp"
#include "runtime/group/world_context.hpp"

namespace hymn::detail {
namespace {

/// Whether this is an error that a rank gets through no fault of its own.
bool is_fault_of_others(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& typed) {
    return typed.kind() == ErrorKind::aborted || typed.kind() == ErrorKind::timeout ||
           typed.kind() == ErrorKind::peer;
  } catch (...) {
    return false;
  }
}

}  // namespace

void give_up_groups(std::span<const ProcessGroup> groups, const std::exception_ptr& error,
                    const std::string& what) {
  const bool is_own_fault = !is_fault_of_others(error);
  for (const ProcessGroup& group : groups) {
    GroupState& state = *GroupState::of(group);
    // One that this rank has destroyed as well: the others may still wait in it.
    if (!state.members().is_member() || state.health().is_aborted() ||
        state.world().life.is_destroyed())
      continue;
    GroupFailure failure = state.health().describe_failure(error, what);
    if (failure.missing.empty() && is_own_fault) failure.missing = {state.world().rank()};
    state.world().incidents.report({"abort", failure.reason});
    state.health().abort(failure);
    // What the buffers belong to was left by an exception.
    state.works().abandon(failure.reason);
  }
}

}  // namespace hymn::detail
