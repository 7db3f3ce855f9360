// Worlds over MPI.

#include <fmt/format.h>

#include <utility>

#include "hymn/interop_mpi.hpp"
#include "hymn/rendezvous.hpp"
#include "p2p/mpi/mpi_types.hpp"
#include "runtime/mechanisms/hierarchical_mechanism.hpp"
#include "runtime/mechanisms/mpi_exchange.hpp"
#include "runtime/mechanisms/mpi_mechanism.hpp"
#include "runtime/mechanisms/mpi_session.hpp"
#include "runtime/mechanisms/peer_mechanism.hpp"
#include "runtime/mechanisms/process_regions.hpp"
#include "runtime/mechanisms/tcp_mechanism.hpp"
#include "runtime/world/mpi_world.hpp"
#include "runtime/world/own_communicator.hpp"
#include "runtime/world/tcp_control.hpp"
#include "runtime/world/world_over.hpp"
#include "runtime/world/world_state.hpp"

namespace hymn {
namespace {

/// Holds back MPI_Finalize at exit while a world lives, and for good when one ended badly.
class FinalizeHold final : public Mechanism {
 public:
  FinalizeHold() { hold_finalize(); }
  ~FinalizeHold() override {
    if (!released_) release_finalize(false);
  }
  void open(NewGroup&, std::span<const Word>, std::span<const Word>) override {}
  void shut_down(WorldEnd end) override {
    if (!released_) release_finalize(end != WorldEnd::apart);
    released_ = true;
  }

 private:
  bool released_ = false;
};

void require_level(const detail::WorldParts& parts, ThreadLevel granted) {
  if (parts.own_thread && granted != ThreadLevel::multiple)
    throw UsageError(
        "a progress thread is asked for, but MPI was initialised without MPI_THREAD_MULTIPLE",
        {.remedy =
             "ask for MPI_THREAD_MULTIPLE in MPI_Init_thread, or, where hymn initialises MPI, "
             "by HYMN_MPI_THREAD_LEVEL or WorldOptions::thread_level of the first World; or "
             "do without"});
  if (parts.options.thread_level && granted < *parts.options.thread_level)
    throw UsageError(
        fmt::format("thread level {} is asked for (WorldOptions.thread_level), but MPI was "
                    "initialised with {}",
                    to_string(*parts.options.thread_level), to_string(granted)),
        {.remedy = "ask for it in MPI_Init_thread, or, where hymn initialises MPI, by "
                   "HYMN_MPI_THREAD_LEVEL or in the first World of the process"});
}

std::shared_ptr<detail::WorldState> make_world(MPI_Comm communicator, bool everybody, Config config,
                                               const WorldOptions& options) {
  // All that this rank alone can refuse comes before anything that concerns its peers. Once there
  // is a FinalizeHold an error means that they are out of step.
  detail::WorldParts parts(std::move(config), options);
  const auto gate = open_mpi(parts.thread_level(), Logger(parts.config.log_level, -1));
  if (communicator == MPI_COMM_NULL)
    throw UsageError("a world cannot be made from MPI_COMM_NULL",
                     {.remedy = "call on the ranks of the communicator only"});
  require_level(parts, gate->level());
  const Timeout limit = detail::init_limit(options, parts.config);
  const auto exchange = std::make_shared<MpiExchange>(
      own_communicator(communicator, *gate, limit, parts.early, parts.config), gate);
  if (everybody) check_launcher(exchange->size());
  parts.exchange = exchange;
  parts.mechanisms.push_back(std::make_unique<ShmMechanism>(
      std::make_unique<ProcessRegions>(), Logger(parts.config.log_level, exchange->rank())));
  parts.mechanisms.push_back(
      std::make_unique<TcpMechanism>(TcpMechanism::Site{.rank = exchange->rank(),
                                                        .size = exchange->size(),
                                                        .interface = parts.config.interface,
                                                        .path = parts.path,
                                                        .beside_mpi = true,
                                                        .streams = parts.config.tcp_streams},
                                     Logger(parts.config.log_level, exchange->rank())));
  parts.mechanisms.push_back(
      std::make_unique<MpiMechanism>(exchange, gate, parts.config.chunk_limit));
  parts.mechanisms.push_back(std::make_unique<HierarchicalMechanism>());
  add_gpu_mechanisms(parts.mechanisms, parts.gpus, parts.path, parts.config);
  parts.mechanisms.push_back(std::make_unique<FinalizeHold>());
  if (parts.config.control)
    parts.control = std::make_unique<TcpControl>(parts.config.interface,
                                                 Logger(parts.config.log_level, exchange->rank()));
  auto world = detail::WorldState::make(std::move(parts));
  before_finalize(world, [state = world.get()] { state->finish_works(); });
  return world;
}

/// What the program says of hymn concerns its own worlds, not this one.
Config config_behind_mpi() {
  Config config;
  const Config said = Config::from_environment();
  config.log_level = LogLevel::off;
  config.tuning = said.tuning;
  config.interface = said.interface;
  config.topology_file = said.topology_file;
  config.recorder_size = 0;
  config.control = false;
  config.wait_report = Timeout::none();
  return config;
}

}  // namespace

World world_behind_mpi(MPI_Comm communicator, bool on_one_host, void (*meanwhile)()) {
  WorldOptions options;
  options.timeout = options.init_timeout = Timeout::none();
  options.reproducibility = Reproducibility::placement;
  detail::WorldParts parts(config_behind_mpi(), options);
  parts.is_hidden = true;
  parts.meanwhile = meanwhile;
  const auto gate = open_mpi(parts.thread_level(), Logger(LogLevel::off, -1));
  const auto exchange = std::make_shared<MpiExchange>(
      own_communicator(communicator, *gate, Timeout::none(), parts.early, parts.config), gate);
  parts.exchange = exchange;
  const Logger logger(LogLevel::off, exchange->rank());
  parts.mechanisms.push_back(
      std::make_unique<ShmMechanism>(std::make_unique<ProcessRegions>(), logger));
  if (!on_one_host) {
    parts.mechanisms.push_back(
        std::make_unique<MpiMechanism>(exchange, gate, parts.config.chunk_limit));
    parts.mechanisms.push_back(std::make_unique<HierarchicalMechanism>());
  }
  return World(detail::WorldState::make(std::move(parts)));
}

World::World(const WorldOptions& options) {
  Config config = Config::from_environment();
  switch (config.bootstrap) {
    case Bootstrap::mpi:
      state_ = make_world(MPI_COMM_WORLD, true, std::move(config), options);
      return;
    case Bootstrap::environment:
      *this = over(exchange_from_environment(detail::init_limit(options, config)), options);
      return;
  }
}

World world_from_communicator(MPI_Comm communicator, const WorldOptions& options) {
  return World(make_world(communicator, false, Config::from_environment(), options));
}

OpaqueType opaque_type(MPI_Datatype datatype) {
  MPI_Aint low = 0;
  MPI_Aint extent = 0;
  check_mpi(PMPI_Type_get_extent(datatype, &low, &extent), "MPI_Type_get_extent");
  return {type_as_pointer(datatype), "mpi", static_cast<std::size_t>(extent)};
}

BufferView buffer_of(void* data, std::size_t count, const OpaqueType& type) {
  BufferView view(data, count, DataType::opaque);
  view.opaque = &type;
  return view;
}

ConstBufferView buffer_of(const void* data, std::size_t count, const OpaqueType& type) {
  ConstBufferView view(data, count, DataType::opaque);
  view.opaque = &type;
  return view;
}

ReduceOp opaque_op(MPI_Op op) { return ReduceOp::opaque(op_as_pointer(op)); }

}  // namespace hymn
