#include "topology/host.hpp"

#include <unistd.h>

#include <array>

#include "base/kernel_file.hpp"

namespace hymn {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string host_key() {
  return host_name() + "/" + first_line_of("/proc/sys/kernel/random/boot_id");
}

}  // namespace hymn
