#include "topology/host.hpp"

#include <unistd.h>

#include <array>
#include <fstream>

namespace hymn {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

std::string host_key() {
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  return host_name() + "/" + boot_id;
}

}  // namespace hymn
