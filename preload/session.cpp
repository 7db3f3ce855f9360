#include "preload/session.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <random>
#include <utility>
#include <vector>

#include "base/mpi_flavour.hpp"
#include "preload/calls.hpp"
#include "preload/quiet.hpp"
#include "preload/report.hpp"
#include "recorder/stamp.hpp"
#include "runtime/world/mpi_world.hpp"

namespace hymn::preload {
namespace {

bool threads_may_overlap() {
  int level = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&level);
  return level == MPI_THREAD_MULTIPLE;
}

int own_rank() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/// What all ranks tell each other at the beginning.
struct Meeting {
  std::vector<RankProcess> processes;
  std::uint64_t job;  ///< drawn by rank 0
};

std::int64_t draw_job() noexcept {
  try {
    std::random_device random;
    return std::int64_t{random()} << 20 ^ std::int64_t{random()};
  } catch (const std::exception&) {
    return std::chrono::steady_clock::now().time_since_epoch().count();
  }
}

/// What it needs is there before the first collective: no rank leaves out one.
Meeting meet() {
  int size = 1;
  PMPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<std::int64_t> heard(static_cast<std::size_t>(size) * 3);
  MPI_Comm here = MPI_COMM_NULL;
  PMPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, own_rank(), MPI_INFO_NULL, &here);
  int lowest = own_rank();
  PMPI_Bcast(&lowest, 1, MPI_INT, 0, here);
  PMPI_Comm_free(&here);
  const std::array<std::int64_t, 3> said{::getpid(), lowest, draw_job()};
  PMPI_Allgather(said.data(), said.size(), MPI_INT64_T, heard.data(), said.size(), MPI_INT64_T,
                 MPI_COMM_WORLD);
  Meeting met{.processes = {}, .job = static_cast<std::uint64_t>(heard[2]) | 1};
  for (std::size_t i = 0; i < heard.size(); i += said.size())
    met.processes.push_back({heard[i], heard[i + 1]});
  return met;
}

std::optional<Watch> make_watch(const Config& config, const std::vector<RankProcess>& processes,
                                std::uint64_t job, bool may_overlap) {
  if (config.recorder_size == 0 || processes.size() < 2) return std::nullopt;
  return std::optional<Watch>(std::in_place, config, own_rank(), processes, job, may_overlap);
}

/// Communicators that the program has not freed may end later, and look there.
std::atomic<Session*> ended_session{nullptr};

/// Whether the program uses the MPI that this library was built for: another has other handles.
bool is_our_mpi() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
  int length = 0;
  if (PMPI_Get_library_version(version.data(), &length) != MPI_SUCCESS) return false;
  const MpiFlavour flavour = flavour_of(version.data());
#if defined(OPEN_MPI)
  return flavour == MpiFlavour::open_mpi;
#elif defined(MPICH_VERSION)
  return flavour == MpiFlavour::mpich;
#else
  return flavour == MpiFlavour::other;
#endif
}

void tell_why_not(const std::exception& error) {
  std::fprintf(stderr, "libhymn-preload.so does nothing: %s\n", error.what());
}

std::optional<Config> read_config() {
  try {
    return Config::from_environment();
  } catch (const std::exception& error) {
    if (own_rank() == 0) tell_why_not(error);
    return std::nullopt;
  }
}

/// What all ranks want: those with other settings would wait for each other.
Session::Wishes agree(const std::optional<Config>& config) {
  enum { records, carries, carries_all, takes_hymns_bits, reports, count };
  std::array<int, count> wanted{};
  if (config) {
    wanted[records] = config->preload != PreloadUse::off;
    wanted[carries] = config->preload >= PreloadUse::on;
    wanted[carries_all] = config->preload == PreloadUse::always;
    wanted[takes_hymns_bits] = config->preload_bits == PreloadBits::hymn;
    wanted[reports] = config->preload_report;
  }
  std::array<int, count> all{};
  PMPI_Allreduce(wanted.data(), all.data(), count, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return {.records = all[records] != 0,
          .carries = all[carries] != 0,
          .carries_all = all[carries_all] != 0,
          .keeps_bits = all[takes_hymns_bits] == 0,
          .reports = all[reports] != 0};
}

bool all_have(bool has) {
  const int mine = has ? 1 : 0;
  int all = 0;
  PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all != 0;
}

}  // namespace

std::atomic<Session*> Session::current_{nullptr};

Session::Session(const Config& config, const Wishes& wishes, std::vector<RankProcess> processes,
                 std::uint64_t job)
    : may_overlap_(threads_may_overlap()),
      wishes_(wishes),
      began_(std::chrono::steady_clock::now()),
      began_ticks_(processor_stamp()),
      processes_(std::move(processes)),
      watch_(make_watch(config, processes_, job, may_overlap_)),
      communicators_(watch()),
      counts_(may_overlap_) {
  if (watch_) overseer_ = Overseer::make(config, *watch_);
}

Session::~Session() = default;

void Session::begin() noexcept {
  if (!is_our_mpi()) return;
  const std::optional<Config> config = read_config();
  const Wishes wishes = agree(config);
  if (!wishes.records || current_.load(std::memory_order_relaxed) != nullptr) return;
  begin_quiet();
  find_hymn();
  // It is left to the end of the process where the program does not finalize.
  std::unique_ptr<Session> session = make(*config, wishes);
  if (!all_have(session != nullptr)) {
    if (session) session->communicators_.end();
    return end_quiet();
  }
  if (wishes.carries) session->make_world();
  current_.store(session.release(), std::memory_order_release);
}

// Null: not here, and then on no rank.
std::unique_ptr<Session> Session::make(const Config& config, const Wishes& wishes) {
  try {
    Meeting met = meet();
    auto session = std::make_unique<Session>(config, wishes, std::move(met.processes), met.job);
    // All threads will look there.
    session->communicators_.find(MPI_COMM_WORLD);
    return session;
  } catch (const std::exception& error) {
    tell_why_not(error);
    return nullptr;
  }
}

void Session::make_world() {
  if (processes_.size() == 1) return;
  try {
    std::vector<int> hosts;
    for (const RankProcess& process : processes_) hosts.push_back(static_cast<int>(process.host));
    const bool on_one_host = std::ranges::all_of(hosts, [](int host) { return host == 0; });
    world_.emplace(world_behind_mpi(MPI_COMM_WORLD, on_one_host, move_mpi));
    groups_.emplace(*world_, may_overlap_, std::move(hosts));
  } catch (const std::exception&) {
    groups_.reset();
  }
  if (all_have(groups_.has_value())) return;
  groups_.reset();
  // It would wait for the others at its end.
  if (world_) static_cast<void>(new World(std::move(*world_)));
  world_.reset();
}

void Session::end() noexcept {
  Session* const session = current_.exchange(nullptr, std::memory_order_acq_rel);
  if (session == nullptr) return;
  ended_session.store(session);
  if (session->reports()) print_report(*session);
  session->overseer_.reset();
  session->communicators_.end();
  session->types_.end();
  try {
    if (session->world_) session->world_->destroy();
  } catch (const std::exception&) {
    // MPI_Finalize tells what is wrong.
  }
  if (session->watch_) session->watch_->record().say_goodbye();
  end_quiet();
}

}  // namespace hymn::preload
