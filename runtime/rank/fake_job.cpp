#include "runtime/rank/fake_job.hpp"

#include <fmt/format.h>

#include <string_view>

#include "base/fnv.hpp"

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
  const std::string_view bytes(reinterpret_cast<const char*>(ranks.data()),
                               ranks.size() * sizeof(int));
  const std::lock_guard lock(mutex_);
  return fmt::format("{:x}.{}", fnv_1a(bytes), ++groups_[ranks]);
}

}  // namespace hymn
