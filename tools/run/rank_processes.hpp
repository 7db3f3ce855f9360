// The processes that `hymn run` starts: one group of processes, which ends with it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"

namespace hymn {

/// How one has ended.
struct RankEnding {
  int rank = 0;
  pid_t pid = 0;
  int exit_code = 0;  ///< as a shell tells it: 128 and the number of the signal
  int signal = 0;     ///< that has ended it; 0: none has

  bool is_failure() const { return exit_code != 0; }
};

/// "was killed by signal 9 (SIGKILL)"
std::string words_of(const RankEnding& ending);

/// What each is started with.
struct RankProgram {
  std::vector<std::string> command;
  std::function<std::vector<std::string>(int rank)> environment;  ///< "NAME=value"; beside its own
  bool pipes = false;  ///< what it prints comes through pipes
};

class RankProcesses {
 public:
  /// Throws ResourceError where not all can be started, and BadArguments where there is no such
  /// program; none is left then.
  RankProcesses(const RankProgram& program, int ranks);
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;
  /// Ends what is left of the group.
  ~RankProcesses();

  /// One that has ended since the last call. Never waits.
  std::optional<RankEnding> take_ended();
  int living() const { return living_; }
  /// To all, and to what they have started.
  void send(int signal) const;

  /// What a rank prints, its standard output and error; empty where there are no pipes.
  struct Output {
    int rank = 0;
    Descriptor out{};
    Descriptor error{};
  };
  std::vector<Output>& outputs() { return outputs_; }

 private:
  void start(const RankProgram& program, int rank);
  void end();

  std::vector<pid_t> pids_;  ///< by rank; 0: it has ended
  std::vector<Output> outputs_;
  pid_t group_ = 0;
  int living_ = 0;
};

}  // namespace hymn
