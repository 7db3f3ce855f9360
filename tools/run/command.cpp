#include "tools/run/command.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/signalfd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "control/rendezvous.hpp"
#include "hymn/error.hpp"
#include "hymn/store.hpp"
#include "tools/bad_arguments.hpp"
#include "tools/preloaded.hpp"
#include "tools/run/labels.hpp"
#include "tools/run/rank_processes.hpp"
#include "tools/say.hpp"

namespace hymn {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int most_ranks = 4096;
constexpr int exit_lost_output = 1;
constexpr Seconds time_to_end{2};  // between SIGTERM and SIGKILL

// Handed on to the ranks. After the first three they are to end.
constexpr std::array handed_on = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                  SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};
constexpr bool ends_all(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
}

int cores() {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

bool is_ignored(int signal) {
  struct sigaction action{};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// From here on the signals come through a file, on this thread and those that it starts. What
/// whoever has started it lets it ignore, as nohup does, it goes on to ignore, and so do the ranks.
Descriptor open_signals() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  ::sigaddset(&wanted, SIGCHLD);
  for (const int signal : handed_on)
    if (!is_ignored(signal)) ::sigaddset(&wanted, signal);
  ::pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  Descriptor signals(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals)
    throw ResourceError(fmt::format("no file for signals: {}", std::strerror(errno)),
                        {.remedy = "raise the limit on open files (ulimit -n)"});
  return signals;
}

/// The ranks of one job, from their start to the end of the last.
class Job {
 public:
  Job(Descriptor signals, TcpStore& store, const RankProgram& program,
      const RunArguments& arguments, int ranks)
      : signals_(std::move(signals)),
        store_(store),
        processes_(program, ranks),
        labels_(processes_.outputs()),
        grace_(arguments.grace),
        keeps_going_(arguments.keep_going) {}

  /// The exit code.
  int wait() {
    while (processes_.living() > 0) {
      wait_for_news();
      labels_.hand_on();
      take_signals();
      take_endings();
      end_overdue();
    }
    drain();
    if (exit_code_ != 0 || !labels_.has_lost_some()) return exit_code_;
    say("hymn run: what the ranks print cannot be written: the output is full\n");
    return exit_lost_output;
  }

 private:
  void wait_for_news() {
    std::vector<pollfd> polled = {{signals_.number(), POLLIN, 0}};
    labels_.add_to(polled);
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline_ ? *deadline_ - Clock::now() : Clock::duration(0));
    const int limit = deadline_ ? static_cast<int>(std::max<long>(left.count() + 1, 0)) : -1;
    ::poll(polled.data(), polled.size(), limit);
  }

  void take_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.number(), &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) continue;
      processes_.send(signal);
      if (ends_all(signal)) end_within(grace_);
      if (signal == SIGTSTP) ::raise(SIGSTOP);
    }
  }

  void take_endings() {
    while (const auto ending = processes_.take_ended()) {
      store_.set(control::key_of_end(ending->rank), words_of(*ending));
      if (!ending->is_failure()) continue;
      const bool is_first = exit_code_ == 0;
      if (is_first) exit_code_ = ending->exit_code;
      say(fmt::format("hymn run: {}rank {} (process {}) {}\n", is_first ? "" : "then ",
                      ending->rank, ending->pid, words_of(*ending)));
      if (processes_.living() > 0 && !keeps_going_) end_within(grace_);
    }
  }

  /// The others may still say what they know of it.
  void end_within(Seconds time) {
    if (!deadline_) deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
  }

  void end_overdue() {
    if (!deadline_ || Clock::now() < *deadline_ || processes_.living() == 0) return;
    if (next_ == SIGTERM)
      say(fmt::format("hymn run: {} rank(s) are left after {} s: they are ended\n",
                      processes_.living(), grace_.count()));
    processes_.send(next_);
    next_ = SIGKILL;
    deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(time_to_end);
  }

  /// What was printed last; what ranks have left running does not keep the job.
  void drain() {
    processes_.send(SIGTERM);
    const auto end = Clock::now() + std::chrono::milliseconds(200);
    for (std::vector<pollfd> polled; Clock::now() < end; polled.clear()) {
      labels_.add_to(polled);
      if (polled.empty() || ::poll(polled.data(), polled.size(), 20) <= 0) return;
      labels_.hand_on();
    }
  }

  Descriptor signals_;
  TcpStore& store_;
  RankProcesses processes_;
  Labels labels_;
  Seconds grace_;
  bool keeps_going_;
  std::optional<Clock::time_point> deadline_{};  ///< of the ranks that are left
  int next_ = SIGTERM;                           ///< what is sent then
  int exit_code_ = 0;
};

