#include "runtime/rank/fake_job.hpp"

namespace hymn {

// Without a process: nobody can look for it.
Arrival FakeJob::arrival_of(int rank) const {
  const std::lock_guard lock(mutex_);
  Arrival arrival;
  arrival.host_key = arrival.host_name = places_.name_of(places_.host_of(rank));
  arrival.process = static_cast<std::uint64_t>(rank);
  return arrival;
}

}  // namespace hymn
