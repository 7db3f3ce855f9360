#include "preload/watch.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "preload/guard.hpp"

namespace hymn::preload {
namespace {

/// Of the ranks and the place among communicators of these: the same on all of them. That of
/// MPI_COMM_WORLD is 0.
std::uint64_t uid_of(const std::vector<int>& ranks, std::uint64_t place) {
  std::uint64_t hash = 0xcbf29ce484222325u ^ place;
  for (const int rank : ranks)
    hash = (hash ^ static_cast<std::uint64_t>(static_cast<std::uint32_t>(rank))) * 0x100000001b3u;
  hash ^= hash >> 29;
  return (hash & 0xffffffffu) + 1;
}

std::string name_of(MPI_Comm comm, std::uint64_t place) {
  std::array<char, MPI_MAX_OBJECT_NAME + 1> name{};
  int length = 0;
  PMPI_Comm_get_name(comm, name.data(), &length);
  const std::string given = name.data();
  if (!given.empty() && !given.starts_with("MPI COMMUNICATOR")) return given;
  return fmt::format("communicator {}", place);
}

/// Whether a process of this host has ended, or is about to.
bool has_ended(std::int64_t pid) {
  if (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return true;
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end != std::string::npos && name_end + 2 < line.size() && line[name_end + 2] == 'Z';
}

}  // namespace

Watch::Watch(const Config& config, int rank, std::vector<RankProcess> processes, std::uint64_t job,
             bool may_overlap)
    : rank_(rank),
      processes_(std::move(processes)),
      record_({.rank = rank,
               .world_size = static_cast<int>(processes_.size()),
               .entries = config.recorder_size,
               .frames = config.recorder_frames,
               .timing = config.recorder_timing,
               .by_many = may_overlap,
               .job = job}),
      requests_(may_overlap) {}

void WatchedGroup::end_one() {
  const std::uint64_t started = line->collectives.load(std::memory_order_acquire);
  if (in_flight.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::uint64_t open = blocking.load(std::memory_order_acquire);
  line->completed.store(open == 0 ? started : open - 1, std::memory_order_release);
}

std::shared_ptr<WatchedGroup> Watch::add(MPI_Comm comm, const std::vector<int>& world_ranks) {
  const auto end = [this](WatchedGroup* group) {
    if (group->line != nullptr) record_.end_group(group->uid);
    delete group;
  };
  const std::shared_ptr<WatchedGroup> group(new WatchedGroup, end);
  std::uint64_t place = 0;
  {
    const std::lock_guard lock(mutex_);
    place = ++made_[world_ranks];
  }
  group->uid = comm == MPI_COMM_WORLD ? 0 : uid_of(world_ranks, place);
  group->line = &record_.add_group(group->uid, name_of(comm, place), world_ranks);
  return group;
}

void Watch::rename(MPI_Comm comm, const WatchedGroup& group) {
  std::array<char, MPI_MAX_OBJECT_NAME + 1> name{};
  int length = 0;
  PMPI_Comm_get_name(comm, name.data(), &length);
  if (name[0] != '\0') record_.rename_group(group.uid, name.data());
}

std::vector<DumpPeer> Watch::peers() const {
  std::vector<DumpPeer> peers;
  const std::int64_t host = processes_[static_cast<std::size_t>(rank_)].host;
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    const RankProcess& process = processes_[rank];
    if (process.host != host || !has_ended(process.pid)) continue;
    peers.push_back({static_cast<int>(rank), "dead", "", static_cast<int>(process.pid),
                     "its process has ended"});
  }
  return peers;
}

}  // namespace hymn::preload