/// A number is taken for an octal one, else.
std::string without_leading_zeros(std::string number) {
  number.erase(0, std::min(number.find_first_not_of('0'), number.size() - 1));
  return number;
}

}  // namespace

void declare_run_arguments(CLI::App& app, RunArguments& arguments) {
  app.add_option("-n,--ranks", arguments.ranks, "how many; default: one for each core")
      ->transform(without_leading_zeros);
  app.add_flag("-l,--label", arguments.label, "write the rank before each line that one prints");
  app.add_option("--grace", arguments.grace,
                 "how many seconds the others have when a rank has failed; default: 5");
  app.add_flag("--keep-going", arguments.keep_going,
               "when a rank has failed the others go on, for as long as they like");
  app.prefix_command();
  app.footer(
      "Then the program, and what it is to be given: hymn run -n 4 ./program --steps 10\n"
      "Without -n, and with mpirun, mpiexec or srun as program: MPI programs that know nothing "
      "of hymn, under libhymn-preload.so: hymn run mpirun -n 4 ./program");
}

std::vector<char*> without_separator(const CLI::App& app, int argc, char** argv) {
  std::vector<char*> all(argv, argv + argc);
  if (argc < 2 || all[1] != app.get_name()) return all;
  for (std::size_t i = 2; i < all.size(); ++i) {
    const std::string word = all[i];
    if (word == "--") {
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    if (!word.starts_with('-')) break;
    const CLI::Option* const option = app.get_option_no_throw(word);
    if (option != nullptr && option->get_items_expected_max() != 0) ++i;  // its value
  }
  return all;
}

int run_command(const RunArguments& arguments, const std::vector<std::string>& program) {
  if (program.empty()) throw BadArguments("hymn run: which program? hymn run -n 4 ./program");
  if (program.front().starts_with('-'))
    throw BadArguments(fmt::format("hymn run: there is no option {}", program.front()));
  if (arguments.ranks == 0 && is_mpi_launcher(program.front())) return run_preloaded(program);
  const int ranks = arguments.ranks == 0 ? cores() : arguments.ranks;
  if (ranks < 1 || ranks > most_ranks)
    throw BadArguments(fmt::format("hymn run: {} ranks; give 1 to {}", ranks, most_ranks));
  if (!(arguments.grace >= 0 && arguments.grace <= 3600))
    throw BadArguments("hymn run: --grace takes 0 to 3600 seconds");
  Descriptor signals = open_signals();
  const std::string token = TcpStore::make_token();
  TcpStore store({.is_server = true, .token = token});
  const auto environment = [&](int rank) -> std::vector<std::string> {
    return {"HYMN_BOOTSTRAP=environment",
            fmt::format("HYMN_STORE=127.0.0.1:{}", store.port()),
            "HYMN_TOKEN=" + token,
            fmt::format("RANK={}", rank),
            fmt::format("WORLD_SIZE={}", ranks),
            fmt::format("LOCAL_RANK={}", rank),
            fmt::format("LOCAL_WORLD_SIZE={}", ranks)};
  };
  return Job(std::move(signals), store, {program, environment, arguments.label}, arguments, ranks)
      .wait();
}

}  // namespace hymn
