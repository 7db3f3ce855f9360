// What the ranks of a job and the test that has started it tell each other: small files in one
// folder, since a launcher may lose what a job writes to its standard output.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace hymn::test {

class Notes {
 public:
  explicit Notes(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  /// Whoever sees the note sees all of it.
  void write(const std::string& name, const nlohmann::json& note) const;
  /// Null while there is no such note.
  std::optional<nlohmann::json> read(const std::string& name) const;
  bool has(const std::string& name) const { return read(name).has_value(); }
  /// Waits for it for at most so long.
  std::optional<nlohmann::json> await(const std::string& name, std::chrono::seconds limit) const;

 private:
  std::string folder_;
};

/// All processes of a machine read the same clock.
double clock_ms();

/// The names of notes.
std::string pid_note(int rank);
std::string death_note(std::size_t scene);
std::string report_note(std::size_t scene, int rank);
std::string end_note(int rank);

}  // namespace hymn::test
