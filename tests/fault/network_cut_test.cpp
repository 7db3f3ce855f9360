// A network that is cut between two hosts: what ranks on both sides hear of it, and that a short
// cut disturbs nobody.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/fault/job_run.hpp"
#include "tests/support/shell.hpp"

namespace hymn::test {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The limit of the job's operations, and room for a busy machine.
constexpr double longest_wait_ms = 15000;

/// Two hosts with two ranks each, on which fault_job makes calls for ever; over MPI, or without.
class NetworkCut : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override;
  void TearDown() override;
  /// Each call has so long.
  void start(int limit_s);
  void control_host(const std::string& what, const std::string& word = "");
  void stop() { folder_.notes().write("stop", true); }
  json report_of(int rank);
  /// But for a wait of so long on those.
  void expect_undisturbed(const std::vector<int>& held_up, double longest_ms);
  void expect_told_of_others(const std::vector<int>& ranks, double since_ms);
  void expect_ended(const JobRun& run);

  NotesFolder folder_;
  std::string hosts_ = folder_.notes().path("hosts");
  JobPlan plan_{.program = HYMN_FAULT_JOB, .hosts = {2, 2}, .mpi = GetParam()};
  std::future<JobRun> run_;
};

void NetworkCut::SetUp() {
  const ShellOutcome up = run_shell(fmt::format("{} up {} 2 2>&1", hosts_script(), hosts_));
  if (up.exit_code == 77) GTEST_SKIP() << up.output;
  ASSERT_EQ(up.exit_code, 0) << up.output;
}

void NetworkCut::start(int limit_s) {
  plan_.words = {"loop", std::to_string(limit_s)};
  run_ = std::async(std::launch::async, [this] { return run_job_on(hosts_, plan_, folder_); });
  ASSERT_TRUE(folder_.notes().await("ready", seconds(30)).has_value());
}

void NetworkCut::TearDown() {
  if (run_.valid()) run_.wait();
  run_shell(fmt::format("{} down {} 2>&1", hosts_script(), hosts_));
}

void NetworkCut::control_host(const std::string& what, const std::string& word) {
  const ShellOutcome done =
      run_shell(fmt::format("{} {} {} node1 {} 2>&1", hosts_script(), what, hosts_, word));
  ASSERT_EQ(done.exit_code, 0) << done.output;
}

json NetworkCut::report_of(int rank) {
  const auto report = folder_.notes().await(report_note(0, rank), seconds(40));
  EXPECT_TRUE(report.has_value()) << "rank " << rank << " tells nothing";
  return report.value_or(json::object());
}

void NetworkCut::expect_undisturbed(const std::vector<int>& held_up, double longest_ms) {
  for (int rank = 0; rank < plan_.ranks(); ++rank)
    EXPECT_EQ(report_of(rank).value("kind", ""), "none") << report_of(rank);
  for (const int rank : held_up)
    EXPECT_GT(report_of(rank).value("longest_ms", 0.0), longest_ms)
        << "rank " << rank << " was not held up";
  expect_ended(run_.get());
}

void NetworkCut::expect_told_of_others(const std::vector<int>& ranks, double since_ms) {
  for (const int rank : ranks) {
    const json report = report_of(rank);
    SCOPED_TRACE(fmt::format("rank {}: {}", rank, report.dump()));
    EXPECT_THAT(report.value("kind", ""), AnyOf("timeout", "peer", "aborted"));
    EXPECT_LT(report.value("at_ms", 1e9) - since_ms, longest_wait_ms);
    const auto missing = report.value("missing", std::vector<int>{});
    const auto text = report.value("text", "");
    // Whose coordinator has left while it was asked cannot tell who is missing, and says so.
    if (missing.empty()) {
      EXPECT_THAT(text, HasSubstr("not known, as the rank that passes"));
      EXPECT_THAT(text, HasSubstr(plan_.host_of(rank) == 0 ? "rank 2 (" : "rank 0 ("))
          << "it names whom it does not know of";
    }
    for (const int other : missing) {
      EXPECT_NE(plan_.host_of(other), plan_.host_of(rank)) << "rank " << other << " is on its side";
      EXPECT_THAT(text, HasSubstr(fmt::format("rank {} (", other)));
    }
  }
}

void NetworkCut::expect_ended(const JobRun& run) {
  EXPECT_FALSE(run.hung) << run.output;
  EXPECT_THAT(run.left, IsEmpty());
}

/// What lasts too long to be done twice; and mpirun ends all ranks when a daemon is gone.
class NetworkCutWithoutMpi : public NetworkCut {};

TEST_P(NetworkCut, OfASecondDisturbsNobody) {
  start(5);
  const double cut_at = clock_ms();
  control_host("cut");
  std::this_thread::sleep_for(seconds(1));
  control_host("heal");
  const double cut_ms = clock_ms() - cut_at;
  std::this_thread::sleep_for(seconds(2));
  stop();
  // What TCP sends again, ever less often, might come when the limit has passed.
  if (cut_ms > 2500) GTEST_SKIP() << "on this busy machine the cut lasted " << cut_ms << " ms";
  expect_undisturbed({0, 1, 2, 3}, 500);
}

TEST_P(NetworkCutWithoutMpi, OfFourSecondsDisturbsNobodyWhoHasTheTime) {
  start(30);
  control_host("cut");
  std::this_thread::sleep_for(seconds(4));
  control_host("heal");
  // TCP tries again after twice as long each time.
  std::this_thread::sleep_for(seconds(5));
  stop();
  expect_undisturbed({0, 1, 2, 3}, 3500);
}

TEST_P(NetworkCut, ForGoodIsToldOnBothSides) {
  start(5);
  control_host("cut");
  const double cut_at = clock_ms();
  for (int rank = 0; rank < plan_.ranks(); ++rank) report_of(rank);
  // mpirun itself would wait for ever.
  control_host("heal");
  stop();
  expect_told_of_others({0, 1, 2, 3}, cut_at);
  expect_ended(run_.get());
}

TEST_P(NetworkCutWithoutMpi, AHostThatIsGoneIsTold) {
  start(30);
  const double gone_at = clock_ms();
  control_host("signal", "KILL");
  expect_told_of_others({0, 1}, gone_at);
  run_.get();
}

// Its ranks read nothing; what others have to say to them waits.
TEST_P(NetworkCutWithoutMpi, AHostThatStandsStillForTenSecondsDisturbsNobodyWhoHasTheTime) {
  start(30);
  control_host("signal", "STOP");
  std::this_thread::sleep_for(seconds(10));
  control_host("signal", "CONT");
  std::this_thread::sleep_for(seconds(1));
  stop();
  // The ranks there may have stood still between two calls.
  expect_undisturbed({0, 1}, 9500);
}

INSTANTIATE_TEST_SUITE_P(Over, NetworkCut, ::testing::Values(true, false),
                         [](const auto& one) { return one.param ? "Mpi" : "Tcp"; });
INSTANTIATE_TEST_SUITE_P(Over, NetworkCutWithoutMpi, ::testing::Values(false));

}  // namespace
}  // namespace hymn::test
