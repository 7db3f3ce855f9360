#include "preload/session.hpp"

#include <cstdio>
#include <exception>
#include <vector>

#include "preload/calls.hpp"
#include "preload/report.hpp"
#include "preload/ticks.hpp"
#include "runtime/world/mpi_world.hpp"

namespace hymn::preload {
namespace {

bool threads_may_overlap() {
  int level = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&level);
  return level == MPI_THREAD_MULTIPLE;
}

/// Of each rank of MPI_COMM_WORLD the lowest rank of its host.
std::vector<int> find_hosts(int size) {
  MPI_Comm here = MPI_COMM_NULL;
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here);
  int lowest = rank;
  PMPI_Bcast(&lowest, 1, MPI_INT, 0, here);
  PMPI_Comm_free(&here);
  std::vector<int> hosts(static_cast<std::size_t>(size));
  PMPI_Allgather(&lowest, 1, MPI_INT, hosts.data(), 1, MPI_INT, MPI_COMM_WORLD);
  return hosts;
}

MPI_Comm quiet_comm = MPI_COMM_NULL;

/// A rank that waits for hymn moves on what others want of its MPI: long messages that it has
/// started, windows, collectives that do not block.
void let_mpi_move() {
  int has_one = 0;
  next_pmpi().Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, quiet_comm, &has_one, MPI_STATUS_IGNORE);
}

std::optional<Config> read_config() {
  try {
    return Config::from_environment();
  } catch (const std::exception& error) {
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
      std::fprintf(stderr, "libhymn-preload.so does nothing: %s\n", error.what());
    return std::nullopt;
  }
}

/// Ranks that have other settings would wait for each other.
bool all_want(bool wants) {
  const int mine = wants ? 1 : 0;
  int all = 0;
  PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all != 0;
}

}  // namespace

std::atomic<Session*> Session::current_{nullptr};

Session::Session(const Config& config)
    : may_overlap_(threads_may_overlap()),
      keeps_bits_(config.preload_bits == PreloadBits::mpi),
      reports_(config.preload_report),
      carries_all_(config.preload == PreloadUse::always),
      began_(std::chrono::steady_clock::now()),
      began_ticks_(ticks()),
      counts_(may_overlap_) {}

Session::~Session() = default;

void Session::begin() noexcept {
  const std::optional<Config> config = read_config();
  const bool is_on = config && config->preload != PreloadUse::off;
  const bool carries = all_want(config && config->preload >= PreloadUse::on);
  if (!is_on || current_.load(std::memory_order_relaxed) != nullptr) return;
  // It is left to the end of the process where the program does not finalize.
  auto session = std::make_unique<Session>(*config);
  if (carries) session->make_world();
  current_.store(session.release(), std::memory_order_release);
}

void Session::make_world() {
  int size = 1;
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1) return;
  PMPI_Comm_dup(MPI_COMM_SELF, &quiet_comm);
  std::vector<int> hosts = find_hosts(size);
  bool on_one_host = true;
  for (const int host : hosts) on_one_host = on_one_host && host == 0;
  try {
    world_.emplace(world_behind_mpi(MPI_COMM_WORLD, on_one_host, let_mpi_move));
  } catch (const std::exception&) {
    world_.reset();
  }
  if (all_want(world_.has_value()))
    groups_.emplace(*world_, may_overlap_, std::move(hosts));
}

void Session::end() noexcept {
  const std::unique_ptr<Session> session(current_.exchange(nullptr, std::memory_order_acq_rel));
  if (session == nullptr) return;
  if (session->reports_) print_report(*session);
  session->communicators_.end();
  session->types_.end();
  session->groups_.reset();
  try {
    if (session->world_) session->world_->destroy();
  } catch (const std::exception&) {
    // MPI_Finalize tells what is wrong.
  }
  if (quiet_comm != MPI_COMM_NULL) PMPI_Comm_free(&quiet_comm);
}

}  // namespace hymn::preload
