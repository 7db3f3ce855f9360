#include "runtime/world/world_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/callback_scope.hpp"
#include "base/error_context.hpp"
#include "collectives/pairwise/pairwise.hpp"
#include "collectives/pairwise/pairwise_models.hpp"
#include "control/coordinator.hpp"
#include "gpu/memory_query.hpp"
#include "p2p/exchange_port.hpp"
#include "recorder/making_note.hpp"
#include "runtime/group/work_state.hpp"
#include "runtime/mechanisms/gpu_path.hpp"

namespace hymn::detail {
namespace {

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
    : mux_(ExchangeMux::over(parts.exchange,
                             [logger = Logger(parts.config.log_level, parts.exchange->rank())](
                                 const std::string& dropped) { logger.debug(dropped); })),
      exchange_(mux_->channel(ExchangeMux::world_channel)),
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
      has_peers_here_(parts.in_one_process),
      site_(std::move(parts.site)),
      recorder_({.rank = rank_,
                 .world_size = size_,
                 .ring = {.entries = config_.recorder_size,
                          .frames = config_.recorder_frames,
                          .counts = counts_kept(config_, size_)},
                 .writers = writers_under(mechanisms_),
                 .timing = config_.recorder_timing,
                 .for_peers = !parts.in_one_process}),
      early_(std::move(parts.early)),
      control_(std::move(parts.control)),
      wait_reports_(config_.wait_report) {
  for (const auto& mechanism : mechanisms_)
    if (mechanism->has_gate()) gates_.push_back(mechanism.get());
  const bool to_file = !config_.metrics.text.empty();
  if (parts.options.metrics || to_file) metrics_ = std::make_unique<CallMetrics>();
  if (to_file)
    metrics_file_ = std::make_unique<MetricsFile>(
        config_.metrics, rank_, *metrics_, [this] { return dropped_messages(); }, logger_);
}

WorldState::~WorldState() { end_control(); }

std::shared_ptr<WorldState> WorldState::make(WorldParts parts) {
  auto world = make_shared_here<WorldState>(std::move(parts));
  bool has_met = false;
  try {
    world->meet();
    has_met = true;
    for (const auto& mechanism : world->mechanisms_) {
      mechanism->placed(world->job_);
      mechanism->measured(world->tuning_);
    }
    world->engine_ = std::make_unique<ProgressEngine>(
        world->has_peers_here_ ? WorksInFlight::of_thread() : WorksInFlight::of_process(),
        [state = world.get()] { return state->may_end_works(); }, world->oversubscribed_,
        world->own_thread_, world->helper_cpus());
    world->recorder_.set_progress_thread(world->own_thread_);
    world->maker_ = std::make_unique<GroupMaker>(world->helper_cpus());
    world->watched_engine_.store(world->engine_.get(), std::memory_order_release);
    Membership everybody;
    everybody.uid = world->next_uid_++;
    everybody.ranks = world->all_ranks();
    world->default_group_ =
        ProcessGroup(world->make_group(std::move(everybody), {.description = "default_pg"}));
    world->tell_of_start();
  } catch (const ConfigError&) {
    // All ranks have found it, and all are here.
    for (const auto& mechanism : world->mechanisms_) mechanism->shut_down(WorldEnd::together);
    throw;
  } catch (const TimeoutError& error) {
    // After that all are asked who is missing.
    const TimeoutError known =
        has_met ? error : with_known(error, world->company(world->all_ranks()));
    ErrorContext context = known.context();
    context.missing = world->culprits_for(context.missing);
    const TimeoutError told(known.problem(), known.waited(), std::move(context));
    world->leave_unmade(told);
    throw told;
  } catch (const PeerError& error) {
    world->leave_unmade(error);
    throw;
  }
  return world;
}

Patience WorldState::patience(std::string purpose, Timeout timeout) const {
  Patience patience;
  patience.deadline = Deadline::after(timeout, clock_->now());
  patience.clock = clock_;
  patience.oversubscribed = oversubscribed_;
  patience.purpose = std::move(purpose);
  patience.is_hopeless = [this](int rank) { return is_hopeless(rank); };
  patience.meanwhile = [this, purpose = patience.purpose] {
    // What is made by another thread must not keep a rank that leaves.
    if (is_leaving()) throw AbortedError("this rank leaves: " + purpose, {.rank = rank_});
    if (!is_open())
      throw UsageError(fmt::format("{} was finalized: {}", exchange_->name(), purpose),
                       {.rank = rank_});
    if (engine_ != nullptr)
      engine_->step_all();
    else
      WorksInFlight::step_all_here();
  };
  patience.context.rank = rank_;
  return patience;
}

Patience WorldState::making_patience(std::string purpose, Timeout timeout,
                                     std::vector<int> ranks) const {
  Patience patience = this->patience(std::move(purpose), timeout);
  patience.long_wait = long_wait(patience.purpose);
  patience.is_hopeless = nullptr;  // the watch looks at all of them
  patience.meanwhile = [go_on = std::move(patience.meanwhile),
                        watch = CompanyWatch(company(std::move(ranks)), patience.purpose,
                                             patience.context)]() mutable {
    go_on();
    watch();
  };
  return patience;
}

Company WorldState::company(std::vector<int> ranks) const {
  return {.ranks = std::move(ranks),
          .is_hopeless = [this](int rank) { return is_hopeless(rank); },
          .tell_of = [this](int rank) { return tell_of(rank); }};
}

std::vector<int> WorldState::all_ranks() const {
  std::vector<int> ranks(static_cast<std::size_t>(size_));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

bool WorldState::is_member(const Membership& membership) const {
  return GroupState::shape_of(membership, rank_).rank >= 0;
}

ProcessGroup& WorldState::default_group() { return default_group_; }

ProcessGroup WorldState::new_group(std::span<const int> ranks, const GroupOptions& options) {
  Membership membership = new_membership(ranks, options);
  maker_->settle(patience("waiting for groups that are being made", Timeout::none()));
  return ProcessGroup(make_group(std::move(membership), options));
}

Future<ProcessGroup> WorldState::new_group_async(std::span<const int> ranks,
                                                 const GroupOptions& options) {
  // Who waits for it moves what is in flight meanwhile. The future must not hold itself.
  const auto self = std::make_shared<std::weak_ptr<FutureState<ProcessGroup>>>();
  auto drive = [weak_world = weak_from_this(), self](Timeout timeout) {
    const auto world = weak_world.lock();
    const auto state = self->lock();
    if (world == nullptr || state == nullptr) return;
    const Patience patience =
        world->patience("waiting for a new group", timeout.is_set() ? timeout : Timeout::none());
    PatientWait(patience).until([&] { return state->is_ready(); });
  };
  auto made = std::make_shared<FutureState<ProcessGroup>>(std::move(drive));
  *self = made;
  auto make = [this, made, options, membership = new_membership(ranks, options)] {
    std::shared_ptr<GroupState> group;
    std::exception_ptr error;
    try {
      group = make_group(membership, options);
    } catch (...) {
      error = std::current_exception();
    }
    const CallbackScope scope;
    if (error)
      made->set_error(error);
    else
      made->set_value(ProcessGroup(std::move(group)));
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
  require_here(context);
  if (is_destroyed()) throw UsageError("the world has been destroyed", context);
  Membership membership;
  if (ranks.size() > static_cast<std::size_t>(size_))
    throw UsageError(
        fmt::format(
            "{} ranks are given for a world of {}: one of them twice, or their number is wrong",
            ranks.size(), size_),
        context);
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
  if (next_uid_ >= control::first_shrunk_uid)
    throw ResourceError("all group numbers are used up", context);
  membership.uid = next_uid_++;
  return membership;
}

void WorldState::skip_uids_to(std::uint64_t uid) {
  std::lock_guard lock(groups_mutex_);
  next_uid_ = std::max(next_uid_, uid);
}

std::uint64_t WorldState::dropped_messages() const {
  std::uint64_t all = mux_->dropped();
  for (const auto& mechanism : mechanisms_) all += mechanism->dropped_messages();
  return all;
}

std::shared_ptr<GroupState> WorldState::make_group(Membership membership,
                                                   const GroupOptions& options) {
  GroupState::Means means;
  bool blocks = false;
  std::optional<MakingNote> note;
  if (is_member(membership)) {
    note.emplace(recorder_, membership.uid, membership.ranks);
    const auto give_back = [&](bool clean) {
      for (const auto& mechanism : mechanisms_) mechanism->close(membership, clean);
    };
    const auto give_up = [&](const Error& error) {
      mark_failed();
      give_back(false);
      ErrorContext context = error.context();
      context.missing = culprits_for(context.missing);
      // If this rank leaves now, those who wait for it must not take it for the culprit.
      note_failure({error.problem(), context.missing});
      return context;
    };
    try {
      std::shared_ptr<Exchange> exchange = mux_->channel(membership.uid);
      Agreement agreement = agree(*exchange, membership, options);
      blocks = agreement.blocks;
      means = find_means(std::move(exchange), membership, options, std::move(agreement));
    } catch (const ConfigError&) {
      give_back(true);  // all members have found it
      throw;
    } catch (const TimeoutError& error) {
      incident({"timeout", fmt::format("making group {}: not all have come", membership.uid)});
      const TimeoutError told = with_missing(error, membership);
      throw TimeoutError(told.problem(), told.waited(), give_up(told));
    } catch (const PeerError& error) {
      throw PeerError(error.problem(), give_up(error));
    } catch (...) {
      mark_failed();
      give_back(false);
      throw;
    }
  } else {
    mux_->pass_over(membership.uid);
    const Patience standing =
        patience(fmt::format("standing by while group {} of ranks [{}] is made", membership.uid,
                             fmt::join(membership.ranks, ", ")),
                 making_limit(options));
    for (const auto& mechanism : mechanisms_) mechanism->stand_by(membership, options, standing);
  }
  auto group = make_shared_here<GroupState>(shared_from_this(), std::move(membership), options,
                                            std::move(means), blocks);
  enter_group(*group);
  if (note) note->set_made();
  std::lock_guard lock(groups_mutex_);
  groups_.emplace(key_of(*group), group);
  return group;
}

GroupState::Means WorldState::find_means(std::shared_ptr<Exchange> exchange,
                                         const Membership& membership, const GroupOptions& options,
                                         Agreement agreement) {
  GroupShape shape = GroupState::shape_of(membership, rank_);
  shape.reproducibility = options.reproducibility.value_or(reproducibility_);
  const PathPolicy path = policy_of(options, path_);
  require_gpu_path(path, agreement.layout);
  NewGroup made{
      .membership = membership,
      .shape = shape,
      .exchange = exchange,
      .patience = making_patience(fmt::format("making the communicator of group {} of ranks [{}]",
                                              membership.uid, fmt::join(membership.ranks, ", ")),
                                  making_limit(options), membership.ranks),
      .transports = {shape.size, make_exchange_port(exchange, membership.ranks)},
      .options = options,
      .logger = logger_};
  {
    const OuterCall call(*this, "what makes a group's communicator");
    for (std::size_t i = 0; i < mechanisms_.size(); ++i)
      mechanisms_[i]->open(made, agreement.offers[i], agreement.answers[i]);
  }
  // What carried the bootstrap carries data too, where nothing better does.
  add_pairwise_algorithms(made.algorithms, pairwise_models::over_exchange, made.transports.least(),
                          shape);
  for (const auto& algorithm : made.algorithms)
    algorithm->set_recorded_as(
        recorder_.method_number(algorithm->path(), algorithm->model().method));
  const SelectionRules rules{
      .path = path,
      .algo = options.algo.empty() ? algo_ : AlgoPolicy::parse(options.algo, "GroupOptions.algo"),
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
          .exchange = std::move(exchange)};
}

bool WorldState::may_drive() const {
  for (const Mechanism* gate : gates_)
    if (!gate->may_drive()) return false;
  return true;
}

void WorldState::require_here(const ErrorContext& context) const {
  if (!is_copied()) [[likely]]
    return;
  ErrorContext where = context;
  where.remedy = "use hymn in the process that has made the World";
  throw UsageError(
      fmt::format(
          "this process is a child made by fork(): the world belongs to rank {}, its parent",
          rank_),
      std::move(where));
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

}  // namespace hymn::detail
