#include "runtime/world/group_factory.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/callback_scope.hpp"
#include "base/error_context.hpp"
#include "collectives/pairwise/pairwise.hpp"
#include "collectives/pairwise/pairwise_models.hpp"
#include "collectives/planner/peer_use.hpp"
#include "control/coordinator.hpp"
#include "hymn/settings.hpp"
#include "p2p/exchange_port.hpp"
#include "recorder/making_note.hpp"
#include "runtime/group/work_state.hpp"
#include "runtime/mechanisms/gpu_path.hpp"
#include "runtime/world/group_spots.hpp"

namespace hymn::detail {
namespace {

// On the exchange of the group.
constexpr std::uint64_t tag_group = group_tags::of_making | 1;

}  // namespace

void GroupFactory::start(std::weak_ptr<WorldContext> self, CpuSet cpus) {
  self_ = std::move(self);
  maker_ = std::make_unique<GroupMaker>(std::move(cpus));
}

ProcessGroup GroupFactory::new_group(std::span<const int> ranks, const GroupOptions& options) {
  Membership membership = new_membership(ranks, options);
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
  auto task = [this, made, options, membership = new_membership(ranks, options)] {
    std::shared_ptr<GroupState> group;
    std::exception_ptr error;
    try {
      group = make(membership, options);
    } catch (...) {
      error = std::current_exception();
    }
    const CallbackScope scope;
    if (error)
      made->set_error(error);
    else
      made->set_value(ProcessGroup(std::move(group)));
  };
  if (std::all_of(means_.mechanisms.begin(), means_.mechanisms.end(),
                  [](const auto& mechanism) { return mechanism->serves_own_threads(); }))
    maker_->add(std::move(task));
  else
    task();
  return Future<ProcessGroup>(std::move(made));
}

ProcessGroup GroupFactory::make_default_group() {
  Membership everybody;
  everybody.uid = next_uid_++;
  everybody.ranks = world_.peers.all_ranks();
  return ProcessGroup(make(std::move(everybody), {.description = "default_pg"}));
}

void GroupFactory::settle() {
  maker_->settle(world_.patience("waiting for groups that are being made", Timeout::none()));
}

// Those who make the last groups with this rank may wait for what it has in flight.
void GroupFactory::finish() {
  try {
    settle();
  } catch (const std::exception&) {
    // They look at the same, and end as well.
  }
  maker_->finish();
}

Membership GroupFactory::new_membership(std::span<const int> ranks, const GroupOptions& options) {
  const ErrorContext context{.rank = world_.rank(), .operation = "new_group"};
  world_.life.require_here(context);
  if (world_.life.is_destroyed()) throw UsageError("the world has been destroyed", context);
  Membership membership;
  if (ranks.size() > static_cast<std::size_t>(world_.settings.size))
    throw UsageError(
        fmt::format(
            "{} ranks are given for a world of {}: one of them twice, or their number is wrong",
            ranks.size(), world_.settings.size),
        context);
  membership.ranks.assign(ranks.begin(), ranks.end());
  std::sort(membership.ranks.begin(), membership.ranks.end());
  if (ranks.empty()) throw UsageError("a group needs at least one rank", context);
  if (membership.ranks.front() < 0 || membership.ranks.back() >= world_.settings.size)
    throw UsageError(fmt::format("ranks [{}] are not all in 0 … {}", fmt::join(ranks, ", "),
                                 world_.settings.size - 1),
                     context);
  if (std::adjacent_find(membership.ranks.begin(), membership.ranks.end()) !=
      membership.ranks.end())
    throw UsageError(fmt::format("ranks [{}] name a rank twice", fmt::join(ranks, ", ")), context);
  PathPolicy::parse(options.path, "GroupOptions.path");
  nccl_options(options.nccl, world_.settings.config.nccl, "GroupOptions.nccl");
  AlgoPolicy::parse(options.algo, "GroupOptions.algo");
  world_.life.require_drive(context);
  std::lock_guard lock(mutex_);
  if (next_uid_ >= control::first_shrunk_uid)
    throw ResourceError("all group numbers are used up", context);
  membership.uid = next_uid_++;
  return membership;
}

bool GroupFactory::is_member(const Membership& membership) const {
  return GroupMembers::shape_of(membership, world_.rank()).rank >= 0;
}

void GroupFactory::skip_uids_to(std::uint64_t uid) {
  std::lock_guard lock(mutex_);
  next_uid_ = std::max(next_uid_, uid);
}

std::shared_ptr<GroupState> GroupFactory::make(Membership membership, const GroupOptions& options) {
  GroupMeans means;
  std::optional<MakingNote> note;
  if (is_member(membership)) {
    note.emplace(world_.recorder, membership.uid, membership.ranks);
    const auto give_back = [&](bool clean) {
      for (const auto& mechanism : means_.mechanisms) mechanism->close(membership, clean);
    };
    const auto give_up = [&](const Error& error) {
      world_.life.mark_failed();
      give_back(false);
      ErrorContext context = error.context();
      context.missing = world_.peers.culprits_for(context.missing);
      // If this rank leaves now, those who wait for it must not take it for the culprit.
      world_.failures.note({error.problem(), context.missing});
      return context;
    };
    try {
      std::shared_ptr<Exchange> exchange = means_.mux.channel(membership.uid);
      Agreement agreement = agree(*exchange, membership, options);
      means = find_means(std::move(exchange), membership, options, std::move(agreement));
    } catch (const ConfigError&) {
      give_back(true);  // all members have found it
      throw;
    } catch (const TimeoutError& error) {
      world_.incidents.report(
          {"timeout", fmt::format("making group {}: not all have come", membership.uid)});
      const TimeoutError told = world_.inquiry.with_missing(error, membership);
      throw TimeoutError(told.problem(), told.waited(), give_up(told));
    } catch (const PeerError& error) {
      throw PeerError(error.problem(), give_up(error));
    } catch (...) {
      world_.life.mark_failed();
      give_back(false);
      throw;
    }
  } else {
    means_.mux.pass_over(membership.uid);
    const Patience standing =
        world_.patience(fmt::format("standing by while group {} of ranks [{}] is made",
                                    membership.uid, fmt::join(membership.ranks, ", ")),
                        world_.settings.making_limit(options));
    for (const auto& mechanism : means_.mechanisms)
      mechanism->stand_by(membership, options, standing);
  }
  auto group =
      make_shared_here<GroupState>(self_.lock(), std::move(membership), options, std::move(means));
  enter(*group);
  if (note) note->set_made();
  std::lock_guard lock(mutex_);
  groups_.emplace(key_of(*group), group);
  return group;
}

GroupMeans GroupFactory::find_means(std::shared_ptr<Exchange> exchange,
                                    const Membership& membership, const GroupOptions& options,
                                    Agreement agreement) {
  GroupShape shape = GroupMembers::shape_of(membership, world_.rank());
  shape.reproducibility = options.reproducibility.value_or(world_.settings.reproducibility);
  const PathPolicy path = policy_of(options, world_.settings.path);
  require_gpu_path(path, agreement.layout);
  NewGroup made{.membership = membership,
                .shape = shape,
                .exchange = exchange,
                .patience = world_.making_patience(
                    fmt::format("making the communicator of group {} of ranks [{}]", membership.uid,
                                fmt::join(membership.ranks, ", ")),
                    world_.settings.making_limit(options), membership.ranks),
                .transports = {shape.size, make_exchange_port(exchange, membership.ranks)},
                .options = options,
                .logger = world_.logger};
  {
    const Incidents::OuterCall call(world_.incidents, "what makes a group's communicator");
    for (std::size_t i = 0; i < means_.mechanisms.size(); ++i)
      means_.mechanisms[i]->open(made, agreement.offers[i], agreement.answers[i]);
  }
  // What carried the bootstrap carries data too, where nothing better does.
  add_pairwise_algorithms(made.algorithms, pairwise_models::over_exchange, made.transports.least(),
                          shape);
  for (const auto& algorithm : made.algorithms)
    algorithm->set_recorded_as(
        world_.recorder.method_number(algorithm->path(), algorithm->model().method));
  const SelectionRules rules{.path = path,
                             .algo = options.algo.empty()
                                         ? world_.settings.algo
                                         : AlgoPolicy::parse(options.algo, "GroupOptions.algo"),
                             .reproducibility = shape.reproducibility};
  auto selector = std::make_unique<Selector>(std::move(made.algorithms), rules,
                                             plan_context(std::move(agreement.layout), path));
  for (const auto& tell : made.want_picker)
    tell([all = selector.get()](const Request& request) -> Algorithm& {
      return all->pick(request);
    });
  return {.selector = std::move(selector),
          .reach = std::move(made.reach),
          .nccl = made.given<NcclChannel>(),
          .exchange = std::move(exchange),
          .blocks = agreement.blocks};
}

// The members of a new group compare what they were called with, and learn where each other are and
// what each mechanism of the others has to offer. Then all are known to be there.
GroupFactory::Agreement GroupFactory::agree(Exchange& exchange, const Membership& membership,
                                            const GroupOptions& options) {
  const std::string mine = fmt::format(
      "ranks [{}], path '{}', algo '{}', reproducibility '{}', nccl '{}'",
      fmt::join(membership.ranks, ", "), options.path, options.algo,
      options.reproducibility ? to_string(*options.reproducibility) : "",
      hymn::describe(nccl_options(options.nccl, world_.settings.config.nccl, "GroupOptions.nccl")));
  const Timeout limit = options.timeout.or_else(world_.settings.default_timeout);
  const Timeout making = world_.settings.making_limit(options);
  // At level info a call that is under way may have to be given up.
  const bool blocks = limit.is_none() && !shares_memory() &&
                      world_.settings.checks != CheckLevel::info &&
                      std::all_of(means_.mechanisms.begin(), means_.mechanisms.end(),
                                  [](const auto& m) { return m->may_block(); });
  Packer packer;
  packer.text(mine).number(blocks ? 1 : 0);
  pack_spot(packer, means_.job, membership.ranks);
  for (const auto& mechanism : means_.mechanisms)
    packer.bytes(mechanism->offer(membership, options));
  const auto said =
      all_gather(exchange, membership.ranks, tag_group, packer.packed(),
                 world_.making_patience(fmt::format("making group {} of ranks [{}]", membership.uid,
                                                    fmt::join(membership.ranks, ", ")),
                                        making, membership.ranks));
  Agreement agreement;
  agreement.offers.resize(means_.mechanisms.size());
  LayoutReader layout;
  for (std::size_t member = 0; member < said.size(); ++member) {
    Unpacker unpacker(said[member]);
    const std::string theirs = unpacker.text();
    if (theirs != mine)
      throw UsageError(fmt::format("group {} was asked for with {} here but with {} on rank {}",
                                   membership.uid, mine, theirs, membership.ranks[member]),
                       {.rank = world_.rank(),
                        .operation = "new_group",
                        .remedy = "make the same calls of new_group on all ranks"});
    const bool they_block = unpacker.number() == 1;
    agreement.blocks = agreement.blocks && they_block;
    layout.read(unpacker);
    for (auto& offers : agreement.offers) offers.push_back(unpacker.bytes());
  }
  agreement.layout = layout.layout();
  agreement.answers = answer(exchange, membership, agreement.offers, making);
  return agreement;
}

// What was offered may fail on some member: all must know before they count on it.
std::vector<std::vector<Bytes>> GroupFactory::answer(Exchange& exchange,
                                                     const Membership& membership,
                                                     const std::vector<std::vector<Bytes>>& offers,
                                                     Timeout limit) {
  // The others wait just as long for what is said here: it must not come at the last moment.
  const Duration soon = limit.is_none() ? Duration::max() : limit.duration() / 2;
  Packer packer;
  for (std::size_t i = 0; i < means_.mechanisms.size(); ++i)
    packer.bytes(means_.mechanisms[i]->answer(membership, offers[i], soon));
  const auto said =
      all_gather(exchange, membership.ranks, tag_group, packer.packed(),
                 world_.making_patience(fmt::format("making group {}", membership.uid), limit,
                                        membership.ranks));
  std::vector<std::vector<Bytes>> answers(means_.mechanisms.size());
  for (const Bytes& word : said) {
    Unpacker unpacker(word);
    for (auto& of_mechanism : answers) of_mechanism.push_back(unpacker.bytes());
  }
  return answers;
}

PlanContext GroupFactory::plan_context(GroupLayout layout, const PathPolicy& path) const {
  return {.layout = std::move(layout),
          .machines = means_.job.machines,
          .tuning = means_.tuning,
          .peers = peer_use(path, world_.settings.config.p2p_compat)};
}

// Messages through shared memory move in hymn's calls only: a rank that was left in MPI's blocking
// call would keep back what it has begun to send, and for which a peer may wait that MPI waits for.
bool GroupFactory::shares_memory() const {
  return means_.job.places.size() > 1 &&
         (world_.settings.path.allows("shm") || world_.settings.path.allows("hierarchical"));
}

void GroupFactory::enter(GroupState& group) {
  const std::optional<GroupFailure> failure = known_.enter(group);
  if (failure && group.members().is_member()) {
    group.health().abort_here(*failure);
    world_.incidents.group_failed(*failure);
  }
  if (!world_.peers.has_control()) return;
  for (const PeerNews& news : world_.peers.agent()->all_news())
    if (is_gone(news.state)) group.health().member_changed(news);
}

void GroupFactory::group_ended(const GroupState& group, bool clean) {
  std::lock_guard lock(mutex_);
  for (const auto& mechanism : means_.mechanisms)
    mechanism->close(group.members().membership(), clean);
}

void GroupFactory::forget_group(const GroupState& group) {
  known_.forget(group);
  const std::lock_guard lock(mutex_);
  groups_.erase(key_of(group));
}

std::vector<std::weak_ptr<GroupState>> GroupFactory::all() {
  const std::lock_guard lock(mutex_);
  std::vector<std::weak_ptr<GroupState>> groups;
  for (const auto& [key, group] : groups_) groups.push_back(group);
  return groups;
}

}  // namespace hymn::detail
