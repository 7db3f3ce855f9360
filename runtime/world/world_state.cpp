#include "runtime/world/world_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error_context.hpp"
#include "base/keep_for_ever.hpp"
#include "collectives/pairwise/exchange_port.hpp"
#include "collectives/pairwise/pairwise.hpp"
#include "gpu/memory_query.hpp"
#include "runtime/group/work_state.hpp"
#include "runtime/mechanisms/gpu_path.hpp"

namespace hymn::detail {
namespace {

// Tags of the bootstrap, beside those of world_meeting.cpp and job_map.cpp; far below those of
// data.
constexpr std::uint64_t tag_end = 2;
constexpr std::uint64_t tag_end_agreed = 8;

// How long ranks wait for each other at the very end: long enough for an uneven last step, short
// enough not to look like a hang.
constexpr Duration longest_end = std::chrono::seconds(30);
constexpr Duration longest_end_of_failed = std::chrono::seconds(3);

CallRing::Writers writers_under(const std::vector<std::unique_ptr<Mechanism>>& mechanisms) {
  const bool overlap = std::all_of(mechanisms.begin(), mechanisms.end(), [](const auto& mechanism) {
    return mechanism->calls_may_overlap();
  });
  return overlap ? CallRing::Writers::many : CallRing::Writers::one_at_a_time;
}

/// No call has more blocks than ranks, on either side.
std::size_t counts_kept(const Config& config, int ranks) {
  return ranks == 1 ? 0 : std::min(config.recorder_counts, 2 * static_cast<std::size_t>(ranks));
}

}  // namespace

WorldParts::WorldParts(Config configured, WorldOptions chosen)
    : config(std::move(configured)),
      options(std::move(chosen)),
      path(options.path.empty() ? config.path
                                : PathPolicy::parse(options.path, "WorldOptions.path")),
      algo(options.algo.empty() ? AlgoPolicy::parse(config.algo, "HYMN_ALGO")
                                : AlgoPolicy::parse(options.algo, "WorldOptions.algo")),
      own_thread(options.progress_thread.value_or(config.progress_thread)),
      memory(memory_query()),
      gpus(GpuLibraries::loaded()) {
  nccl_options({}, config.nccl, "HYMN_NCCL_*");
}

WorldState::WorldState(WorldParts parts)
    : exchange_(std::move(parts.exchange)),
      mechanisms_(std::move(parts.mechanisms)),
      config_(std::move(parts.config)),
      clock_(parts.clock),
      memory_(parts.memory),
      rank_(exchange_->rank()),
      size_(exchange_->size()),
      logger_(config_.log_level, rank_),
      default_timeout_(parts.options.timeout.or_else(config_.timeout)),
      init_timeout_(parts.options.init_timeout.or_else(config_.init_timeout)),
      path_(std::move(parts.path)),
      algo_(std::move(parts.algo)),
      reproducibility_(parts.options.reproducibility.value_or(config_.reproducibility)),
      own_thread_(parts.own_thread),
      checks_(parts.options.checks.value_or(config_.checks)),
      in_one_process_(parts.in_one_process),
      site_(std::move(parts.site)),
      recorder_({.rank = rank_,
                 .world_size = size_,
                 .ring = {.entries = config_.recorder_size,
                          .frames = config_.recorder_frames,
                          .counts = counts_kept(config_, size_)},
                 .writers = writers_under(mechanisms_),
                 .timing = config_.recorder_timing,
                 .for_peers = !parts.in_one_process}),
      control_(std::move(parts.control)) {
  for (const auto& mechanism : mechanisms_)
    if (mechanism->has_gate()) gates_.push_back(mechanism.get());
  const bool to_file = !config_.metrics.text.empty();
  if (parts.options.metrics || to_file) metrics_ = std::make_unique<CallMetrics>();
  if (to_file)
    metrics_file_ = std::make_unique<MetricsFile>(config_.metrics, rank_, *metrics_, logger_);
}

WorldState::~WorldState() { end_control(); }

std::shared_ptr<WorldState> WorldState::make(WorldParts parts) {
  auto world = std::make_shared<WorldState>(std::move(parts));
  try {
    world->meet();
    for (const auto& mechanism : world->mechanisms_) {
      mechanism->placed(world->job_);
      mechanism->measured(world->tuning_);
    }
    world->engine_ =
        std::make_unique<ProgressEngine>([state = world.get()] { return state->may_drive(); },
                                         world->crowded_, world->own_thread_, world->helper_cpus());
    world->maker_ = std::make_unique<GroupMaker>(world->helper_cpus());
    world->watched_engine_.store(world->engine_.get(), std::memory_order_release);
    Membership everybody;
    everybody.uid = world->next_uid_++;
    for (int rank = 0; rank < world->size_; ++rank) everybody.ranks.push_back(rank);
    world->default_group_ =
        ProcessGroup(world->make_group(std::move(everybody), {.description = "default_pg"}));
  } catch (const ConfigError&) {
    // All ranks have found it, and all are here.
    for (const auto& mechanism : world->mechanisms_) mechanism->shut_down(WorldEnd::together);
    throw;
  } catch (const TimeoutError& error) {
    world->leave_unmade(error);
    throw;
  }
  return world;
}

Patience WorldState::patience(std::string purpose, Timeout timeout) const {
  Patience patience;
  patience.deadline = Deadline::after(timeout, clock_->now());
  patience.clock = clock_;
  patience.crowded = crowded_;
  patience.purpose = std::move(purpose);
  patience.is_hopeless = [this](int rank) { return is_hopeless(rank); };
  // What is made by another thread must not keep a rank that leaves.
  patience.meanwhile = [this, purpose = patience.purpose] {
    if (is_leaving()) throw AbortedError("this rank leaves: " + purpose, {.rank = rank_});
  };
  patience.context.rank = rank_;
  return patience;
}

bool WorldState::is_member(const Membership& membership) const {
  return GroupState::shape_of(membership, rank_).rank >= 0;
}

ProcessGroup& WorldState::default_group() { return default_group_; }

ProcessGroup WorldState::new_group(std::span<const int> ranks, const GroupOptions& options) {
  Membership membership = new_membership(ranks, options);
  maker_->settle();
  return ProcessGroup(make_group(std::move(membership), options));
}

Future<ProcessGroup> WorldState::new_group_async(std::span<const int> ranks,
                                                 const GroupOptions& options) {
  auto made = std::make_shared<FutureState<ProcessGroup>>(nullptr);
  auto make = [this, made, options, membership = new_membership(ranks, options)] {
    try {
      made->set_value(ProcessGroup(make_group(membership, options)));
    } catch (...) {
      made->set_error(std::current_exception());
    }
  };
  if (std::all_of(mechanisms_.begin(), mechanisms_.end(),
                  [](const auto& mechanism) { return mechanism->serves_own_threads(); }))
    maker_->add(std::move(make));
  else
    make();
  return Future<ProcessGroup>(std::move(made));
}

Membership WorldState::new_membership(std::span<const int> ranks, const GroupOptions& options) {
  const ErrorContext context{.rank = rank_, .operation = "new_group"};
  if (is_destroyed()) throw UsageError("the world has been destroyed", context);
  Membership membership;
  membership.ranks.assign(ranks.begin(), ranks.end());
  std::sort(membership.ranks.begin(), membership.ranks.end());
  if (ranks.empty()) throw UsageError("a group needs at least one rank", context);
  if (membership.ranks.front() < 0 || membership.ranks.back() >= size_)
    throw UsageError(
        fmt::format("ranks [{}] are not all in 0 … {}", fmt::join(ranks, ", "), size_ - 1),
        context);
  if (std::adjacent_find(membership.ranks.begin(), membership.ranks.end()) !=
      membership.ranks.end())
    throw UsageError(fmt::format("ranks [{}] name a rank twice", fmt::join(ranks, ", ")), context);
  PathPolicy::parse(options.path, "GroupOptions.path");
  nccl_options(options.nccl, config_.nccl, "GroupOptions.nccl");
  AlgoPolicy::parse(options.algo, "GroupOptions.algo");
  require_drive(context);
  std::lock_guard lock(groups_mutex_);
  membership.uid = next_uid_++;
  return membership;
}

std::shared_ptr<GroupState> WorldState::make_group(Membership membership,
                                                   const GroupOptions& options) {
  GroupState::Means means;
  bool blocks = false;
  if (is_member(membership)) {
    const auto give_back = [&](bool clean) {
      for (const auto& mechanism : mechanisms_) mechanism->close(membership, clean);
    };
    try {
      Agreement agreement = agree(membership, options);
      blocks = agreement.blocks;
      means = find_means(membership, options, std::move(agreement));
    } catch (const ConfigError&) {
      give_back(true);  // all members have found it
      throw;
    } catch (const TimeoutError& error) {
      mark_failed();
      give_back(false);
      ErrorContext context = error.context();
      context.missing = culprits_for(context.missing);
      // If this rank leaves now, those who wait for it must not take it for the culprit.
      note_failure({error.problem(), context.missing});
      throw TimeoutError(error.problem(), error.waited(), std::move(context));
    } catch (...) {
      mark_failed();
      give_back(false);
      throw;
    }
  } else {
    Patience standing = patience(fmt::format("standing by while group {} of ranks [{}] is made",
                                             membership.uid, fmt::join(membership.ranks, ", ")),
                                 making_limit(options));
    standing.meanwhile = [this, look = standing.meanwhile] {
      look();
      engine_->step_all();
    };
    for (const auto& mechanism : mechanisms_) mechanism->stand_by(membership, options, standing);
  }
  auto group = std::make_shared<GroupState>(shared_from_this(), std::move(membership), options,
                                            std::move(means), blocks);
  enter_group(*group);
  std::lock_guard lock(groups_mutex_);
  std::erase_if(groups_, [](const auto& other) { return other.expired(); });
  groups_.push_back(group);
  return group;
}

GroupState::Means WorldState::find_means(const Membership& membership, const GroupOptions& options,
                                         Agreement agreement) {
  GroupShape shape = GroupState::shape_of(membership, rank_);
  shape.reproducibility = options.reproducibility.value_or(reproducibility_);
  const PathPolicy path = policy_of(options, path_);
  require_gpu_path(path, agreement.layout);
  NewGroup made{
      .membership = membership,
      .shape = shape,
      .patience = patience(fmt::format("making the communicator of group {} of ranks [{}]",
                                       membership.uid, fmt::join(membership.ranks, ", ")),
                           making_limit(options)),
      .options = options,
      .step_others = [this] { engine_->step_all(); }};
  {
    const OuterCall call(*this, "what makes a group's communicator");
    for (std::size_t i = 0; i < mechanisms_.size(); ++i)
      mechanisms_[i]->open(made, agreement.offers[i], agreement.answers[i]);
  }
  // What carried the bootstrap carries data too, where nothing better does.
  add_pairwise_algorithms(made.algorithms,
                          make_exchange_port(exchange_, membership.ranks, membership.uid), shape);
  for (const auto& algorithm : made.algorithms)
    algorithm->set_recorded_as(recorder_.method_number(algorithm->path(), algorithm->name()));
  const SelectionRules rules{
      .path = path,
      .algo = options.algo.empty() ? algo_ : AlgoPolicy::parse(options.algo, "GroupOptions.algo"),
      .reproducibility = shape.reproducibility};
  auto selector = std::make_unique<Selector>(std::move(made.algorithms), rules,
                                             plan_context(std::move(agreement.layout), path));
  if (made.staged != nullptr)
    made.staged->carry_by([all = selector.get()](const Request& request) -> Algorithm& {
      return all->pick(request);
    });
  return {.selector = std::move(selector),
          .reach = std::move(made.reach),
          .nccl = std::move(made.nccl)};
}

bool WorldState::may_drive() const {
  for (const Mechanism* gate : gates_)
    if (!gate->may_drive()) return false;
  return true;
}

void WorldState::require_drive(const ErrorContext& context) const {
  if (may_drive()) [[likely]]
    return;
  try {
    for (const auto& mechanism : mechanisms_) mechanism->require_drive();
  } catch (...) {
    rethrow_with(context);
  }
}

void WorldState::group_ended(const GroupState& group, bool clean) {
  std::lock_guard lock(groups_mutex_);
  for (const auto& mechanism : mechanisms_) mechanism->close(group.membership(), clean);
}

// Rank 0 hears from everybody and tells everybody; and then again, that all have heard it. A rank
// that has failed still says so, but does not wait long for the others: they may never come.
WorldEnd WorldState::agree_to_end() {
  const bool together =
      std::any_of(mechanisms_.begin(), mechanisms_.end(),
                  [](const auto& mechanism) { return mechanism->ends_together(); });
  if (!together) return has_failed() ? WorldEnd::together : WorldEnd::clean;
  if (is_leaving() || !exchange_->is_open() || !may_drive()) return WorldEnd::apart;
  Duration limit = has_failed() ? longest_end_of_failed : longest_end;
  if (!default_timeout_.is_none()) limit = std::min(limit, default_timeout_.duration());
  Packer word;
  word.number(has_failed() ? 1 : 0);
  try {
    const auto words = all_gather(*exchange_, default_group_.membership().ranks, tag_end,
                                  word.packed(), patience("ending the world", limit));
    // Who came late may find the words of all, who have given up meanwhile and are gone.
    Patience still_there = patience("ending the world", limit);
    still_there.is_hopeless = [this](int rank) { return is_hopeless(rank) || is_over(rank); };
    all_gather(*exchange_, default_group_.membership().ranks, tag_end_agreed, {}, still_there);
    const bool clean = std::all_of(words.begin(), words.end(),
                                   [](const Bytes& said) { return Unpacker(said).number() == 0; });
    return clean ? WorldEnd::clean : WorldEnd::together;
  } catch (const std::exception& error) {
    logger_.warning(error.what());
    return WorldEnd::apart;
  }
}

void WorldState::destroy() {
  if (destroyed_.exchange(true, std::memory_order_acq_rel)) return;
  maker_->finish();
  std::vector<std::weak_ptr<GroupState>> groups;
  {
    std::lock_guard lock(groups_mutex_);
    groups = groups_;
  }
  for (const auto& weak : groups)
    if (const auto group = weak.lock()) group->destroy();
  if (!engine_->is_drained()) mark_failed();
  if (metrics_file_) metrics_file_->write();
  say_goodbye();
  const WorldEnd end = agree_to_end();
  // Residues outlive their world: MPI may still write to what they hold.
  keep_for_ever(engine_->shut_down());
  for (const auto& mechanism : mechanisms_) mechanism->shut_down(end);
  end_control();
}

}  // namespace hymn::detail
