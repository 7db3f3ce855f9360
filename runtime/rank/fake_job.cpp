#include "runtime/rank/fake_job.hpp"

#include <fmt/format.h>

namespace hymn {

// Without a process: nobody can look for it.
Arrival FakeJob::arrival_of(int rank) const {
  const std::lock_guard lock(mutex_);
  Arrival arrival;
  arrival.host_key = arrival.host_name = places_.name_of(places_.host_of(rank));
  arrival.process = static_cast<std::uint64_t>(rank);
  return arrival;
}

std::string FakeJob::name_group(const std::vector<int>& ranks) const {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a, of ranks
  for (const int rank : ranks) hash = (hash ^ static_cast<std::uint64_t>(rank)) * 1099511628211u;
  const std::lock_guard lock(mutex_);
  return fmt::format("{:x}.{}", hash, ++groups_[ranks]);
}

}  // namespace hymn
