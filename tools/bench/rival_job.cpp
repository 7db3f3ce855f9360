#include "tools/bench/rival_job.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "base/descriptor.hpp"
#include "tools/bench/rival_launch.hpp"
#include "topology/cpu_set.hpp"
#include "topology/host.hpp"

namespace hymn {
namespace {

constexpr auto nap = std::chrono::microseconds(500);

/// Texts of all ranks, by rank.
std::vector<std::string> gather_texts(ProcessGroup& group, const std::string& mine) {
  std::array<char, 256> text{};
  mine.copy(text.data(), text.size() - 1);
  std::vector<char> all(text.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(BufferView(text), BufferView(all));
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size(); at += text.size()) texts.emplace_back(all.data() + at);
  return texts;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> arguments_of(const BenchOptions& options,
                                      const std::vector<std::string>& cpus) {
  std::array<char, 4096> self{};
  const auto length = ::readlink("/proc/self/exe", self.data(), self.size() - 1);
  if (length <= 0) throw BadArguments("--vs mpi needs /proc to start its processes");
  std::vector<std::string> arguments = {self.data(), "bench",
                                        std::string(options.bench_case->name)};
  const auto add = [&](const char* name, const auto& value) {
    arguments.push_back(name);
    arguments.push_back(fmt::format("{}", value));
  };
  add("--min", options.min_bytes);
  add("--max", options.max_bytes);
  add("--factor", options.factor);
  add("--dtype", to_string(options.dtype));
  add("--op", to_string(options.op.kind()));
  add("--root", options.root);
  add("--vs-level", options.rival_level);
  add("--rival", fmt::format("{}", fmt::join(cpus, ";")));
  return arguments;
}

/// Its ends; none is seen by what is started, but for those that it is given.
std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw BadArguments(fmt::format("--vs mpi: no pipe: {}", std::strerror(errno)));
  return ends;
}

}  // namespace

void rest_until_done(Work work) {
  while (!work.test()) std::this_thread::sleep_for(nap);
  work.wait();
}

RivalJob::RivalJob(World& world, const BenchOptions& options)
    : all_(world.group()), speaks_(world.rank() == 0) {
  const auto cpus = gather_texts(all_, CpuSet::of_this_thread().to_string());
  const auto hosts = gather_texts(all_, host_name());
  std::string problem;
  std::int32_t failed = 0;
  if (speaks_) {
    try {
      start(options, cpus, hosts);
    } catch (const std::exception& error) {
      problem = error.what();
      failed = 1;
    }
  }
  rest_until_done(all_.broadcast_async(view_of(failed), 0));
  if (failed != 0) throw BadArguments(problem);
}

void RivalJob::start(const BenchOptions& options, const std::vector<std::string>& cpus,
                     const std::vector<std::string>& hosts) {
  const Variables environment = this_environment();
  std::vector<std::string> command = launch_command(environment, all_.size(), hosts);
  description_ = fmt::format("{}", fmt::join(command, " "));
  for (std::string& argument : arguments_of(options, cpus)) command.push_back(std::move(argument));
  std::vector<std::string> variables;
  for (const auto& [name, value] : outer_environment(environment))
    variables.push_back(name + "=" + value);
  const auto [words_out, words_in] = make_pipe();
  const Descriptor their_words(words_out);
  to_.reset(::fdopen(words_in, "w"));
  const auto [answers_out, answers_in] = make_pipe();
  std::optional<Descriptor> their_answers(answers_in);
  from_.reset(::fdopen(answers_out, "r"));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, their_words.number(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, their_answers->number(), STDOUT_FILENO);
  const int code = ::posix_spawnp(&launcher_, command.front().c_str(), &actions, nullptr,
                                  pointers_to(command).data(), pointers_to(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) {
    launcher_ = -1;
    throw BadArguments(
        fmt::format("--vs mpi starts processes of its own by {}: {}; MPIRUN names "
                    "another launcher",
                    command.front(), std::strerror(code)));
  }
  their_answers.reset();  // or its end would never be seen
  description_ = fmt::format("{}; started by {}", answer(), description_);
}

// Whoever reads the other end finds that it has ended, and does so, too.
RivalJob::~RivalJob() {
  to_.reset();
  if (launcher_ <= 0) return;
  while (::waitpid(launcher_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string RivalJob::answer() {
  // Launchers may put words of their own between.
  constexpr std::string_view mark = "hymn-rival ";
  std::array<char, 1024> line{};
  while (std::fgets(line.data(), static_cast<int>(line.size()), from_.get()) != nullptr) {
    std::string text = line.data();
    if (!text.starts_with(mark)) continue;
    text.erase(0, mark.size());
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  throw std::runtime_error("the processes of plain MPI, which --vs mpi has started by " +
                           description_ + ", have ended");
}

double RivalJob::measure(const RivalBlock& block) {
  double us = 0;
  std::uint64_t wrong = 0;
  if (speaks_) {
    fmt::print(to_.get(), "{} {} {} {}\n", block.count, block.in_place ? 1 : 0, block.iterations,
               block.check);
    std::fflush(to_.get());
    std::istringstream words(answer());
    words >> us >> wrong;
  }
  // Nobody goes on before the rival's processes sleep.
  rest_until_done(all_.broadcast_async(view_of(wrong), 0));
  wrong_ += wrong;
  return us;
}

}  // namespace hymn
