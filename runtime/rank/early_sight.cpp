#include "runtime/rank/early_sight.hpp"

#include <fmt/format.h>

#include "control/process_watch.hpp"
#include "topology/host.hpp"

namespace hymn {

std::string EarlySight::tell_of(int rank) {
  const bool is_over = has_ended(rank);
  const int pid = job_.pid_of(launched(rank));
  std::string name = fmt::format("rank {} ({}", rank, host_name());
  name += pid > 0 ? fmt::format(", pid {})", pid) : ")";
  if (is_over) return name + " is dead: " + words_of_end("");
  return job_.is_stopped(launched(rank)) ? name + " is stopped" : "";
}

}  // namespace hymn
