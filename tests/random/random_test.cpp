// Starts random programs (job.hpp), one job after the other, for TEST_SECONDS, and tells how they
// end. Seeds are counted from TEST_FIRST (1; "clock": others at each run); TEST_SEED repeats one.
// TEST_KINDS has "threads", "hosts", "run", "mpi", or several of them. Of a failure the steps are
// looked for that it needs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>

#include "tests/random/job.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/shell.hpp"

namespace hymn::test {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

enum class Verdict { right, wrong, hung };

struct Outcome {
  Verdict verdict = Verdict::right;
  std::uint64_t calls = 0;
  std::string output{};
};

bool is_about_time(const std::string& output) {
  for (const char* const words : {"has not completed", "not complete after", " hangs\n"})
    if (output.find(words) != std::string::npos) return true;
  return false;
}

Outcome run(const RandomJob& job, const std::string& steps = {}) {
  // What it waits for ends long before: it tells itself that it hangs.
  const ShellOutcome ended = run_shell("timeout -k 5 360 " + job.command(steps) + " 2>&1");
  Outcome outcome{.output = ended.output};
  std::istringstream lines(ended.output);
  int parts = 0;
  for (std::string line; std::getline(lines, line);) {
    unsigned long long calls = 0;
    if (std::sscanf(line.c_str(), "random: %llu calls", &calls) != 1) continue;
    outcome.calls += calls;
    ++parts;
  }
  if (ended.exit_code == 0 && parts == job.ranks * job.acts) return outcome;
  const bool hung = ended.exit_code == 124 || ended.exit_code == 137 || is_about_time(ended.output);
  outcome.verdict = hung ? Verdict::hung : Verdict::wrong;
  return outcome;
}

/// "0-4,7,1000-1002"
std::string list_of(const std::vector<int>& steps) {
  std::string list;
  for (std::size_t i = 0; i < steps.size();) {
    std::size_t last = i;
    while (last + 1 < steps.size() && steps[last + 1] == steps[last] + 1) ++last;
    list += list.empty() ? "" : ",";
    list += last == i ? fmt::format("{}", steps[i]) : fmt::format("{}-{}", steps[i], steps[last]);
    i = last + 1;
  }
  return list;
}

/// Leaves steps out for as long as it fails without them; what is left of them.
std::string reduced(const RandomJob& job, seconds limit) {
  const auto until = steady_clock::now() + limit;
  std::vector<int> steps = job.all_steps();
  for (std::size_t part = steps.size() / 2; part > 0; part /= 2)
    for (std::size_t at = 0; at < steps.size() && steady_clock::now() < until;) {
      std::vector<int> rest = steps;
      const auto from = rest.begin() + static_cast<std::ptrdiff_t>(at);
      rest.erase(from, from + static_cast<std::ptrdiff_t>(std::min(part, steps.size() - at)));
      if (!rest.empty() && run(job, list_of(rest)).verdict != Verdict::right)
        steps = rest;
      else
        at += part;
    }
  return list_of(steps);
}

std::string_view name_of(RandomJob::Kind kind) {
  switch (kind) {
    case RandomJob::Kind::threads:
      return "threads";
    case RandomJob::Kind::hosts:
      return "hosts";
    case RandomJob::Kind::run:
      return "run";
    case RandomJob::Kind::mpi:
      return "mpi";
  }
  return "";
}

void tell_failure(const RandomJob& job, const Outcome& outcome) {
  ADD_FAILURE() << "seed " << job.seed << " (" << job.describe() << ") "
                << (outcome.verdict == Verdict::hung ? "hangs" : "fails") << ":\n"
                << outcome.output << "this repeats it: " << job.command();
  const seconds limit(std::stoi(word_from("TEST_REDUCE", "60")));
  if (limit.count() > 0)
    fmt::print("seed {}: these steps do, too: {}\n", job.seed, job.command(reduced(job, limit)));
}

TEST(Random, Programs) {
  const std::string kinds = word_from("TEST_KINDS", "threads hosts run mpi");
  const bool one = std::getenv("TEST_SEED") != nullptr;
  const std::uint64_t first = first_seed();
  const auto until = steady_clock::now() + seconds(std::stoi(word_from("TEST_SECONDS", "60")));
  std::uint64_t seed = first;
  std::uint64_t calls = 0;
  int jobs = 0;
  int wrong = 0;
  int hung = 0;
  for (; steady_clock::now() < until && wrong + hung < 5; ++seed) {
    const RandomJob job = RandomJob::draw(seed);
    if (kinds.find(name_of(job.kind)) == std::string::npos) continue;
    const Outcome outcome = run(job);
    ++jobs;
    calls += outcome.calls;
    if (outcome.verdict == Verdict::wrong) ++wrong;
    if (outcome.verdict == Verdict::hung) ++hung;
    if (outcome.verdict != Verdict::right) tell_failure(job, outcome);
    if (one) break;
  }
  fmt::print("random programs: {} calls over {} jobs, {} wrong, {} hangs, seeds {}..{}\n", calls,
             jobs, wrong, hung, first, one ? seed : seed - 1);
}

}  // namespace
}  // namespace hymn::test
