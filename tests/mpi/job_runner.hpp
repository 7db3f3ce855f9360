// Jobs under mpirun that a test starts, watches and looks at afterwards.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/child.hpp"
#include "tests/support/temporary_folder.hpp"

namespace hymn::test {

/// A job whose ranks may end in any way. What it is told, and what it leaves, is in a folder of its
/// own, which goes with it.
class Job {
 public:
  Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job();

  const std::filesystem::path& folder() const { return folder_.path(); }
  /// A name in the folder as a word of a command line.
  std::string word(const std::string& name) const { return "'" + (folder() / name).string() + "'"; }
  /// Starts so many ranks of a command line; `settings` are NAME=value words. Killed after a
  /// minute and a half.
  void start(int ranks, const std::string& command, const std::string& settings);
  /// Until the file is there; false when that does not happen soon.
  bool wait_for(const std::string& name) const;
  void write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  bool has(const std::string& name) const { return std::filesystem::exists(folder() / name); }
  /// Waits for the end of the job. What it has written.
  std::string output();
  /// How a rank's process has ended: its status, as a shell tells it (134: SIGABRT).
  int status(int rank) const;

 private:
  TemporaryFolder folder_;
  std::unique_ptr<Child> child_;
};

}  // namespace hymn::test
