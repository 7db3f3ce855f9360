#include "base/kernel_namespace.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

namespace hymn {

std::uint64_t own_namespace(const char* kind) {
  struct stat status{};
  const std::string path = fmt::format("/proc/self/ns/{}", kind);
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace hymn
