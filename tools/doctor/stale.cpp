// Looks for files that jobs have left behind. It errs on the side of silence: a file that a process
// may still use is not told.
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tools/doctor/probes.hpp"

namespace hymn {
namespace {

namespace fs = std::filesystem;
using FileId = std::pair<dev_t, ino_t>;

constexpr std::time_t day = 86400;
constexpr std::size_t most_examples = 5;

bool looks_left(const std::string& name) {
  for (const char* beginning :
       {"vader_segment.", "sm_segment.", "ompi.", "openmpi-sessions-", "sem.", "psm2_shm.",
        "psm3_shm.", "nccl-", "mpich_shar_tmp", "cma_shm.", "ucx_shm_"})
    if (name.starts_with(beginning)) return true;
  return false;
}

struct Candidate {
  fs::path path;
  struct stat status{};
};

bool look_at(const fs::path& path, Candidate& candidate) {
  candidate.path = path;
  return lstat(path.c_str(), &candidate.status) == 0;
}

template <class Visit>
void for_each_entry(const fs::path& folder, Visit&& visit) {
  std::error_code error;
  fs::directory_iterator entries(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error))
    visit(entries->path());
}

// What every process that we may look at has open or mapped.
std::set<FileId> held_files() {
  std::set<FileId> held;
  for_each_entry("/proc", [&](const fs::path& process) {
    if (std::isdigit(static_cast<unsigned char>(process.filename().string()[0])) == 0) return;
    for_each_entry(process / "fd", [&](const fs::path& file) {
      struct stat status{};
      if (stat(file.c_str(), &status) == 0) held.insert({status.st_dev, status.st_ino});
    });
    std::ifstream maps(process / "maps");
    for (std::string line; std::getline(maps, line);) {
      // address permissions offset major:minor inode path
      std::istringstream words(line);
      std::string address, permissions, offset, device;
      ino_t inode = 0;
      words >> address >> permissions >> offset >> device >> inode;
      unsigned major_number = 0;
      unsigned minor_number = 0;
      if (inode == 0 || std::sscanf(device.c_str(), "%x:%x", &major_number, &minor_number) != 2)
        continue;
      held.insert({makedev(major_number, minor_number), inode});
    }
  });
  return held;
}

bool is_alive(int process) { return kill(process, 0) == 0 || errno == EPERM; }

// Open MPI's folder of a job: pid.<mpirun>, or jf.<number> where no mpirun is known.
bool has_ended(const Candidate& job, std::time_t now) {
  const std::string name = job.path.filename().string();
  int process = 0;
  if (name.starts_with("pid.") &&
      std::from_chars(name.data() + 4, name.data() + name.size(), process).ec == std::errc())
    return !is_alive(process);
  return now - job.status.st_mtime > day;
}

class Search {
 public:
  explicit Search(const StaleSearch& search) : search_(search), now_(std::time(nullptr)) {
    collect(search.shm, true);
    if (search.temporary != search.shm) collect(search.temporary, false);
  }

  StaleFiles result() {
    StaleFiles stale;
    if (candidates_.empty()) return stale;
    const auto held = held_files();
    for (const auto& [candidate, in_shm] : candidates_) {
      bool in_use = false;
      std::uint64_t bytes = 0;
      measure(candidate, held, bytes, in_use);
      if (in_use) continue;
      ++stale.count;
      stale.bytes += bytes;
      if (in_shm) stale.shm_bytes += bytes;
      if (stale.examples.size() < most_examples) stale.examples.push_back(candidate.path.string());
    }
    return stale;
  }

 private:
  bool is_ours(const Candidate& candidate) const {
    return geteuid() == 0 || candidate.status.st_uid == geteuid();
  }

  void collect(const fs::path& folder, bool in_shm) {
    for_each_entry(folder, [&](const fs::path& path) {
      Candidate candidate;
      if (!looks_left(path.filename().string()) || !look_at(path, candidate) || !is_ours(candidate))
        return;
      if (S_ISDIR(candidate.status.st_mode)) {
        collect_jobs(path, in_shm);
      } else if (S_ISREG(candidate.status.st_mode) && is_old(candidate)) {
        candidates_.push_back({candidate, in_shm});
      }
    });
  }

  void collect_jobs(const fs::path& session, bool in_shm) {
    for_each_entry(session, [&](const fs::path& path) {
      Candidate job;
      if (look_at(path, job) && S_ISDIR(job.status.st_mode) && is_old(job) && has_ended(job, now_))
        candidates_.push_back({job, in_shm});
    });
  }

  bool is_old(const Candidate& candidate) const {
    return now_ - candidate.status.st_mtime >= search_.youngest.count();
  }

  void measure(const Candidate& candidate, const std::set<FileId>& held, std::uint64_t& bytes,
               bool& in_use) const {
    const struct stat& status = candidate.status;
    bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
    if (held.contains({status.st_dev, status.st_ino})) in_use = true;
    if (!S_ISDIR(status.st_mode)) return;
    for_each_entry(candidate.path, [&](const fs::path& path) {
      Candidate inner;
      if (look_at(path, inner)) measure(inner, held, bytes, in_use);
    });
  }

  StaleSearch search_;
  std::time_t now_;
  std::vector<std::pair<Candidate, bool>> candidates_;
};

}  // namespace

StaleFiles find_stale(const StaleSearch& search) { return Search(search).result(); }

}  // namespace hymn
