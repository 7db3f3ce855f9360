// Worlds over MPI.

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "base/company_watch.hpp"
#include "hymn/interop_mpi.hpp"
#include "hymn/rendezvous.hpp"
#include "p2p/mpi/mpi_types.hpp"
#include "runtime/group/works_in_flight.hpp"
#include "runtime/mechanisms/hierarchical_mechanism.hpp"
#include "runtime/mechanisms/mpi_exchange.hpp"
#include "runtime/mechanisms/mpi_mechanism.hpp"
#include "runtime/mechanisms/mpi_session.hpp"
#include "runtime/mechanisms/peer_mechanism.hpp"
#include "runtime/mechanisms/process_regions.hpp"
#include "runtime/rank/some_names.hpp"
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

/// Of the ranks of a communicator.
EarlySight sight_of(MPI_Comm communicator) {
  MPI_Group members = MPI_GROUP_NULL;
  MPI_Group all = MPI_GROUP_NULL;
  check_mpi(PMPI_Comm_group(communicator, &members), "MPI_Comm_group");
  check_mpi(PMPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group");
  int count = 0;
  int size = 0;
  check_mpi(PMPI_Group_size(members, &count), "MPI_Group_size");
  check_mpi(PMPI_Group_size(all, &size), "MPI_Group_size");
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> launched(ranks.size());
  check_mpi(PMPI_Group_translate_ranks(members, count, ranks.data(), all, launched.data()),
            "MPI_Group_translate_ranks");
  PMPI_Group_free(&members);
  PMPI_Group_free(&all);
  return EarlySight(std::move(launched), size);
}

/// MPI does not tell who has not come: that is known only of those who can be seen not to move.
std::shared_ptr<LongWait> long_wait_of(int rank, const Company& company, const Config& config) {
  if (config.wait_report.is_none()) return nullptr;
  return std::make_shared<LongWait>(
      config.wait_report, steady_clock(),
      [rank, &company, logger = Logger(config.log_level, rank)](std::span<const int>,
                                                                Duration waited, bool) {
        std::vector<std::string> known;
        for (const int other : company.ranks)
          if (std::string words = company.tell_of(other); !words.empty())
            known.push_back(std::move(words));
        const std::string more = known.empty() ? "" : "; " + some_of(std::move(known));
        const std::string text = fmt::format(
            "making the world has waited {:.1f} s on rank {}: not all ranks have arrived{}",
            std::chrono::duration<double>(waited).count(), rank, more);
        logger.warning(text, !LongWait::is_speaker(static_cast<std::size_t>(rank)));
      });
}

/// All ranks must come. Whoever gives up has left MPI with an operation that never ends. Others may
/// wait for what this rank has in flight in another world before they come.
void wait_for_all(MPI_Request& request, MpiGate& gate, int rank, int size, EarlySight& early,
                  Timeout limit, const Config& config) {
  Company company{.ranks = std::vector<int>(static_cast<std::size_t>(size)),
                  .is_hopeless = [&early](int other) { return early.has_ended(other); },
                  .tell_of = [&early](int other) { return early.tell_of(other); }};
  std::iota(company.ranks.begin(), company.ranks.end(), 0);
  Patience patience{.deadline = Deadline::after(limit), .purpose = "making the world"};
  patience.meanwhile = [] { WorksInFlight::step_all_here(); };
  patience.watch = CompanyWatch(company, patience.purpose, {});
  patience.long_wait = long_wait_of(rank, company, config);
  try {
    PatientWait wait(patience);
    const auto has_come = [&] {
      const MpiGate::Entry entry(gate);
      int done = 0;
      check_mpi(PMPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      return done != 0;
    };
    if (wait.until(has_come)) return;
    throw with_known(
        TimeoutError(fmt::format("making the world: not all ranks have arrived within {:.3f} s",
                                 std::chrono::duration<double>(wait.waited()).count()),
                     wait.waited(),
                     {.remedy = "make a World on every rank of the communicator, or allow more "
                                "time (HYMN_INIT_TIMEOUT)"}),
        company);
  } catch (...) {
    never_finalize();
    throw;
  }
}

MPI_Comm duplicate(MPI_Comm communicator, MpiGate& gate, Timeout limit,
                   std::shared_ptr<EarlySight>& early, const Config& config) {
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  int rank = 0;
  int size = 0;
  {
    const MpiGate::Entry entry(gate);
    int is_inter = 0;
    check_mpi(PMPI_Comm_test_inter(communicator, &is_inter), "MPI_Comm_test_inter");
    if (is_inter != 0)
      throw UsageError("a world cannot be made from an inter-communicator",
                       {.remedy = "merge it with MPI_Intercomm_merge first"});
    check_mpi(PMPI_Comm_idup(communicator, &own, &request), "MPI_Comm_idup");
    early = std::make_shared<EarlySight>(sight_of(communicator));
    check_mpi(PMPI_Comm_rank(communicator, &rank), "MPI_Comm_rank");
    check_mpi(PMPI_Comm_size(communicator, &size), "MPI_Comm_size");
  }
  wait_for_all(request, gate, rank, size, *early, limit, config);
  const MpiGate::Entry entry(gate);
  check_mpi(PMPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return own;
}

void require_level(const detail::WorldParts& parts, ThreadLevel granted) {
  if (parts.own_thread && granted != ThreadLevel::multiple)
    throw UsageError(
        "a progress thread is asked for, but MPI was initialised without MPI_THREAD_MULTIPLE",
        {.remedy = "initialise MPI with MPI_THREAD_MULTIPLE, or do without"});
  if (parts.options.thread_level && granted < *parts.options.thread_level)
    throw UsageError(
        fmt::format("thread level {} is asked for (WorldOptions.thread_level), but MPI was "
                    "initialised with {}",
                    to_string(*parts.options.thread_level), to_string(granted)),
        {.remedy = "call MPI_Init_thread with the level that is needed, or make the first World "
                   "of the process with it"});
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
      duplicate(communicator, *gate, limit, parts.early, parts.config), gate);
  if (everybody) check_launcher(exchange->size());
  parts.exchange = exchange;
  parts.mechanisms.push_back(std::make_unique<ShmMechanism>(
      std::make_unique<ProcessRegions>(), Logger(parts.config.log_level, exchange->rank())));
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

}  // namespace

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
  return {as_pointer(datatype), "mpi", static_cast<std::size_t>(extent)};
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

ReduceOp opaque_op(MPI_Op op) { return ReduceOp::opaque(as_pointer(op)); }

}  // namespace hymn
