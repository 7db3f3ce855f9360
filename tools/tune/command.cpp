// `hymn tune`: makes the ranks, lets them measure, and keeps what they found.
#include "tools/tune/command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <ctime>
#include <functional>

#include "base/config.hpp"
#include "hymn/threads.hpp"
#include "runtime/world/tuning_library.hpp"
#include "runtime/world/world_facts.hpp"
#include "tools/bad_arguments.hpp"
#include "tools/launched.hpp"
#include "tools/names.hpp"
#include "tools/say.hpp"
#include "tools/tune/runner.hpp"

namespace hymn {

namespace {

std::string today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm date{};
  gmtime_r(&now, &date);
  return fmt::format("{:04}-{:02}-{:02}", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday);
}

/// On rank 0's stderr: a line that changes where it is a terminal, else a line for each collective.
class Progress {
 public:
  explicit Progress(bool wanted) : wanted_(wanted), terminal_(isatty(STDERR_FILENO) == 1) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() {
    if (wanted_ && terminal_) say("\r\033[K");
  }

  void begin(std::string_view collective, std::size_t index, std::size_t all) {
    title_ = fmt::format("measuring {} ({} of {})", collective, index, all);
    if (wanted_ && !terminal_) say(fmt::format("{}\n", title_));
  }
  void at(std::size_t bytes) const {
    if (wanted_ && terminal_) say(fmt::format("\r\033[K{}, {}", title_, show_bytes(bytes)));
  }

 private:
  bool wanted_;
  bool terminal_;
  std::string title_;
};

bool same_choice(const TuneChange& a, const TuneChange& b) {
  return a.before == b.before && a.after == b.after;
}

/// A line for each run of sizes with the same choice.
std::string changes_text(std::string_view collective, const std::vector<TuneChange>& changes) {
  std::string text = fmt::format("{}\n", collective);
  for (auto begin = changes.begin(); begin != changes.end();) {
    const auto end = std::find_if_not(begin, changes.end(),
                                      [&](const TuneChange& c) { return same_choice(*begin, c); });
    const TuneChange& last = *std::prev(end);
    const std::string largest = last.bytes == 0 ? "no data" : show_bytes(last.bytes);
    const std::string sizes =
        begin->bytes == last.bytes ? largest : show_bytes(begin->bytes) + " to " + largest;
    text += fmt::format("  {:<20}  {}", sizes, last.after);
    text += last.before == last.after
                ? fmt::format(", as before: {} at {}\n", show_time(last.after_us), largest)
                : fmt::format(", before: {}; {} in place of {} at {}\n", last.before,
                              show_time(last.after_us), show_time(last.before_us), largest);
    begin = end;
  }
  return text;
}

TuningChoice table_at(const std::string& path, const std::string& machine) {
  try {
    return choose_tuning(read_tuning_text(path), path, {machine}, tuning_library());
  } catch (const ConfigError& error) {
    return {nullptr, error.problem()};
  }
}

/// What was measured earlier with the same libraries on such machines stays, but for the rows that
/// are measured anew.
TuningTable merged(const std::string& path, const std::string& machine,
                   const std::vector<TuningRow>& rows) {
  TuningTable table;
  const TuningChoice old = table_at(path, machine);
  if (old.table != nullptr) table = *old.table;
  if (!old.problem.empty()) say(fmt::format("hymn: replacing it: {}\n", old.problem));
  table.machine = machine;
  table.measured = today();
  table.library = tuning_library();
  for (const TuningRow& row : rows) {
    std::erase_if(table.rows, [&](const TuningRow& other) {
      return other.type == row.type && other.dtype == row.dtype && other.ranks == row.ranks &&
             other.hosts == row.hosts && other.path == row.path &&
             other.algorithm == row.algorithm && other.memory == row.memory;
    });
    table.rows.push_back(row);
  }
  return table;
}

/// The file to write: the one that is asked for, or the one that runs will look for.
std::string output_of(const TuneOptions& options, const std::string& machine) {
  std::string path = options.output;
  if (path.empty()) path = Config::from_environment().tuning;
  if (path.empty() || path == "off") path = tuning_file_for(machine);
  if (path.empty())
    throw BadArguments("there is no home folder for the table; give a file with --output");
  return path;
}

/// Once a table is being written, an interrupt comes too late: half of it would be left.
class NoInterrupts {
 public:
  NoInterrupts() {
    for (std::size_t i = 0; i < signals.size(); ++i) {
      struct sigaction ignore{};
      ignore.sa_handler = SIG_IGN;
      ::sigaction(signals[i], &ignore, &before_[i]);
    }
  }
  ~NoInterrupts() {
    for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &before_[i], nullptr);
  }
  NoInterrupts(const NoInterrupts&) = delete;
  NoInterrupts& operator=(const NoInterrupts&) = delete;

