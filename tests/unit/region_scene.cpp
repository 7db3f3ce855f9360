#include "tests/unit/region_scene.hpp"

#include <charconv>
#include <filesystem>
#include <fstream>

namespace hymn::test {
namespace {

namespace fs = std::filesystem;

bool maps_name(const fs::path& process, const std::string& name) {
  std::ifstream maps(process / "maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(name) != std::string::npos) return true;
  return false;
}

bool opens_name(const fs::path& process, const std::string& name) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(process / "fd", error)) {
    const fs::path target = fs::read_symlink(entry.path(), error);
    if (!error && target.string().find(name) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

std::vector<pid_t> holders_of(const std::string& name) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string number = entry.path().filename().string();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), pid);
    if (error != std::errc{} || end != number.data() + number.size()) continue;
    if (maps_name(entry.path(), name) || opens_name(entry.path(), name)) found.push_back(pid);
  }
  return found;
}

}  // namespace hymn::test
