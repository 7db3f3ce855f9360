#include "hymn/join.hpp"

#include <algorithm>

#include "runtime/group_shadow.hpp"
#include "runtime/join_state.hpp"
#include "runtime/leave_groups.hpp"

namespace hymn {

JoinHook::~JoinHook() = default;
Joinable::~Joinable() = default;
EarlyTermination::~EarlyTermination() = default;

Join::Join(std::vector<Joinable*> joinables, JoinOptions options)
    : state_(std::make_unique<detail::JoinState>(std::move(joinables), std::move(options))) {}
Join::~Join() = default;

void Join::run(const std::function<void()>& body) { state_->run(body); }
JoinStatus Join::status() const { return state_->status(); }
std::uint64_t Join::shadow_all(std::span<const ProcessGroup> groups,
                               const std::function<void()>& body) {
  std::vector<detail::GroupShadow> shadows;
  for (const ProcessGroup& group : groups) {
    if (!group.is_member()) continue;
    if (std::ranges::count(shadows, group.membership().uid, &detail::GroupShadow::uid) != 0)
      throw UsageError("a group is given twice", {.group = group.description(),
                                                  .operation = "shadow_all",
                                                  .remedy = "give each group once"});
    shadows.emplace_back(group);
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

void Join::notify_running(Joinable& joinable) { joinable.join_->notify(joinable); }

int Join::divisor(const Joinable& joinable) {
  if (joinable.join_ == nullptr) return joinable.join_group().size();
  return joinable.join_->divisor(joinable);
}

ReduceOp Join::average(const Joinable& joinable) {
  const int ranks = divisor(joinable);
  return ranks == joinable.join_group().size() ? ReduceOp::avg : ReduceOp::premul_sum(1.0 / ranks);
}

}  // namespace hymn