 private:
  static constexpr std::array signals{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, signals.size()> before_{};
};

void keep(const TuneOptions& options, const std::string& machine,
          const std::vector<TuningRow>& rows, const std::string& summary) {
  const std::string path = output_of(options, machine);
  const TuningTable table = merged(path, machine, rows);
  {
    const NoInterrupts until_written;
    write_tuning_file(table, path);
  }
  fmt::print("{}written to {}: {} rows, {} of them new, for machines {}\n", summary, path,
             table.rows.size(), rows.size(), machine);
}

/// Rank 0 does it, and all hear whether it could. Its own error is thrown on rank 0.
bool rank_0_could(World& world, const std::function<void()>& work) {
  std::exception_ptr problem;
  if (world.rank() == 0) {
    try {
      work();
    } catch (...) {
      problem = std::current_exception();
    }
  }
  std::int32_t failed = problem ? 1 : 0;
  world.group().broadcast(view_of(failed), 0);
  if (problem) std::rethrow_exception(problem);
  return failed == 0;
}

/// Where everything is to be measured. Collective.
std::vector<TuneGround> grounds_of(World& world, const TuneOptions& options) {
  std::vector<TuneGround> grounds;
  if (options.memory != TuneMemory::device) grounds.push_back(ground_on_host(world));
  if (options.memory == TuneMemory::host) return grounds;
  try {
    grounds.push_back(ground_on_gpus(world));
  } catch (const UnsupportedError& error) {
    if (options.memory == TuneMemory::device) throw BadArguments(error.what());
    if (world.rank() == 0)
      say(fmt::format("hymn: only host memory is measured: {}\n", error.problem()));
  }
  return grounds;
}

int tune(World& world, const TuneOptions& options) {
  const JobMap& job = job_map_of(world);
  if (job.machines.size() > 1)
    throw BadArguments("the hosts of this job are of different kinds; a table is for one kind");
  const bool speaks = world.rank() == 0;
  const std::string machine = fingerprint(job.machine());
  // Now, and not after minutes of measuring.
  if (!rank_0_could(world, [&] { check_tuning_file(output_of(options, machine)); })) return 1;
  std::vector<TuningRow> rows;
  std::string summary;
  for (const TuneGround& ground : grounds_of(world, options)) {
    Progress progress(speaks);
    const std::string where = ground.is_on_gpu() ? " in the memory of GPUs" : "";
    for (std::size_t i = 0; i < options.cases.size(); ++i) {
      const BenchCase& bench_case = *options.cases[i];
      progress.begin(std::string(bench_case.name) + where, i + 1, options.cases.size());
      const TuneResult result =
          TuneRunner(world, ground, bench_case, options).run([&](std::size_t bytes) {
            progress.at(bytes);
          });
      rows.insert(rows.end(), result.rows.begin(), result.rows.end());
      summary += changes_text(std::string(bench_case.name) + where, result.changes);
    }
  }
  return rank_0_could(world, [&] { keep(options, machine, rows, summary); }) ? 0 : 1;
}

}  // namespace

int tune_command(const TuneArguments& arguments) {
  const TuneOptions options = checked_options(arguments);
  if (options.threads == 0) {
    World world;
    const int code = tune(world, options);
    if (code != 0) let_the_first_rank_speak();  // where it does not fail, it throws
    return code;
  }
  try {
    run_ranks(options.threads, [&](World& world) { tune(world, options); });
  } catch (const RanksFailed& failed) {
    failed.rethrow_first();
  }
  return 0;
}

}  // namespace hymn
