#include "tests/random/job.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace hymn::test {
namespace {

constexpr int act_stride = 1000;   // between the numbers of the first steps of acts
constexpr unsigned limit_s = 120;  // for one step: on a busy machine a job may take minutes

int steps_of_act(std::uint64_t seed) { return static_cast<int>(30 + Drawer(seed + 7).below(90)); }

int draw_ranks(Drawer& drawer) {
  static constexpr std::array choice = {2, 2, 2, 3, 3, 3, 4, 4, 5, 7};
  return drawer.one_of(choice);
}

void draw_mpi(RandomJob& job, Drawer& drawer) {
  static const std::vector<std::string> paths = {
      "", "", "", "shm", "mpi", "mpi_p2p", "exchange", "mpi,mpi_p2p", "shm,exchange", "shm,mpi"};
  job.ranks = drawer.one_in(30) ? 1 : draw_ranks(drawer);
  job.rules.path = drawer.one_of(paths);
  if (drawer.one_in(6)) job.worlds = 2;
  static const std::vector<std::string> levels = {"",           "",         "multiple", "multiple",
                                                  "serialized", "funneled", "single"};
  const std::string level = drawer.one_of(levels);
  if (!level.empty()) job.settings.emplace_back("HYMN_MPI_THREAD_LEVEL", level);
  if (drawer.one_in(3) && (level.empty() || level == "multiple"))
    job.settings.emplace_back("HYMN_PROGRESS_THREAD", "1");
}

/// Processes of this host, without MPI.
void draw_run(RandomJob& job, Drawer& drawer) {
  static const std::vector<std::string> paths = {"",    "",    "",        "shm",         "exchange",
                                                 "tcp", "tcp", "shm,tcp", "shm,exchange"};
  job.kind = RandomJob::Kind::run;
  job.ranks = drawer.one_in(30) ? 1 : draw_ranks(drawer);
  job.rules.path = drawer.one_of(paths);
  if (drawer.one_in(6)) job.worlds = 2;
  if (drawer.one_in(4)) job.settings.emplace_back("HYMN_PROGRESS_THREAD", "1");
}

void draw_threads(RandomJob& job, Drawer& drawer) {
  static const std::vector<std::string> paths = {"", "", "threads", "exchange", "shm"};
  job.kind = RandomJob::Kind::threads;
  job.ranks = drawer.one_in(10) ? 1 : draw_ranks(drawer);
  job.rules.path = drawer.one_of(paths);
}

void draw_hosts(RandomJob& job, Drawer& drawer) {
  static const std::vector<std::string> layouts = {
      "0,0,1", "0,1,1,1", "0,1,0,1", "0,0,1,1,2", "0,0,0,1,1,2,2", "0,0,0,0", "0,1,2"};
  static const std::vector<std::string> paths = {"", "", "hierarchical,exchange"};
  job.kind = RandomJob::Kind::hosts;
  job.layout = drawer.one_of(layouts);
  job.ranks = 1 + static_cast<int>(std::count(job.layout.begin(), job.layout.end(), ','));
  job.rules.path = drawer.one_of(paths);
}

void draw_settings(RandomJob& job, Drawer& drawer) {
  job.settings.emplace_back("HYMN_PATH", job.rules.path);
  job.settings.emplace_back("HYMN_TIMEOUT", "40");
  job.settings.emplace_back("HYMN_TUNING", "off");
  if (drawer.one_in(6))
    job.settings.emplace_back("HYMN_CHECKS", drawer.one_in(2) ? "info" : "detail");
  if (drawer.one_in(8)) job.settings.emplace_back("HYMN_CHUNK_LIMIT", "1000");
  if (drawer.one_in(5)) job.settings.emplace_back("HYMN_RECORDER_TIMING", "1");
  if (drawer.one_in(2)) job.settings.emplace_back("TEST_MEMORY", "any");
  if (drawer.one_in(8)) job.settings.emplace_back("HYMN_REPRODUCIBLE", "placement");
}

/// "3,1000-1017"
std::function<bool(int)> wanted_steps(const std::string& list) {
  if (list.empty()) return {};
  std::vector<std::pair<int, int>> ranges;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    const std::size_t dash = word.find('-');
    const int first = std::stoi(word);
    ranges.emplace_back(first,
                        dash == std::string::npos ? first : std::stoi(word.substr(dash + 1)));
  }
  return [ranges](int number) {
    for (const auto& [first, last] : ranges)
      if (number >= first && number <= last) return true;
    return false;
  };
}

// A signal handler reads it.
std::atomic<const char*> job_name{""};

