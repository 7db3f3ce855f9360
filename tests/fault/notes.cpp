#include "tests/fault/notes.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace hymn::test {

void Notes::write(const std::string& name, const nlohmann::json& note) const {
  const std::string unfinished = path("." + name);
  {
    std::ofstream file(unfinished);
    file << note.dump() << '\n';
    if (!file.flush()) throw std::runtime_error("cannot write " + unfinished);
  }
  std::filesystem::rename(unfinished, path(name));
}

std::optional<nlohmann::json> Notes::read(const std::string& name) const {
  std::ifstream file(path(name));
  if (!file) return std::nullopt;
  return nlohmann::json::parse(file);
}

std::optional<nlohmann::json> Notes::await(const std::string& name,
                                           std::chrono::seconds limit) const {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (true) {
    if (auto note = read(name)) return note;
    if (std::chrono::steady_clock::now() >= until) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

double clock_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string pid_note(int rank) { return fmt::format("pid_{}.json", rank); }
std::string death_note(std::size_t scene) { return fmt::format("death_{}.json", scene); }
std::string report_note(std::size_t scene, int rank) {
  return fmt::format("scene_{}_rank_{}.json", scene, rank);
}
std::string end_note(int rank) { return fmt::format("end_{}.json", rank); }

}  // namespace hymn::test
