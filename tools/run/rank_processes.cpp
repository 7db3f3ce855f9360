#include "tools/run/rank_processes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <string_view>

#include "base/signal_text.hpp"
#include "hymn/error.hpp"
#include "tools/bad_arguments.hpp"

namespace hymn {
namespace {

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw ResourceError(fmt::format("no pipe can be made: {}", std::strerror(errno)),
                        {.remedy = "raise the limit on open files (ulimit -n)"});
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// Strings as execvpe() takes them; those of `texts` must stay.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// That of this process, where `own` says nothing else.
std::vector<std::string> environment_with(std::vector<std::string> own) {
  const auto name_of = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::ranges::none_of(own,
                             [&](const auto& mine) { return name_of(mine) == name_of(*entry); }))
      own.emplace_back(*entry);
  return own;
}

/// What a child needs, made before fork(): it may not allocate.
struct Child {
  char* const* argv;
  char* const* environment;
  pid_t group;  ///< 0: its own
  pid_t parent;
  int in;       ///< -1: nothing is to be read
  int out;      ///< -1: as the parent's
  int error;    ///< -1: as the parent's
  int problem;  ///< where the number of an error goes
};

void put_at(int descriptor, int place) {
  if (descriptor >= 0) ::dup2(descriptor, place);
}

[[noreturn]] void become(const Child& child) {
  ::setpgid(0, child.group);
  // Whatever becomes of the launcher, nothing is left of what it has started.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != child.parent) ::_exit(1);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  put_at(child.in, STDIN_FILENO);
  put_at(child.out, STDOUT_FILENO);
  put_at(child.error, STDERR_FILENO);
  ::execvpe(child.argv[0], child.argv, child.environment);
  const int why = errno;
  static_cast<void>(!::write(child.problem, &why, sizeof why));
  ::_exit(127);
}

/// 0: it has become the program.
int problem_of(Pipe& pipe) {
  pipe.write = Descriptor();
  int why = 0;
  return ::read(pipe.read.number(), &why, sizeof why) == sizeof why ? why : 0;
}

RankEnding ending_of(int rank, pid_t pid, int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return {rank, pid, 128 + signal, signal};
  }
  return {rank, pid, WEXITSTATUS(status), 0};
}

}  // namespace

std::string words_of(const RankEnding& ending) {
  return ending.signal != 0 ? "was " + killed_by(ending.signal)
                            : fmt::format("has exited with status {}", ending.exit_code);
}

RankProcesses::RankProcesses(const RankProgram& program, int ranks) {
  try {
    for (int rank = 0; rank < ranks; ++rank) start(program, rank);
  } catch (...) {
    end();
    throw;
  }
}

RankProcesses::~RankProcesses() { end(); }

void RankProcesses::end() {
  send(SIGKILL);
  while (living_ > 0)
    if (!take_ended()) ::usleep(1000);
}

// Rank 0 reads what the launcher was given to read, unless that is a terminal, from which those in
// front alone may read.
void RankProcesses::start(const RankProgram& program, int rank) {
  std::vector<std::string> command = program.command;
  std::vector<std::string> environment = environment_with(program.environment(rank));
  const std::vector<char*> argv = pointers_to(command);
  const std::vector<char*> variables = pointers_to(environment);
  Pipe problem = make_pipe();
  Pipe out = program.pipes ? make_pipe() : Pipe();
  Pipe error = program.pipes ? make_pipe() : Pipe();
  const bool reads = rank == 0 && ::isatty(STDIN_FILENO) == 0;
  const Descriptor nothing(reads ? -1 : ::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Child child{argv.data(),          variables.data(),      group_,
                    ::getpid(),           nothing.number(),      out.write.number(),
                    error.write.number(), problem.write.number()};
  const pid_t pid = ::fork();
  if (pid < 0)
    throw ResourceError(fmt::format("rank {} cannot be started: {}", rank, std::strerror(errno)),
                        {.remedy = "ask for fewer ranks, or raise the limit (ulimit -u)"});
  if (pid == 0) become(child);
  if (group_ == 0) group_ = pid;
  ::setpgid(pid, group_);  // as the child does, whoever comes first
  pids_.push_back(pid);
  ++living_;
  if (const int why = problem_of(problem); why != 0)
    throw BadArguments(
        fmt::format("'{}' cannot be run: {}", program.command.front(), std::strerror(why)));
  if (program.pipes) outputs_.push_back({rank, std::move(out.read), std::move(error.read)});
}

std::optional<RankEnding> RankProcesses::take_ended() {
  for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
    int status = 0;
    if (pids_[rank] == 0 || ::waitpid(pids_[rank], &status, WNOHANG) != pids_[rank]) continue;
    --living_;
    return ending_of(static_cast<int>(rank), std::exchange(pids_[rank], 0), status);
  }
  return std::nullopt;
}

void RankProcesses::send(int signal) const {
  if (group_ != 0) ::kill(-group_, signal);
}

}  // namespace hymn
