#include "runtime/join/join_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "runtime/group/group_state.hpp"
#include "runtime/join/leave_groups.hpp"

namespace hymn::detail {
namespace {

bool is_in(const ProcessGroup& group, int rank) {
  return std::ranges::find(group.membership().ranks, rank) != group.membership().ranks.end();
}

}  // namespace

class JoinState::Attachment {
 public:
  explicit Attachment(JoinState& join) : join_(join) {
    for (const Part& part : join_.parts_) part.joinable->join_ = &join_;
  }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;
  ~Attachment() {
    for (const Part& part : join_.parts_) part.joinable->join_ = nullptr;
    join_.parts_.clear();
  }

 private:
  JoinState& join_;
};

JoinState::JoinState(std::vector<Joinable*> joinables, JoinOptions options)
    : joinables_(std::move(joinables)), options_(std::move(options)) {
  if (joinables_.empty())
    throw UsageError("a join of no joinables", {.remedy = "give at least one"});
  if (std::ranges::count(joinables_, nullptr) != 0)
    throw UsageError("a joinable is null", {.remedy = "give pointers to live joinables"});
}

// --- The run

void JoinState::run(const std::function<void()>& body, const void* site) {
  if (!options_.enable) return body();
  site_ = site;
  std::vector<Part> parts = look_up();
  if (!parts.front().group.is_member()) return body();
  require_free(parts);
  require_within(parts);
  const GroupState& first = detail::need(parts.front().group);
  first.world().life.require_drive(first.members().context("join"));
  parts_ = std::move(parts);
  const Attachment attachment(*this);
  try {
    begin();
    body();
    // Whatever the body has made of it: the others have left.
    if (thrown_in_step_) std::rethrow_exception(thrown_in_step_);
    site_ = site;
    close();
  } catch (...) {
    if (!thrown_in_step_) give_up_groups(groups(), std::current_exception(), "join");
    throw;
  }
}

std::vector<ProcessGroup> JoinState::groups() const {
  std::vector<ProcessGroup> groups;
  for (const Part& part : parts_) groups.push_back(part.group);
  return groups;
}

std::vector<JoinState::Part> JoinState::look_up() const {
  std::vector<Part> parts;
  for (Joinable* const joinable : joinables_) parts.push_back({joinable, joinable->join_group()});
  return parts;
}

void JoinState::require_free(const std::vector<Part>& parts) const {
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    const auto is_same = [&](const Part& other) { return other.joinable == part->joinable; };
    if (part->joinable->join_ == nullptr && std::none_of(parts.begin(), part, is_same)) continue;
    throw UsageError("a joinable takes part in a join twice",
                     {.group = part->group.description(),
                      .operation = "join",
                      .remedy = "give each joinable to one join at a time, once"});
  }
}

void JoinState::require_within(const std::vector<Part>& parts) const {
  const std::vector<int>& outer = parts.front().group.membership().ranks;
  for (const Part& part : parts) {
    const std::vector<int>& ranks = part.group.membership().ranks;
    const auto is_outer = [&outer](int rank) {
      return std::ranges::find(outer, rank) != outer.end();
    };
    if (std::ranges::all_of(ranks, is_outer)) continue;
    throw UsageError(
        fmt::format("the ranks [{}] of a joinable's group are not all in the first joinable's "
                    "group of ranks [{}]",
                    fmt::join(ranks, ", "), fmt::join(outer, ", ")),
        {.group = part.group.description(),
         .operation = "join",
         .remedy = "give the joinable with the widest group first"});
  }
}

void JoinState::begin() {
  closing_ = false;
  thrown_in_step_ = nullptr;
  {
    const std::lock_guard lock(mutex_);
    status_ = {.active = group().size()};
  }
  for (Part& part : parts_) {
    if (!part.group.is_member()) continue;
    part.hook = part.joinable->join_hook(options_.arguments);
    if (!part.hook) throw UsageError("join_hook() returned null", context("return a JoinHook"));
  }
}

void JoinState::close() {
  closing_ = true;
  while (count(false) > 0)
    for (const Part& part : parts_)
      if (part.hook) part.hook->main_hook();
  for (const Part& part : parts_)
    if (part.hook) part.hook->post_hook(is_last_joiner(part.group));
}

bool JoinState::is_last_joiner(const ProcessGroup& among) const {
  const int me = among.global_rank(among.rank());
  std::uint64_t mine = 0;
  std::uint64_t most = 0;
  for (const JoinedRank& joined : status_.joined) {
    if (!is_in(among, joined.rank)) continue;
    most = std::max(most, joined.iterations);
    if (joined.rank == me) mine = joined.iterations;
  }
  return mine == most;
}

