// The C API: ranks with unequal inputs.
#include "hymn/hymn_join.h"

#include <fmt/format.h>

#include <algorithm>

#include "hymn/join.hpp"
#include "runtime/c_api/c_api.hpp"

namespace hymn::c_api {
namespace {

/// The caller's functions as those of a joinable.
class Hooked final : public Joinable {
 public:
  explicit Hooked(const hymnJoinable_t& given)
      : given_(given), group_(need(given.group, "joinable->group")->group) {}
  std::unique_ptr<JoinHook> join_hook(const JoinArguments&) override {
    return std::make_unique<Hook>(given_);
  }
  ProcessGroup join_group() const override { return group_; }

 private:
  class Hook final : public JoinHook {
   public:
    explicit Hook(const hymnJoinable_t& given) : given_(given) {}
    void main_hook() override {
      if (given_.main_hook != nullptr) require_success("main_hook", given_.main_hook(given_.user));
    }
    void post_hook(bool is_last_joiner) override {
      if (given_.post_hook == nullptr) return;
      require_success("post_hook", given_.post_hook(is_last_joiner ? 1 : 0, given_.user));
    }

   private:
    const hymnJoinable_t& given_;
  };

  hymnJoinable_t given_;
  ProcessGroup group_;  // whatever becomes of the handle
};

JoinOptions join_options(const hymnJoinOptions_t* options) {
  const hymnJoinOptions_t given = read_options(options, "hymnJoinOptions_t");
  if (given.divisor != hymnJoinDivisorInitial && given.divisor != hymnJoinDivisorActive)
    throw UsageError(
        fmt::format("options->divisor is {}, which is not a hymnJoinDivisor_t", given.divisor));
  return {.enable = given.enable >= 0,
          .throw_on_early_termination = given.throw_on_early_termination != 0,
          .divisor =
              given.divisor == hymnJoinDivisorActive ? JoinDivisor::active : JoinDivisor::initial};
}

ShadowOptions shadow_options(const hymnShadowOptions_t* options) {
  const hymnShadowOptions_t given = read_options(options, "hymnShadowOptions_t");
  ShadowOptions result{.fill = given.fill};
  if (given.has_root_fill != 0) result.root_fill = given.root_fill;
  return result;
}

using Body = hymnResult_t (*)(void* user);

std::function<void()> body_of(Body body, void* user) {
  if (body == nullptr) throw_null("body");
  return [body, user] { require_success("body", body(user)); };
}

}  // namespace
}  // namespace hymn::c_api

struct hymnJoin {
  std::vector<std::unique_ptr<hymn::c_api::Hooked>> hooked;
  std::vector<hymn::Joinable*> joinables;
  std::unique_ptr<hymn::Join> join;
};

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace
using hymn::Join;

namespace {

void add_joinable(hymnJoin& join, const hymnJoinable_t& joinable) {
  if (joinable.made != nullptr) {
    join.joinables.push_back(reinterpret_cast<hymn::Joinable*>(joinable.made));
    return;
  }
  join.hooked.push_back(std::make_unique<Hooked>(joinable));
  join.joinables.push_back(join.hooked.back().get());
}

hymn::Joinable& joinable_of(hymnJoin_t join, std::size_t index) {
  const auto& joinables = need(join, "join")->joinables;
  if (index >= joinables.size())
    throw hymn::UsageError(
        fmt::format("there is no joinable number {}: the join has {}", index, joinables.size()));
  return *joinables[index];
}

}  // namespace

hymnResult_t hymnJoinCreate(const hymnJoinable_t* joinables, size_t n,
                            const hymnJoinOptions_t* options, hymnJoin_t* join) {
  return guarded(__func__, [&] {
    *need(join, "join") = nullptr;
    if (n > 0) need(joinables, "joinables");
    auto handle = std::make_unique<hymnJoin>();
    for (const hymnJoinable_t& each : read_array(joinables, n, "hymnJoinable_t", "joinable"))
      add_joinable(*handle, each);
    handle->join = std::make_unique<Join>(handle->joinables, join_options(options));
    *join = handle.release();
  });
}

hymnResult_t hymnJoinRun(hymnJoin_t join, hymnResult_t (*body)(void* user), void* user) {
  return guarded(__func__, [&] { need(join, "join")->join->run(body_of(body, user)); });
}

hymnResult_t hymnJoinNotify(hymnJoin_t join) {
  return guarded(__func__, [&] { Join::notify(joinable_of(join, 0)); });
}

hymnResult_t hymnJoinFree(hymnJoin_t join) {
  return guarded(__func__, [&] { const std::unique_ptr<hymnJoin> handle(need(join, "join")); });
}

hymnResult_t hymnJoinDivisor(hymnJoin_t join, size_t index, int* divisor) {
  return guarded(__func__,
                 [&] { *need(divisor, "divisor") = Join::divisor(joinable_of(join, index)); });
}

hymnResult_t hymnJoinAverage(hymnJoin_t join, size_t index, hymnOp_t* op) {
  return guarded(__func__,
                 [&] { *need(op, "op") = op_value(Join::average(joinable_of(join, index))); });
}

hymnResult_t hymnJoinActingRoot(hymnJoin_t join, size_t index, int preferred, int* root) {
  return guarded(__func__, [&] {
    *need(root, "root") = Join::acting_root(joinable_of(join, index), preferred);
  });
}

hymnResult_t hymnJoinStatus(hymnJoin_t join, uint64_t* iterations, int* active,
                            hymnJoinedRank_t* joined, size_t capacity, size_t* n) {
  return guarded(__func__, [&] {
    const hymn::JoinStatus status = need(join, "join")->join->status();
    if (capacity > 0) need(joined, "joined");
    const std::size_t written = std::min(capacity, status.joined.size());
    for (std::size_t i = 0; i < written; ++i)
      joined[i] = {status.joined[i].rank, status.joined[i].iterations};
    if (iterations != nullptr) *iterations = status.iterations;
    if (active != nullptr) *active = status.active;
    if (n != nullptr) *n = status.joined.size();
  });
}

hymnResult_t hymnJoinShadowAll(const hymnGroup_t* groups, size_t n,
                               hymnResult_t (*body)(void* user), void* user,
                               const hymnShadowOptions_t* options, uint64_t* shadowed) {
  return guarded(__func__, [&] {
    if (n > 0) need(groups, "groups");
    std::vector<hymn::ProcessGroup> members;
    for (const hymnGroup_t group : std::span(groups, n))
      members.push_back(need(group, "a group")->group);
    const std::uint64_t count =
        Join::shadow_all(members, body_of(body, user), shadow_options(options));
    if (shadowed != nullptr) *shadowed = count;
  });
}

hymnResult_t hymnJoinCountActive(hymnGroup_t group, int* active) {
  return guarded(
      __func__, [&] { *need(active, "active") = Join::count_active(need(group, "group")->group); });
}

hymnResult_t hymnJoinGroupActingRoot(hymnGroup_t group, int preferred, int* root) {
  return guarded(__func__, [&] {
    *need(root, "root") = Join::acting_root(need(group, "group")->group, preferred);
  });
}

hymnResult_t hymnJoinGroupAverage(hymnGroup_t group, hymnOp_t* op) {
  return guarded(__func__,
                 [&] { *need(op, "op") = op_value(Join::average(need(group, "group")->group)); });
}
