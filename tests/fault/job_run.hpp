// Jobs whose ranks fail, started from a test under a real launcher.
#pragma once

#include <string>
#include <vector>

#include "tests/fault/notes.hpp"

namespace hymn::test {

struct JobPlan {
  std::string program;     ///< its file
  std::vector<int> hosts;  ///< ranks on each; one host: this machine
  bool slurm = false;      ///< within an allocation of a Slurm
  bool mpi = true;         ///< else, on several hosts, ranks of HYMN_BOOTSTRAP=environment
  bool recovery = true;    ///< the launcher leaves the others alone when one rank fails
  int limit_s = 60;        ///< then the job is ended, and counts as hung
  std::vector<std::string> words{};

  int ranks() const;
  int host_of(int rank) const;
};

struct JobRun {
  std::string output;
  std::string skipped;  ///< why it could not be run here; empty: it was
  bool hung = false;
  std::vector<std::string> left;  ///< what it has left behind
};

/// A folder for the notes of a job, which is removed with its contents.
class NotesFolder {
 public:
  NotesFolder();
  NotesFolder(const NotesFolder&) = delete;
  NotesFolder& operator=(const NotesFolder&) = delete;
  ~NotesFolder();
  const Notes& notes() const { return notes_; }

 private:
  Notes notes_;
};

/// The folder is the program's first word.
JobRun run_job(const JobPlan& plan, const NotesFolder& folder);

/// The same on hosts that are there already: `hosts` is their folder.
JobRun run_job_on(const std::string& hosts, const JobPlan& plan, const NotesFolder& folder);

/// What a shell says, to run a script of the tests.
std::string hosts_script();

/// Milliseconds: "17 of them, median 24.1 ms, longest 31.0 ms".
std::string describe_times(std::vector<double> times);

}  // namespace hymn::test