// --- An iteration

void JoinState::notify(const Joinable& joinable, const void* site) {
  // Hooks may well use the joinable as the body does.
  if (closing_ || &joinable != parts_.front().joinable) return;
  if (thrown_in_step_) std::rethrow_exception(thrown_in_step_);
  site_ = site;
  count(true);
}

void JoinState::meet(const Request& request) const {
  const auto state = GroupState::of(group());
  // What the others say is needed at once.
  state->works().scopes().require_none("a join's count", state->members());
  state->run(request, {}, site_);
}

int JoinState::count(bool has_input) {
  const bool throws = options_.throw_on_early_termination;
  const bool divides = options_.divisor == JoinDivisor::active;
  ProcessGroup all = group();
  // The options with them: ranks that do not agree on these would not know of each other's errors.
  std::array<std::int32_t, 3> sums = {has_input, throws, divides};
  const BufferView counted(sums);
  meet(Request::all_reduce(counted, counted, {}));
  const auto [active, throwing, dividing] = sums;
  const auto differs = [&](std::int32_t given) { return given != 0 && given != all.size(); };
  if (differs(throwing) || differs(dividing))
    throw_in_step(
        UsageError(fmt::format("{} differs: not all ranks have given the same",
                               differs(throwing) ? "throw_on_early_termination" : "divisor"),
                   context("give the same options on all ranks")));
  if (active != status_.active) note_joined(active, has_input);
  if (throws && active > 0 && active < all.size()) terminate_early(has_input);
  const std::lock_guard lock(mutex_);
  if (active > 0) ++status_.iterations;
  return active;
}

void JoinState::note_joined(int active, bool has_input) {
  ProcessGroup all = group();
  std::vector<std::uint8_t> still(static_cast<std::size_t>(all.size()), 0);
  // Who was left is known when nobody is left.
  if (active > 0) {
    const auto mine = static_cast<std::uint8_t>(has_input);
    meet(Request::all_gather(view_of(mine), OutputBlocks::equal(BufferView(still))));
  }
  const TimePoint now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  status_.active = active;
  for (std::size_t member = 0; member < still.size(); ++member) {
    const int rank = all.global_rank(static_cast<int>(member));
    const bool is_new = std::ranges::count(status_.joined, rank, &JoinedRank::rank) == 0;
    if (still[member] == 0 && is_new) status_.joined.push_back({rank, status_.iterations, now});
  }
}

void JoinState::terminate_early(bool has_input) {
  ErrorContext where = context(
      "give all ranks as many inputs, or leave throw_on_early_termination off to have the ranks "
      "that have run out shadow the others");
  for (const JoinedRank& joined : status_.joined) where.missing.push_back(joined.rank);
  throw_in_step(EarlyTermination(
      has_input ? "Detected at least one rank that exhausted inputs. Throwing across all ranks."
                : fmt::format("Rank {} exhausted all inputs.", where.rank),
      where));
}

// --- Errors

template <class Failure>
void JoinState::throw_in_step(const Failure& failure) {
  thrown_in_step_ = std::make_exception_ptr(failure);
  std::rethrow_exception(thrown_in_step_);
}

ErrorContext JoinState::context(std::string remedy) const {
  ErrorContext where = GroupState::of(group())->members().context("join");
  where.remedy = std::move(remedy);
  return where;
}

// --- Questions

JoinStatus JoinState::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

int JoinState::divisor(const Joinable& joinable) const {
  const auto part = std::ranges::find(parts_, &joinable, &Part::joinable);
  int ranks = part->group.size();
  if (options_.divisor == JoinDivisor::initial) return ranks;
  for (const JoinedRank& joined : status_.joined)
    if (is_in(part->group, joined.rank)) --ranks;
  return std::max(ranks, 1);
}

int JoinState::acting_root(const Joinable& joinable, int preferred) const {
  const auto part = std::ranges::find(parts_, &joinable, &Part::joinable);
  std::vector<int> ranks = part->group.membership().ranks;
  std::ranges::rotate(ranks, std::ranges::find(ranks, preferred));
  const auto is_active = [this](int rank) {
    return std::ranges::count(status_.joined, rank, &JoinedRank::rank) == 0;
  };
  const auto root = std::ranges::find_if(ranks, is_active);
  return root == ranks.end() ? preferred : *root;
}

}  // namespace hymn::detail
