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

/// Two hosts with two ranks each, on which fault_job makes calls for ever.
class NetworkCut : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  void control_link(const char* what);
  void stop() { folder_.notes().write("stop", true); }
  json report_of(int rank);
  void expect_ended(const JobRun& run);

  NotesFolder folder_;
  std::string hosts_ = folder_.notes().path("hosts");
  JobPlan plan_{.program = HYMN_FAULT_JOB, .hosts = {2, 2}, .words = {"loop"}};
  std::future<JobRun> run_;
};

void NetworkCut::SetUp() {
  const ShellOutcome up = run_shell(fmt::format("{} up {} 2 2>&1", hosts_script(), hosts_));
  if (up.exit_code == 77) GTEST_SKIP() << up.output;
  ASSERT_EQ(up.exit_code, 0) << up.output;
  run_ = std::async(std::launch::async, [this] { return run_job_on(hosts_, plan_, folder_); });
  ASSERT_TRUE(folder_.notes().await("ready", seconds(30)).has_value());
}

void NetworkCut::TearDown() {
  if (run_.valid()) run_.wait();
  run_shell(fmt::format("{} down {} 2>&1", hosts_script(), hosts_));
}

void NetworkCut::control_link(const char* what) {
  const ShellOutcome done =
      run_shell(fmt::format("{} {} {} node1 2>&1", hosts_script(), what, hosts_));
  ASSERT_EQ(done.exit_code, 0) << done.output;
}

json NetworkCut::report_of(int rank) {
  const auto report = folder_.notes().await(report_note(0, rank), seconds(40));
  EXPECT_TRUE(report.has_value()) << "rank " << rank << " tells nothing";
  return report.value_or(json::object());
}

void NetworkCut::expect_ended(const JobRun& run) {
  EXPECT_FALSE(run.hung) << run.output;
  EXPECT_THAT(run.left, IsEmpty());
}

TEST_F(NetworkCut, OfASecondDisturbsNobody) {
  const double cut_at = clock_ms();
  control_link("cut");
  std::this_thread::sleep_for(seconds(1));
  control_link("heal");
  const double cut_ms = clock_ms() - cut_at;
  std::this_thread::sleep_for(seconds(2));
  stop();
  // What TCP sends again, ever less often, might come when the limit has passed.
  if (cut_ms > 2500) GTEST_SKIP() << "on this busy machine the cut lasted " << cut_ms << " ms";
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    const json report = report_of(rank);
    EXPECT_EQ(report.value("kind", ""), "none") << report;
    EXPECT_GT(report.value("longest_ms", 0.0), 500) << "nothing was cut";
  }
  expect_ended(run_.get());
}

TEST_F(NetworkCut, ForGoodIsToldOnBothSides) {
  control_link("cut");
  const double cut_at = clock_ms();
  std::vector<json> reports;
  for (int rank = 0; rank < plan_.ranks(); ++rank) reports.push_back(report_of(rank));
  // mpirun itself would wait for ever.
  control_link("heal");
  stop();
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    const json& report = reports[static_cast<std::size_t>(rank)];
    SCOPED_TRACE(fmt::format("rank {}: {}", rank, report.dump()));
    EXPECT_THAT(report.value("kind", ""), AnyOf("timeout", "peer", "aborted"));
    EXPECT_LT(report.value("at_ms", 1e9) - cut_at, longest_wait_ms);
    const auto missing = report.value("missing", std::vector<int>{});
    EXPECT_FALSE(missing.empty());
    for (const int other : missing) {
      EXPECT_NE(plan_.host_of(other), plan_.host_of(rank)) << "rank " << other << " is on its side";
      EXPECT_THAT(report.value("text", ""), HasSubstr(fmt::format("rank {} (", other)));
    }
  }
  expect_ended(run_.get());
}

}  // namespace
}  // namespace hymn::test