void on_alarm(int) {
  const char* const name = job_name;
  static constexpr char words[] = " hangs\n";
  auto written = ::write(STDERR_FILENO, name, std::char_traits<char>::length(name));
  written = ::write(STDERR_FILENO, words, sizeof words - 1);
  static_cast<void>(written);
  ::_exit(124);
}

void play_act(const RandomJob& job, int act, const std::function<bool(int)>& wanted,
              std::span<World* const> worlds) {
  ScriptOptions options{.ranks = worlds.front()->size(), .worlds = worlds.size()};
  options.first = act * act_stride;
  options.steps = steps_of_act(job.seed);
  options.shrinks = job.rules.shrinks;
  options.wanted = wanted;
  const Script script = Script::draw(job.seed, options);
  // It stays: where it fails, operations are in flight for longer than this function runs.
  PlayerRules rules = job.rules;
  rules.on_step = [] { ::alarm(limit_s); };
  auto player = std::make_unique<Player>(worlds, script, std::move(rules));
  try {
    player->play();
    player->end();
  } catch (const std::exception& error) {
    fmt::print(stderr, "random: seed {}, rank {}, {}: {}\n", job.seed, worlds.front()->rank(),
               player->where(), error.what());
    std::fflush(nullptr);
    // Ranks as threads let each other go; the others are ended by their launcher.
    if (job.kind == RandomJob::Kind::mpi || job.kind == RandomJob::Kind::run) std::_Exit(1);
    static_cast<void>(player.release());
    throw;
  }
  fmt::print("random: {} calls\n", player->calls());
}

}  // namespace

RandomJob RandomJob::draw(std::uint64_t seed) {
  Drawer drawer(seed * 7919 + 5);
  RandomJob job{.seed = seed};
  switch (seed % 8) {
    case 0:
    case 1:
      draw_threads(job, drawer);
      break;
    case 2:
      draw_hosts(job, drawer);
      break;
    case 3:
      draw_run(job, drawer);
      break;
    default:
      draw_mpi(job, drawer);
  }
  job.acts = static_cast<int>(1 + drawer.below(3));
  draw_settings(job, drawer);
  return job;
}

std::string RandomJob::command(const std::string& steps) const {
  const std::string words = fmt::format("{}{}{}", seed, steps.empty() ? "" : " ", steps);
  // All programs lie in one folder.
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe").parent_path();
  switch (kind) {
    case Kind::threads:
      return fmt::format("{}/random_threads {}", folder.string(), words);
    case Kind::hosts:
      return fmt::format("{}/random_hosts {}", folder.string(), words);
    case Kind::run:
      return fmt::format("{} run -n {} {}/random_mpi {}", HYMN_COMMAND, ranks, folder.string(),
                         words);
    case Kind::mpi:
      break;
  }
  return fmt::format("{}/scripts/mpirun -n {} {}/random_mpi {}", HYMN_SOURCE, ranks,
                     folder.string(), words);
}

std::vector<int> RandomJob::all_steps() const {
  std::vector<int> steps;
  for (int act = 0; act < acts; ++act)
    for (int step = 0; step < steps_of_act(seed); ++step) steps.push_back(act * act_stride + step);
  return steps;
}

std::string RandomJob::describe() const {
  std::string text = fmt::format("{} ranks, {} act(s) of {} world(s)", ranks, acts, worlds);
  if (!layout.empty()) text += ", on hosts " + layout;
  for (const auto& [name, value] : settings) text += fmt::format(", {}={}", name, value);
  return text;
}

int run_random_job(int argc, char** argv, std::initializer_list<RandomJob::Kind> kinds,
                   const RunAct& run_act) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc < 2) return 2;
  const RandomJob job = RandomJob::draw(std::strtoull(argv[1], nullptr, 10));
  if (std::ranges::count(kinds, job.kind) == 0) {
    fmt::print(stderr, "run it so: {}\n", job.command());
    return 2;
  }
  // Who sets one of them means it.
  for (const auto& [name, value] : job.settings) ::setenv(name.c_str(), value.c_str(), 0);
  static const std::string name = fmt::format("random: seed {}", job.seed);
  job_name = name.c_str();
  std::signal(SIGALRM, on_alarm);
  ::alarm(limit_s);
  const auto wanted = wanted_steps(argc > 2 ? argv[2] : "");
  try {
    for (int act = 0; act < job.acts; ++act)
      run_act(job, [&](std::span<World* const> worlds) { play_act(job, act, wanted, worlds); });
  } catch (const std::exception& error) {
    fmt::print(stderr, "random: seed {}: {}\n", job.seed, error.what());
    std::fflush(nullptr);
    std::_Exit(1);
  }
  return 0;
}

}  // namespace hymn::test
