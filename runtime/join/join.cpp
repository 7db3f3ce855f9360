#include "hymn/join.hpp"

#include "runtime/group/group_state.hpp"
#include "runtime/join/group_shadow.hpp"
#include "runtime/join/join_state.hpp"
#include "runtime/join/leave_groups.hpp"

namespace hymn {
namespace {

/// With all of them the bits are those of a loop without a join.
ReduceOp average_over(int ranks, const ProcessGroup& group) {
  return ranks == group.size() ? ReduceOp::avg : ReduceOp::premul_sum(1.0 / ranks);
}

/// `site`: where the user's code has asked for it.
void reduce_one(const ProcessGroup& group, std::int32_t& value, ReduceOp op, const void* site) {
  detail::GroupState& state = detail::need(group);
  // Its value is needed at once.
  state.works().scopes().require_none("a join's count", state.members());
  const BufferView view = view_of(value);
  state.run(Request::all_reduce(view, view, op), {}, site);
}

int count_active_from(const ProcessGroup& group, const void* site) {
  std::int32_t active = 1;
  reduce_one(group, active, ReduceOp::sum, site);
  return active;
}

}  // namespace

JoinHook::~JoinHook() = default;
Joinable::~Joinable() = default;
EarlyTermination::~EarlyTermination() = default;

Join::Join(std::vector<Joinable*> joinables, JoinOptions options)
    : state_(std::make_unique<detail::JoinState>(std::move(joinables), std::move(options))) {}
Join::~Join() = default;

void Join::run(const std::function<void()>& body) {
  state_->run(body, __builtin_return_address(0));
}
JoinStatus Join::status() const { return state_->status(); }
std::uint64_t Join::shadow_all(std::span<const ProcessGroup> groups,
                               const std::function<void()>& body, const ShadowOptions& options) {
  std::vector<detail::GroupShadow> shadows;
  for (const ProcessGroup& group : groups) {
    if (group.is_member()) shadows.emplace_back(group, options);
  }
  if (shadows.empty()) return body(), 0;
  try {
    body();
    return detail::shadow_until_the_end(shadows);
  } catch (...) {
    detail::give_up_groups(groups, std::current_exception(), "shadow_all");
    throw;
  }
}

void Join::notify_running(Joinable& joinable) {
  joinable.join_->notify(joinable, __builtin_return_address(0));
}

int Join::divisor(const Joinable& joinable) {
  if (joinable.join_ == nullptr) return joinable.join_group().size();
  return joinable.join_->divisor(joinable);
}

ReduceOp Join::average(const Joinable& joinable) {
  return average_over(divisor(joinable), joinable.join_group());
}

int Join::acting_root(const Joinable& joinable, int preferred) {
  const ProcessGroup group = joinable.join_group();
  group.group_rank(preferred);  // throws where it is no member
  return joinable.join_ == nullptr ? preferred : joinable.join_->acting_root(joinable, preferred);
}

// In the body of shadow_all a rank that has run out adds what changes no sum and no minimum: so
// only those count that make the call themselves, and they get the same answer.

int Join::count_active(const ProcessGroup& group) {
  return count_active_from(group, __builtin_return_address(0));
}

int Join::acting_root(const ProcessGroup& group, int preferred) {
  const int first = group.group_rank(preferred);
  std::int32_t nearest = (group.rank() - first + group.size()) % group.size();
  reduce_one(group, nearest, ReduceOp::min, __builtin_return_address(0));
  return group.global_rank((first + nearest) % group.size());
}

ReduceOp Join::average(const ProcessGroup& group) {
  return average_over(count_active_from(group, __builtin_return_address(0)), group);
}

}  // namespace hymn
