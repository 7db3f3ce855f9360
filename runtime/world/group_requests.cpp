#include "runtime/world/group_requests.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/callback_scope.hpp"
#include "base/error_context.hpp"
#include "control/coordinator.hpp"

namespace hymn::detail {
namespace {

std::vector<int> sorted(std::span<const int> ranks, int size, const ErrorContext& context) {
  if (ranks.size() > static_cast<std::size_t>(size))
    throw UsageError(
        fmt::format(
            "{} ranks are given for a world of {}: one of them twice, or their number is wrong",
            ranks.size(), size),
        context);
  std::vector<int> all(ranks.begin(), ranks.end());
  std::ranges::sort(all);
  if (all.empty()) throw UsageError("a group needs at least one rank", context);
  if (all.front() < 0 || all.back() >= size)
    throw UsageError(
        fmt::format("ranks [{}] are not all in 0 … {}", fmt::join(ranks, ", "), size - 1), context);
  if (std::ranges::adjacent_find(all) != all.end())
    throw UsageError(fmt::format("ranks [{}] name a rank twice", fmt::join(ranks, ", ")), context);
  return all;
}

}  // namespace

void GroupRequests::require_options(const GroupOptions& options,
                                    const ErrorContext& context) const {
  PathPolicy::parse(options.path, "GroupOptions.path");
  nccl_options(options.nccl, world_.settings.config.nccl, "GroupOptions.nccl");
  AlgoPolicy::parse(options.algo, "GroupOptions.algo");
  if (TaggedGroups::is_automatic(options.tag))
    throw UsageError(fmt::format("the tag '{}' begins with '{}', as those do that hymn makes",
                                 options.tag, TaggedGroups::automatic),
                     context);
}

void GroupRequests::start(std::weak_ptr<WorldContext> self, CpuSet cpus) {
  factory_.start(std::move(self));
  maker_ = std::make_unique<GroupMaker>(cpus);
  local_makers_ = std::make_unique<GroupMakers>(std::move(cpus));
}

ProcessGroup GroupRequests::make_default_group() {
  Membership everybody;
  everybody.uid = next_uid_++;
  everybody.ranks = world_.peers.all_ranks();
  return ProcessGroup(factory_.make(std::move(everybody), {.description = "default_pg"}));
}

void GroupRequests::settle() {
  maker_->settle(world_.patience("waiting for groups that are being made", Timeout::none()));
}

// Those who make the last groups with this rank may wait for what it has in flight.
void GroupRequests::finish() {
  try {
    settle();
    local_makers_->settle(world_.patience("waiting for groups that members make", Timeout::none()));
  } catch (const std::exception&) {
    // They look at the same, and end as well.
  }
  maker_->finish();
  local_makers_->finish();
}

void GroupRequests::skip_uids_to(std::uint64_t uid) {
  std::lock_guard lock(mutex_);
  next_uid_ = std::max(next_uid_, uid);
}

ProcessGroup GroupRequests::new_group(std::span<const int> ranks, const GroupOptions& options) {
  Membership membership = new_membership(ranks, options);
  if (members_alone(options)) return make_alone(std::move(membership), options);
  settle();
  return ProcessGroup(factory_.make(std::move(membership), options));
}

ProcessGroup GroupRequests::new_group_in_order(std::uint64_t parent, std::vector<int> ranks,
                                               GroupOptions options) {
  options.local_sync = true;
  Membership membership = new_membership(ranks, options);
  membership.ranks = std::move(ranks);
  membership.parent = parent;
  return make_alone(std::move(membership), options);
}

ProcessGroup GroupRequests::make_alone(Membership membership, const GroupOptions& options) {
  const LocalNumbers::Claim claim = local_.claim_for(membership, options);
  return ProcessGroup(local_.make_or_find(std::move(membership), options, claim));
}

Future<ProcessGroup> GroupRequests::new_group_async(std::span<const int> ranks,
                                                    const GroupOptions& options) {
  const auto made = new_future();
  const Membership membership = new_membership(ranks, options);
  const bool alone = members_alone(options);
  auto make = [this, made, options, membership, alone,
               claim = local_.claim_for(membership, options)] {
    GroupFactory::Group group;
    std::exception_ptr error;
    try {
      group = alone ? local_.make_or_find(membership, options, claim)
                    : factory_.make(membership, options);
    } catch (...) {
      error = std::current_exception();
    }
    const CallbackScope scope;
    if (error)
      made->set_error(error);
    else
      made->set_value(ProcessGroup(std::move(group)));
  };
  make_beside(alone, std::move(make));
  return Future<ProcessGroup>(made);
}

// Who waits for it moves what is in flight meanwhile. The future must not hold itself.
std::shared_ptr<FutureState<ProcessGroup>> GroupRequests::new_future() {
  const auto self = std::make_shared<std::weak_ptr<FutureState<ProcessGroup>>>();
  auto drive = [weak_world = factory_.world(), self](Timeout timeout) {
    const auto world = weak_world.lock();
    const auto state = self->lock();
    if (world == nullptr || state == nullptr) return;
    const Patience patience =
        world->patience("waiting for a new group", timeout.is_set() ? timeout : Timeout::none());
    PatientWait(patience).until([&] { return state->is_ready(); });
  };
  auto made = std::make_shared<FutureState<ProcessGroup>>(std::move(drive));
  *self = made;
  return made;
}

void GroupRequests::make_beside(bool alone, std::function<void()> make) {
  if (!factory_.meeting().serves_own_threads())
    make();
  else if (alone)
    local_makers_->add(std::move(make));
  else
    maker_->add(std::move(make));
}

ProcessGroup GroupRequests::find(std::string_view tag, std::span<const int> ranks) {
  const ErrorContext context{.rank = world_.rank(), .operation = "find_group"};
  require_world(context);
  return ProcessGroup(factory_.find(tag, sorted(ranks, world_.settings.size, context)));
}

ProcessGroup GroupRequests::find_or_create(std::string_view tag, std::span<const int> flat_ranks,
                                           std::size_t group_size, const GroupOptions& options) {
  const ErrorContext context{.rank = world_.rank(), .operation = "find_or_create_group"};
  if (group_size == 0 || flat_ranks.size() % group_size != 0)
    throw UsageError(fmt::format("{} ranks are not groups of {}", flat_ranks.size(), group_size),
                     context);
  static_cast<void>(sorted(flat_ranks, world_.settings.size, context));  // those of others, too
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
std::string GroupRequests::name_mesh(std::span<const int> ranks,
                                     std::span<const std::size_t> shape) {
  const ErrorContext context{.rank = world_.rank(), .operation = "Mesh"};
  require_world(context);
  static_cast<void>(sorted(ranks, world_.settings.size, context));
  const std::string grid = fmt::format("{}:{}", fmt::join(ranks, ","), fmt::join(shape, "x"));
  const std::lock_guard lock(mutex_);
  return fmt::format("{}{}:{}", TaggedGroups::of_meshes, grid, meshes_[grid]++);
}

void GroupRequests::require_world(const ErrorContext& context) const {
  world_.life.require_here(context);
  if (world_.life.is_destroyed()) throw UsageError("the world has been destroyed", context);
}

Membership GroupRequests::new_membership(std::span<const int> ranks, const GroupOptions& options) {
  const ErrorContext context{.rank = world_.rank(), .operation = "new_group"};
  require_world(context);
  Membership membership;
  membership.ranks = sorted(ranks, world_.settings.size, context);
  membership.tag = options.tag;
  require_options(options, context);
  world_.life.require_drive(context);
  if (!members_alone(options)) membership.uid = next_uid(context);
  return membership;
}

std::uint64_t GroupRequests::next_uid(const ErrorContext& context) {
  const std::lock_guard lock(mutex_);
  if (next_uid_ >= control::first_local_uid)
    throw ResourceError("all group numbers are used up", context);
  return next_uid_++;
}

}  // namespace hymn::detail
