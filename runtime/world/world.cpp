#include "hymn/world.hpp"

#include <exception>

#include "base/keep_for_ever.hpp"
#include "runtime/mechanisms/hierarchical_mechanism.hpp"
#include "runtime/mechanisms/peer_mechanism.hpp"
#include "runtime/mechanisms/process_regions.hpp"
#include "runtime/mechanisms/tcp_mechanism.hpp"
#include "runtime/world/tcp_control.hpp"
#include "runtime/world/world_facts.hpp"
#include "runtime/world/world_over.hpp"
#include "runtime/world/world_state.hpp"
#include "topology/machine_json_job.hpp"

namespace hymn {

detail::WorldState& detail::need(const std::shared_ptr<WorldState>& state) {
  if (!state) throw UsageError("this World is empty: it was moved from");
  return *state;
}

detail::WorldParts detail::parts_over(std::shared_ptr<Exchange> exchange, Config config,
                                      const WorldOptions& options) {
  if (!exchange) throw UsageError("the exchange of a world is null");
  WorldParts parts(std::move(config), options);
  parts.exchange = std::move(exchange);
  const int rank = parts.exchange->rank();
  const Logger logger(parts.config.log_level, rank);
  parts.mechanisms.push_back(
      std::make_unique<ShmMechanism>(std::make_unique<ProcessRegions>(), logger));
  parts.mechanisms.push_back(
      std::make_unique<TcpMechanism>(TcpMechanism::Site{.rank = rank,
                                                        .size = parts.exchange->size(),
                                                        .interface = parts.config.interface,
                                                        .path = parts.path,
                                                        .streams = parts.config.tcp_streams},
                                     logger));
  parts.mechanisms.push_back(std::make_unique<HierarchicalMechanism>());
  add_gpu_mechanisms(parts.mechanisms, parts.gpus, parts.path, parts.config);
  return parts;
}

Timeout detail::init_limit(const WorldOptions& options, const Config& config) {
  return options.init_timeout.or_else(config.init_timeout)
      .or_else(options.timeout)
      .or_else(config.timeout)
      .or_else(Config::usual_timeout);
}

World World::over(std::shared_ptr<Exchange> exchange, const WorldOptions& options) {
  detail::WorldParts parts =
      detail::parts_over(std::move(exchange), Config::from_environment(), options);
  if (parts.config.control)
    parts.control = std::make_unique<TcpControl>(
        parts.config.interface, Logger(parts.config.log_level, parts.exchange->rank()));
  return World(detail::WorldState::make(std::move(parts)));
}

World::World(std::shared_ptr<detail::WorldState> state) : state_(std::move(state)) {}
World::World(World&&) noexcept = default;

World& World::operator=(World&& other) noexcept {
  if (this != &other) {
    World ended(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}

World::~World() {
  if (!state_) return;
  // A rank that leaves by an exception has left its peers alone: do not wait for them.
  if (std::uncaught_exceptions() > 0) state_->context().life.mark_leaving();
  try {
    state_->destroy();
  } catch (const std::exception& error) {
    state_->context().logger.warning(error.what());
  }
  // In a callback: nobody can end it any more. Its groups work on.
  if (!state_->context().life.is_destroyed())
    keep_for_ever(std::move(state_));
  else
    state_->release_default_group();
}

int World::rank() const { return need(state_).context().rank(); }
int World::size() const { return need(state_).context().settings.size; }
int World::local_rank() const { return need(state_).job_map().place().local_rank; }
int World::local_size() const { return static_cast<int>(need(state_).job_map().places.size()); }
int World::host_count() const {
  return static_cast<int>(need(state_).job_map().world.hosts.size());
}
int World::gpu() const { return need(state_).gpu(); }
std::string World::topology_json() const { return job_map_to_json(need(state_).job_map()); }
ProcessGroup& World::group() { return need(state_).default_group(); }

ProcessGroup World::new_group(std::span<const int> ranks, const GroupOptions& options) {
  return need(state_).groups().new_group(ranks, options);
}

Future<ProcessGroup> World::new_group_async(std::span<const int> ranks,
                                            const GroupOptions& options) {
  return need(state_).groups().new_group_async(ranks, options);
}

ProcessGroup World::find_group(std::string_view tag, std::span<const int> ranks) {
  return need(state_).groups().find(tag, ranks);
}

ProcessGroup World::find_or_create_group(std::string_view tag, std::span<const int> flat_ranks,
                                         std::size_t group_size, const GroupOptions& options) {
  return need(state_).groups().find_or_create(tag, flat_ranks, group_size, options);
}

std::shared_ptr<Store> World::store() { return need(state_).store(); }

std::vector<OperationMetrics> World::metrics() const {
  const CallMetrics* metrics = need(state_).context().metrics.get();
  return metrics == nullptr ? std::vector<OperationMetrics>() : metrics->all();
}
std::uint64_t World::dropped_messages() const { return need(state_).dropped_messages(); }
std::string World::metrics_json() const {
  return hymn::metrics_json(metrics(), rank(), dropped_messages());
}
std::string World::metrics_prometheus() const {
  return hymn::metrics_prometheus(metrics(), rank(), dropped_messages());
}

void World::destroy() { need(state_).destroy(); }
bool World::is_destroyed() const { return need(state_).context().life.is_destroyed(); }

const JobMap& job_map_of(const World& world) { return detail::WorldState::of(world).job_map(); }
const Config& config_of(const World& world) {
  return detail::WorldState::of(world).context().settings.config;
}

}  // namespace hymn
