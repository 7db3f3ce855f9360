#include "runtime/world/world_state.hpp"

#include "gpu/memory_query.hpp"
#include "runtime/world/world_greeting.hpp"

namespace hymn::detail {
namespace {

WorldSettings settings_of(const WorldParts& parts) {
  const WorldOptions& options = parts.options;
  const Config& config = parts.config;
  return {.config = config,
          .rank = parts.exchange->rank(),
          .size = parts.exchange->size(),
          .clock = parts.clock,
          .memory = parts.memory,
          .default_timeout = options.timeout.or_else(config.timeout).or_else(Config::usual_timeout),
          .gpu_timeout = options.timeout.or_else(config.timeout).or_else(Config::usual_gpu_timeout),
          .init_timeout = options.init_timeout.or_else(config.init_timeout),
          .path = parts.path,
          .algo = parts.algo,
          .reproducibility = options.reproducibility.value_or(config.reproducibility),
          .checks = options.checks.value_or(config.checks),
          .own_thread = parts.own_thread,
          .in_one_process = parts.in_one_process,
          .site = parts.site,
          .fake = parts.fake,
          .is_hidden = parts.is_hidden,
          .meanwhile = parts.meanwhile};
}

bool writes_metrics(const Config& config) { return !config.metrics.text.empty(); }

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

ThreadLevel WorldParts::thread_level() const {
  return options.thread_level.value_or(config.wanted_thread_level(own_thread));
}

WorldState::WorldState(WorldParts parts)
    : mux_(ExchangeMux::over(parts.exchange,
                             [logger = Logger(parts.config.log_level, parts.exchange->rank())](
                                 const std::string& dropped) { logger.debug(dropped); })),
      exchange_(mux_->channel(ExchangeMux::world_channel)),
      mechanisms_(std::move(parts.mechanisms)),
      plane_(std::move(parts.control)),
      context_(settings_of(parts),
               {.exchange = exchange_,
                .mechanisms = mechanisms_,
                .early = std::move(parts.early),
                .control = plane_.get(),
                .groups = *this,
                .counts = parts.options.metrics || writes_metrics(parts.config)}),
      groups_(context_,
              {.mux = *mux_, .mechanisms = mechanisms_, .job = met_.job, .tuning = met_.tuning},
              known_groups_),
      shrink_(context_, groups_),
      long_waits_(context_, known_groups_),
      overdue_works_(context_, known_groups_),
      listener_(context_, met_.job, known_groups_, long_waits_),
      control_(context_, plane_.get()) {
  const WorldSettings& settings = context_.settings;
  if (writes_metrics(settings.config))
    metrics_file_ = std::make_unique<MetricsFile>(
        settings.config.metrics, settings.rank, *context_.metrics,
        [this] { return dropped_messages(); }, context_.logger);
}

WorldState::~WorldState() {
  mux_->end_mail();
  control_.end();
}

std::shared_ptr<WorldState> WorldState::make(WorldParts parts) {
  auto world = make_shared_here<WorldState>(std::move(parts));
  world->begin();
  return world;
}

void WorldState::begin() {
  bool has_met = false;
  try {
    const bool leads = context_.rank() == 0;
    WorldMeeting meeting(context_, *exchange_);
    met_ = meeting.hold(leads && plane_ ? plane_->draw_secret() : "");
    control_.start(*exchange_, meeting.arrivals(), meeting.secret(), listener_,
                   {.beat = [this] { beat(); }, .move = [this] { return move(); }});
    has_met = true;
    start_working();
    default_group_ = groups_.make_default_group();
    WorldGreeting(context_, met_, mechanisms_, default_group_).tell();
  } catch (const ConfigError&) {
    // All ranks have found it, and all are here.
    for (const auto& mechanism : mechanisms_) mechanism->shut_down(WorldEnd::together);
    throw;
  } catch (const TimeoutError& error) {
    const PeerDirectory& peers = context_.peers;
    // After that all are asked who is missing.
    const TimeoutError known =
        has_met ? error : with_known(error, peers.company(peers.all_ranks()));
    ErrorContext context = known.context();
    context.missing = peers.culprits_for(context.missing);
    const TimeoutError told(known.problem(), known.waited(), std::move(context));
    control_.leave_unmade(told);
    throw told;
  } catch (const PeerError& error) {
    control_.leave_unmade(error);
    throw;
  }
}

// Where the ranks are is known.
void WorldState::start_working() {
  for (const auto& mechanism : mechanisms_) {
    mechanism->placed(met_.job);
    mechanism->measured(met_.tuning);
  }
  const CpuSet& helpers = met_.helper_cpus;
  const bool own_thread = context_.settings.own_thread;
  const auto may_step = [life = &context_.life] { return life->may_end_works(); };
  context_.engine = std::make_unique<ProgressEngine>(
      met_.has_peers_here ? WorksInFlight::of_thread() : WorksInFlight::of_process(), may_step,
      context_.oversubscribed, own_thread, helpers);
  mux_->set_mail(context_.engine->mail(), {.may_move = may_step, .is_gone = [this](int rank) {
                                             return context_.peers.is_hopeless(rank);
                                           }});
  context_.recorder.set_progress_thread(own_thread);
  context_.watched_engine.store(context_.engine.get(), std::memory_order_release);
  groups_.start(std::shared_ptr<WorldContext>(shared_from_this(), &context_), helpers);
}

int WorldState::gpu() const {
  const GroupState* const all = GroupState::of(default_group_);
  return all != nullptr && all->means().reach.gpu ? all->means().reach.gpu->index() : -1;
}

std::uint64_t WorldState::dropped_messages() const {
  std::uint64_t all = mux_->dropped();
  for (const auto& mechanism : mechanisms_) all += mechanism->dropped_messages();
  return all;
}

void WorldState::beat() {
  context_.incidents.watchdog()->beat();
  overdue_works_.look();
  long_waits_.look();
  if (metrics_file_) metrics_file_->tick(context_.clock().now());
}

bool WorldState::move() {
  const auto is_dead = [this](int rank) { return context_.peers.is_dead(rank); };
  bool again = false;
  for (const auto& mechanism : mechanisms_) again = mechanism->move(is_dead) || again;
  return again;
}

}  // namespace hymn::detail
