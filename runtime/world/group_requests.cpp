// How groups are asked for: what is wrong with that on this rank alone, who must call, and which
// uid and tag they get.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/callback_scope.hpp"
#include "base/error_context.hpp"
#include "base/meeting.hpp"
#include "control/coordinator.hpp"
#include "recorder/making_note.hpp"
#include "runtime/world/group_factory.hpp"

namespace hymn::detail {
namespace {

// A limit of 0 would be refused.
constexpr Duration shortest_limit = std::chrono::milliseconds(1);

Timeout what_is_left(Timeout limit, Duration gone) {
  return limit.is_none() ? limit : Timeout(std::max(limit.duration() - gone, shortest_limit));
}

}  // namespace

ProcessGroup GroupFactory::new_group(std::span<const int> ranks, const GroupOptions& options) {
  Membership membership = new_membership(ranks, options);
  if (members_alone(options)) {
    const LocalNumbers::Claim claim = claim_for(membership, options);
    return ProcessGroup(make_or_find(std::move(membership), options, claim));
  }
  settle();
  return ProcessGroup(make(std::move(membership), options));
}

Future<ProcessGroup> GroupFactory::new_group_async(std::span<const int> ranks,
                                                   const GroupOptions& options) {
  // Who waits for it moves what is in flight meanwhile. The future must not hold itself.
  const auto self = std::make_shared<std::weak_ptr<FutureState<ProcessGroup>>>();
  auto drive = [weak_world = self_, self](Timeout timeout) {
    const auto world = weak_world.lock();
    const auto state = self->lock();
    if (world == nullptr || state == nullptr) return;
    const Patience patience =
        world->patience("waiting for a new group", timeout.is_set() ? timeout : Timeout::none());
    PatientWait(patience).until([&] { return state->is_ready(); });
  };
  auto made = std::make_shared<FutureState<ProcessGroup>>(std::move(drive));
  *self = made;
  const Membership membership = new_membership(ranks, options);
  auto task = [this, made, options, membership, claim = claim_for(membership, options)] {
    Group group;
    std::exception_ptr error;
    try {
      group = members_alone(options) ? make_or_find(membership, options, claim)
                                     : make(membership, options);
    } catch (...) {
      error = std::current_exception();
    }
    const CallbackScope scope;
    if (error)
      made->set_error(error);
    else
      made->set_value(ProcessGroup(std::move(group)));
  };
  const bool beside = std::ranges::all_of(
      means_.mechanisms, [](const auto& mechanism) { return mechanism->serves_own_threads(); });
  if (!beside)
    task();
  else if (members_alone(options))
    local_makers_->add(std::move(task));
  else
    maker_->add(std::move(task));
  return Future<ProcessGroup>(std::move(made));
}

ProcessGroup GroupFactory::find(std::string_view tag, std::span<const int> ranks) {
  const ErrorContext context{.rank = world_.rank(), .operation = "find_group"};
  require_world(context);
  return ProcessGroup(tagged_.find(tag, sorted(ranks, context)));
}

ProcessGroup GroupFactory::find_or_create(std::string_view tag, std::span<const int> flat_ranks,
                                          std::size_t group_size, const GroupOptions& options) {
  const ErrorContext context{.rank = world_.rank(), .operation = "find_or_create_group"};
  if (group_size == 0 || flat_ranks.size() % group_size != 0)
    throw UsageError(fmt::format("{} ranks are not groups of {}", flat_ranks.size(), group_size),
                     context);
  static_cast<void>(sorted(flat_ranks, context));  // those of others, too
  const auto own = std::ranges::find(flat_ranks, world_.rank());
  if (own == flat_ranks.end())
    throw UsageError(
        fmt::format("ranks [{}] do not include this rank", fmt::join(flat_ranks, ", ")), context);
  const auto slice = static_cast<std::size_t>(own - flat_ranks.begin()) / group_size;
  const auto ranks = flat_ranks.subspan(slice * group_size, group_size);
  if (ProcessGroup found = find(tag, ranks); found.valid()) return found;
  ErrorContext where = context;
  if (tag.empty()) {
    where.remedy = "give it a tag, by which its members know it";
    throw UsageError(
        fmt::format("no group of ranks [{}] can be created without a tag", fmt::join(ranks, ", ")),
        where);
  }
  GroupOptions tagged = options;
  tagged.tag = tag;
  tagged.local_sync = true;
  return new_group(ranks, tagged);
}

// Meshes of the same ranks and shape come in the same order on all of these ranks; what other ranks
// make does not count.
std::string GroupFactory::name_mesh(std::span<const int> ranks,
                                    std::span<const std::size_t> shape) {
  const ErrorContext context{.rank = world_.rank(), .operation = "Mesh"};
  require_world(context);
  static_cast<void>(sorted(ranks, context));
  const std::string grid = fmt::format("{}:{}", fmt::join(ranks, ","), fmt::join(shape, "x"));
  const std::lock_guard lock(mutex_);
  return fmt::format("{}{}:{}", TaggedGroups::of_meshes, grid, meshes_[grid]++);
}

void GroupFactory::require_world(const ErrorContext& context) const {
  world_.life.require_here(context);
  if (world_.life.is_destroyed()) throw UsageError("the world has been destroyed", context);
}

std::vector<int> GroupFactory::sorted(std::span<const int> ranks,
                                      const ErrorContext& context) const {
  if (ranks.size() > static_cast<std::size_t>(world_.settings.size))
    throw UsageError(
        fmt::format(
            "{} ranks are given for a world of {}: one of them twice, or their number is wrong",
            ranks.size(), world_.settings.size),
        context);
  std::vector<int> all(ranks.begin(), ranks.end());
  std::ranges::sort(all);
  if (all.empty()) throw UsageError("a group needs at least one rank", context);
  if (all.front() < 0 || all.back() >= world_.settings.size)
    throw UsageError(fmt::format("ranks [{}] are not all in 0 … {}", fmt::join(ranks, ", "),
                                 world_.settings.size - 1),
                     context);
  if (std::ranges::adjacent_find(all) != all.end())
    throw UsageError(fmt::format("ranks [{}] name a rank twice", fmt::join(ranks, ", ")), context);
  return all;
}

void GroupFactory::check(const GroupOptions& options, const ErrorContext& context) const {
  PathPolicy::parse(options.path, "GroupOptions.path");
  nccl_options(options.nccl, world_.settings.config.nccl, "GroupOptions.nccl");
  AlgoPolicy::parse(options.algo, "GroupOptions.algo");
  if (TaggedGroups::is_automatic(options.tag))
    throw UsageError(fmt::format("the tag '{}' begins with '{}', as those do that hymn makes",
                                 options.tag, TaggedGroups::automatic),
                     context);
}

Membership GroupFactory::new_membership(std::span<const int> ranks, const GroupOptions& options) {
  const ErrorContext context{.rank = world_.rank(), .operation = "new_group"};
  require_world(context);
  Membership membership;
  membership.ranks = sorted(ranks, context);
  membership.tag = options.tag;
  check(options, context);
  world_.life.require_drive(context);
  if (!members_alone(options)) membership.uid = next_uid(context);
  return membership;
}

std::uint64_t GroupFactory::next_uid(const ErrorContext& context) {
  const std::lock_guard lock(mutex_);
  if (next_uid_ >= control::first_local_uid)
    throw ResourceError("all group numbers are used up", context);
  return next_uid_++;
}

// Whether a group of that name is there, its members see alike only among themselves: so they alone
// make it, even where all ranks call.
GroupFactory::Group GroupFactory::make_or_find(Membership membership, const GroupOptions& options,
                                               const LocalNumbers::Claim& claim) {
  const bool member = is_member(membership);
  if (!member && options.local_sync) return nullptr;
  const auto make = [&] {
    return member ? make_locally(membership, options, claim)
                  : make_for_outsider(membership, options);
  };
  if (membership.tag.empty()) return make();
  const std::string purpose = fmt::format("making the group '{}' of ranks [{}]", membership.tag,
                                          fmt::join(membership.ranks, ", "));
  return tagged_.find_or_make(membership.tag, membership.ranks,
                              world_.patience(purpose, world_.settings.making_limit(options)),
                              make);
}

GroupFactory::Group GroupFactory::make_for_outsider(Membership membership,
                                                    const GroupOptions& options) {
  membership.uid = numbers_.draw();
  return keep(std::move(membership), options, {});
}

// Of groups with a tag there is only one at a time, if any: who makes it claims its number then.
LocalNumbers::Claim GroupFactory::claim_for(const Membership& membership,
                                            const GroupOptions& options) {
  if (!members_alone(options) || !options.tag.empty() || !is_member(membership)) return {};
  return numbers_.claim({membership.ranks, membership.tag});
}

GroupFactory::Group GroupFactory::make_locally(Membership membership, const GroupOptions& options,
                                               const LocalNumbers::Claim& claim) {
  const Timeout limit = world_.settings.making_limit(options);
  const TimePoint began = world_.clock().now();
  const LocalName name{membership.ranks, membership.tag};
  const LocalNumbers::Number number =
      take_number(name, name.tag.empty() ? claim : numbers_.claim(name), limit);
  membership.uid = number.uid;
  try {
    return make(std::move(membership), options, what_is_left(limit, world_.clock().now() - began));
  } catch (...) {
    if (name.leader() == world_.rank()) numbers_.withdraw(name, number.uid);
    throw;
  }
}

LocalNumbers::Number GroupFactory::take_number(const LocalName& name,
                                               const LocalNumbers::Claim& claim, Timeout limit) {
  if (claim.number) return *claim.number;
  const std::uint64_t undrawn = control::undrawn_uid(name.leader(), world_.settings.size);
  const std::array awaited{name.leader()};
  try {
    const Patience patience =
        world_.making_patience(fmt::format("making a group of ranks [{}], which they make alone",
                                           fmt::join(name.ranks, ", ")),
                               limit, name.ranks);
    const TimePoint began = patience.clock->now();
    MakingNote note(world_.recorder, undrawn, name.ranks);
    std::optional<LocalNumbers::Number> number;
    PatientWait(patience, awaited).until([&] {
      number = numbers_.try_take(name, claim);
      return number.has_value();
    });
    if (!number) throw_missing(patience, {name.leader()}, began);
    numbers_.give_back(name, claim);
    note.set_made();
    return std::move(*number);
  } catch (...) {
    numbers_.give_back(name, claim);
    Membership leader;
    leader.ranks = {name.leader()};
    leader.uid = undrawn;
    give_up(leader, "a group");
  }
}

}  // namespace hymn::detail
