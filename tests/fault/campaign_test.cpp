// The fault campaign: jobs from seeds (blow.hpp), one after the other, for TEST_SECONDS. Whatever
// the ranks are at when one or two of them fail, every survivor ends by itself, says whose fault it
// was, can go on with those who are left, and nothing is left behind.
//
// Seeds are counted from TEST_FIRST (1; "clock": others at each run); TEST_SEED repeats one. With
// TEST_QUIET=1 the machine is idle, and deaths must be heard of soon.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>

#include "tests/fault/blow.hpp"
#include "tests/fault/job_run.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/shell.hpp"

namespace hymn::test {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// In KiB. What MPI leaves in files is not hymn's.
long memory_in_use() {
  const std::string line =
      "echo $(($(awk '$1 == \"Shmem:\" {print $2}' /proc/meminfo) - $(du -sk /dev/shm | cut -f1)))";
  return std::strtol(run_shell(line).output.c_str(), nullptr, 10);
}

/// Whether, of the memory that the whole machine shares, soon no more is used than that. Other
/// tests use some for a while.
bool memory_falls_below(long most) {
  const auto until = steady_clock::now() + seconds(60);
  while (memory_in_use() >= most) {
    if (steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return true;
}

bool begins_with(const json& report, const std::string& words) {
  const std::string text = report.value("text", "");
  return text.starts_with(words) || text.starts_with("timeout: " + words);
}

bool names_victim(const Blow& blow, const std::string& text) {
  return std::any_of(blow.victims.begin(), blow.victims.end(), [&](const Victim& victim) {
    return text.find(fmt::format("rank {} (", victim.rank)) != std::string::npos;
  });
}

class Campaign : public ::testing::Test {
 protected:
  /// One after the other; "tcp": Blow::draw_over_tcp().
  void strike_all(const std::string& kind);
  void strike(const Blow& blow, const std::string& kind);
  void expect_told(const Blow& blow, const Notes& notes);
  void expect_named(const Blow& blow, const json& report);
  static void expect_kind(const Blow& blow, const json& report);

  std::map<std::string, std::vector<double>> times_;  ///< until a death was heard of, by phase
  int cuts_ = 0;                                      ///< by survivors
  int wrong_ = 0;
  int hung_ = 0;
};

// A survivor that is waited for in a group of survivors may have given up for what it has seen
// elsewhere, and live on.
bool is_explained(const json& report) {
  return report.value("kind", "") == "timeout" &&
         report.value("text", "").find("it has seen a failure of") != std::string::npos;
}

void Campaign::expect_kind(const Blow& blow, const json& report) {
  const std::string kind = report.value("kind", "nothing");
  const bool may_end = blow.phase == Phase::end || blow.phase == Phase::finalize;
  // Before the ranks have met a limit passes; and so it does where somebody lives, but stands
  // still.
  const bool may_expire = blow.anyone_stays() || blow.phase == Phase::world;
  if (may_end && kind == "none") return;
  if (may_expire && kind == "timeout") return;
  if (is_explained(report)) return;
  EXPECT_THAT(kind, AnyOf("peer", "aborted"));
}

/// It, or another one that has ended its world for that.
bool has_lost_its_paths(const json& report) {
  const std::string text = report.value("text", "");
  return report.value("kind", "") == "unsupported" || text.find(" has left: ") != std::string::npos;
}

/// A victim, or who is said to be kept waiting by one.
void Campaign::expect_named(const Blow& blow, const json& report) {
  const std::string text = report.value("text", "");
  if (report.value("kind", "none") == "none") return;
  const auto missing = report.value("missing", std::vector<int>{});
  // Who is waited for then may itself be kept waiting by MPI.
  if (begins_with(report, "making the world") && missing.empty()) return;
  // A rank that gives a group up for what it has heard says so in its own words.
  EXPECT_TRUE(!missing.empty() || names_victim(blow, text)) << "nobody is named";
  const bool all_are_victims = std::all_of(missing.begin(), missing.end(),
                                           [&](int rank) { return blow.victim(rank) != nullptr; });
  EXPECT_TRUE(all_are_victims || names_victim(blow, text)) << "an innocent rank is named";
  const bool was_late = report["kind"] == "timeout" && begins_with(report, "making ");
  if (all_are_victims && !was_late) {
    EXPECT_TRUE(missing.empty() || names_victim(blow, text)) << "the text does not say who";
  }
}

void Campaign::expect_told(const Blow& blow, const Notes& notes) {
  double death = 1e300;
  for (const Victim& victim : blow.victims)
    if (const auto note = notes.read(death_note(static_cast<std::size_t>(victim.rank))))
      death = std::min(death, note->get<double>());
  for (const int rank : blow.survivors()) {
    const json report = notes.read(report_note(0, rank)).value_or(json::object());
    SCOPED_TRACE(fmt::format("rank {}: {}", rank, report.dump()));
    EXPECT_FALSE(report.value("failures", true)) << "wrong values, or no end";
    cuts_ += report.value("cuts", 0);
    if (!blow.may_lose_its_paths() || !has_lost_its_paths(report)) {
      expect_kind(blow, report);
      expect_named(blow, report);
    }
    if (blow.is_recovered()) {
      EXPECT_EQ(report.value("left", std::vector<int>{}), blow.survivors())
          << "it does not go on with those who are left";
    }
    // Who waits for such a survivor hears at its limit.
    if (!blow.anyone_stays() && report.contains("at_ms") && !is_explained(report))
      times_[blow.phase == Phase::world ? "while the world was made" : "later"].push_back(
          report["at_ms"].get<double>() - death);
  }
}

void Campaign::strike(const Blow& blow, const std::string& kind) {
  SCOPED_TRACE(blow.describe());
  const NotesFolder folder;
  JobPlan plan{.program = HYMN_BLOW_JOB, .hosts = blow.hosts, .recovery = true};
  plan.words = {std::to_string(blow.seed), kind};
  const auto failures = [] {
    return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
  };
  const int before = failures();
  const JobRun run = run_job(plan, folder);
  EXPECT_FALSE(run.hung);
  EXPECT_THAT(run.left, IsEmpty());
  EXPECT_THAT(run.output, ::testing::Not(HasSubstr("Failure\n")));
  expect_told(blow, folder.notes());
  if (run.hung) ++hung_;
  if (failures() == before) return;
  if (!run.hung) ++wrong_;
  fmt::print(
      "{}\nwhat the job wrote:\n{}\nTEST_SEED={} build/tests/fault_test "
      "--gtest_filter=Campaign.{} repeats it\n",
      blow.describe(), run.output, blow.seed,
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
}

void Campaign::strike_all(const std::string& kind) {
  const bool one = std::getenv("TEST_SEED") != nullptr;
  const std::uint64_t first = first_seed();
  const auto until = steady_clock::now() + seconds(std::stoi(word_from("TEST_SECONDS", "60")));
  // A rank that is killed takes the memory that only it has held with it.
  const long before = memory_in_use();
  std::uint64_t seed = first;
  int jobs = 0;
  for (; steady_clock::now() < until && wrong_ + hung_ < 10; ++seed) {
    strike(kind == "tcp" ? Blow::draw_over_tcp(seed) : Blow::draw(seed), kind);
    ++jobs;
    if (one) break;
  }
  EXPECT_TRUE(memory_falls_below(before + 65536)) << "KiB of shared memory are left";
  for (const auto& [when, times] : times_)
    fmt::print("deaths heard of {}: {}\n", when, describe_times(times));
  std::vector<double> times = times_["later"];
  std::sort(times.begin(), times.end());
  if (word_from("TEST_QUIET", "0") == "1" && !times.empty()) {
    EXPECT_LT(times[times.size() / 2], 15) << "ms, the median";
    EXPECT_LT(times.back(), 500) << "ms, the longest";
  }
  fmt::print("fault campaign: {} jobs, {} wrong, {} hangs, {}seeds {}..{}\n", jobs, wrong_, hung_,
             kind == "tcp" ? fmt::format("{} cuts, ", cuts_) : "", first, one ? seed : seed - 1);
}

TEST_F(Campaign, FromSeeds) { strike_all("any"); }
TEST_F(Campaign, OverTcp) { strike_all("tcp"); }

}  // namespace
}  // namespace hymn::test
