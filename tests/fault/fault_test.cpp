// Every way in which a rank can fail, and what the others then hear of it: jobs of real processes
// under real launchers. What is expected of them is here; what happens in them, in fault_job.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/fault/job_run.hpp"
#include "tests/fault/plans.hpp"

namespace hymn::test {
namespace {

using nlohmann::json;
using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Far above what it takes: the machine may be busy.
constexpr double longest_detection_ms = 4000;
// A call on a group that is given up does not wait for anything; but a busy machine may hold it up.
constexpr double at_once_ms = 4000;

/// How long after a death its survivors knew, on the victim's host and on others. Printed at the
/// end: a test that measures must not depend on how busy the machine is.
struct Figures {
  std::vector<double> local{};
  std::vector<double> remote{};
};

Figures& figures() {
  static Figures all;
  return all;
}

class Printer : public ::testing::Environment {
  void TearDown() override {
    std::printf("deaths heard of on the same host: %s\n", describe_times(figures().local).c_str());
    std::printf("deaths heard of on other hosts: %s\n", describe_times(figures().remote).c_str());
  }
};

[[maybe_unused]] const auto* const printer =
    ::testing::AddGlobalTestEnvironment(new Printer);  // gtest deletes it

class Fault : public ::testing::TestWithParam<FaultPlan> {
 protected:
  void expect_scene(std::size_t index);
  void expect_victim_named(const json& told, const Scene& scene);
  void expect_first_error(const Scene& scene, const json& report);
  void expect_after(const Scene& scene, const json& report);
  void note_time(std::size_t index, int rank, const json& report);
  json read(const std::string& name);

  NotesFolder folder_;
};

json Fault::read(const std::string& name) {
  const auto note = folder_.notes().read(name);
  EXPECT_TRUE(note.has_value()) << "there is no " << name;
  return note.value_or(json::object());
}

/// The victim, and nobody else.
void Fault::expect_victim_named(const json& told, const Scene& scene) {
  EXPECT_EQ(told.value("missing", std::vector<int>{}), std::vector<int>{scene.victim}) << told;
  EXPECT_THAT(told.value("text", ""), HasSubstr(fmt::format("rank {} (", scene.victim)));
}

void Fault::expect_first_error(const Scene& scene, const json& report) {
  const std::string kind = report.value("kind", "");
  const std::string text = report.value("text", "");
  expect_victim_named(report, scene);
  if (!scene.stays()) {
    EXPECT_THAT(kind, AnyOf("peer", "aborted")) << text;
    EXPECT_LT(report.value("took_ms", 1e9), 30000) << "its limit has ended it";
    if (scene.death == "goodbye") {
      EXPECT_THAT(text, HasSubstr("has ended its world"));
    }
    return;
  }
  EXPECT_THAT(kind, AnyOf("timeout", "aborted")) << text;
  // Of a stopped one that is known on its own host only.
  if (scene.state != "messages" && scene.death == "never") {
    EXPECT_THAT(text, HasSubstr("has not entered it"));
  }
  if (scene.death == "stop") {
    EXPECT_THAT(text, AnyOf(HasSubstr("does not answer"), HasSubstr("stopped"),
                            HasSubstr("no sign of life")));
  }
}

void Fault::expect_after(const Scene& scene, const json& report) {
  // A receive that was taken back leaves the group as it was.
  if (scene.state == "messages" && scene.stays()) return;
  const json again = report.value("again", json::object());
  EXPECT_EQ(again.value("kind", ""), "aborted") << again;
  EXPECT_LT(again.value("took_ms", 1e9), at_once_ms);
  expect_victim_named(again, scene);
}

void Fault::note_time(std::size_t index, int rank, const json& report) {
  const Scene& scene = GetParam().scenes[index];
  if (scene.stays() || scene.state == "idle") return;
  const double time = report.value("at_ms", 1e9) - read(death_note(index)).get<double>();
  EXPECT_LT(time, longest_detection_ms) << "rank " << rank;
  const JobPlan& plan = GetParam().job;
  (plan.host_of(rank) == plan.host_of(scene.victim) ? figures().local : figures().remote)
      .push_back(time);
}

void Fault::expect_scene(std::size_t index) {
  const Scene& scene = GetParam().scenes[index];
  for (const int rank : GetParam().survivors(index)) {
    SCOPED_TRACE(fmt::format("scene {}, rank {}", scene.word(), rank));
    const json report = read(report_note(index, rank));
    EXPECT_EQ(report.value("rest", json::object()).value("kind", ""), "none")
        << "the group without the victim: " << report;
    if (!scene.member) {
      EXPECT_EQ(report.value("kind", ""), "none") << report;
      continue;
    }
    expect_first_error(scene, report);
    if (report.contains("send") && report["send"]["kind"] != "none")
      expect_victim_named(report["send"], scene);
    expect_after(scene, report);
    note_time(index, rank, report);
  }
}

TEST_P(Fault, IsToldByAllOthers) {
  JobPlan job = GetParam().job;
  job.program = HYMN_FAULT_JOB;
  if (!GetParam().setting.empty()) job.words.push_back(GetParam().setting);
  for (const Scene& scene : GetParam().scenes) job.words.push_back(scene.word());
  const JobRun run = run_job(job, folder_);
  if (!run.skipped.empty()) GTEST_SKIP() << run.skipped;
  EXPECT_FALSE(run.hung) << "the job has not ended by itself within " << job.limit_s << " s";
  EXPECT_THAT(run.left, IsEmpty());
  for (std::size_t i = 0; i < GetParam().scenes.size(); ++i) expect_scene(i);
  for (const int rank : GetParam().survivors(GetParam().scenes.size() - 1)) {
    const json end = read(end_note(rank));
    EXPECT_EQ(end.value("kind", ""), "none") << "the end of rank " << rank << ": " << end;
  }
  if (HasFailure()) std::printf("what the job wrote: %s\n", run.output.c_str());
}

std::string name_of(const ::testing::TestParamInfo<FaultPlan>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Local, Fault, ::testing::ValuesIn(local_plans()), name_of);
INSTANTIATE_TEST_SUITE_P(Hosts, Fault, ::testing::ValuesIn(hosts_plans()), name_of);
INSTANTIATE_TEST_SUITE_P(Slurm, Fault, ::testing::ValuesIn(slurm_plans()), name_of);
INSTANTIATE_TEST_SUITE_P(Every, Fault, ::testing::ValuesIn(every_plan()), name_of);

}  // namespace
}  // namespace hymn::test
