// `hymn predict` as a user meets it: run as a program, judged by its output and exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "hymn/capture.hpp"
#include "hymn/world.hpp"
#include "tests/support/shell.hpp"
#include "tests/support/temporary_folder.hpp"

namespace hymn::test {
namespace {

namespace fc = hymn::functional;
using Json = nlohmann::json;
using testing::HasSubstr;

std::vector<int> ranks_from(int first, int count, int stride = 1) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

class PredictCommand : public testing::Test {
 protected:
  void capture_as(const std::string& name, const std::function<void()>& program) const {
    std::ofstream(folder_.path() / name) << capture(program).program.to_json();
  }
  ShellOutcome predict(const std::string& arguments) const {
    return run_shell("cd '" + folder_.path().string() +
                     "' && HYMN_TUNING=off " HYMN_COMMAND " predict " + arguments + " 2>&1");
  }
  Json predicted(const std::string& arguments) const {
    const ShellOutcome outcome = predict(arguments + " --json");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return Json::parse(outcome.output);
  }

  TemporaryFolder folder_;
};

constexpr const char* box = "--synthetic 'pack:1 core:8 pu:1'";

Array sum(std::int64_t elements, const fc::Where& where) {
  return fc::all_reduce(Array::meta({elements}, DataType::float32), "sum", where);
}

TEST_F(PredictCommand, AddsUpWhatIsWaitedForAtOnce) {
  capture_as("program.json", [] {
    const auto all = fc::Where::ranks_alone(ranks_from(0, 8));
    for (int i = 0; i < 3; ++i) fc::wait_tensor(sum(1 << 20, all));
    fc::wait_tensor(sum(16, all));
  });
  const Json told = predicted(std::string("program.json ") + box);
  ASSERT_EQ(told["calls"].size(), 2u);
  EXPECT_EQ(told["calls"][0]["times"], 3);
  EXPECT_EQ(told["calls"][0]["bytes"], 4 << 20);
  EXPECT_EQ(told["calls"][0]["hosts"], 1);
  EXPECT_EQ(told["calls"][0]["path"], "shm");
  const double large = told["calls"][0]["us"];
  const double small = told["calls"][1]["us"];
  EXPECT_GT(large, 10 * small);
  EXPECT_NEAR(told["end_us"], 3 * large + small, 1e-6);
  EXPECT_NEAR(told["one_by_one_us"], 3 * large + small, 1e-6);
}

// What is started ends at its wait, what blocks at once.
TEST_F(PredictCommand, CallsOfProcessGroupTakeTime) {
  World world = World::fake(8, 0);
  capture_as("program.json", [&world] {
    std::vector<float> data(1 << 20);
    world.group().all_reduce(data);
    Work work = world.group().broadcast_async(data, 3);
    world.group().barrier();
    work.wait();
    world.group().send(data, 1);
  });
  const Json told = predicted(std::string("program.json ") + box);
  ASSERT_EQ(told["calls"].size(), 4u);
  double all = 0;
  for (const Json& call : told["calls"]) all += call["us"].get<double>();
  EXPECT_EQ(told["calls"][0]["call"], "all_reduce");
  EXPECT_EQ(told["calls"][1]["call"], "broadcast");
  EXPECT_EQ(told["calls"][2]["call"], "barrier");
  for (const int collective : {0, 1, 2}) EXPECT_GT(told["calls"][collective]["us"], 0);
  EXPECT_NEAR(told["end_us"], all, 1e-6);  // those of one group follow each other
}

TEST_F(PredictCommand, CallsOfDifferentGroupsAreUnderWayTogether) {
  capture_as("program.json", [] {
    const Array one = sum(1 << 20, fc::Where::ranks_alone(ranks_from(0, 8), "one"));
    const Array other = sum(1 << 20, fc::Where::ranks_alone(ranks_from(0, 8), "other"));
    fc::wait_tensor(one);
    fc::wait_tensor(other);
  });
  const Json told = predicted(std::string("program.json ") + box);
  EXPECT_NEAR(told["end_us"], static_cast<double>(told["one_by_one_us"]) / 2, 1e-6);
}

// Neighbours in rank are on one host where ranks come in blocks, and those eight ranks apart are
// not.
TEST_F(PredictCommand, TellsWhatAnotherPlacementWouldCost) {
  capture_as("program.json", [] {
    fc::wait_tensor(sum(1 << 18, fc::Where::ranks_alone(ranks_from(0, 8))));
    fc::wait_tensor(sum(1 << 18, fc::Where::ranks_alone(ranks_from(0, 8, 8))));
  });
  const std::string job = std::string("program.json ") + box + " --hosts 8 --ranks 64";
  const Json blocks = predicted(job);
  EXPECT_EQ(blocks["calls"][0]["hosts"], 1);
  EXPECT_EQ(blocks["calls"][1]["hosts"], 8);
  const Json in_turn = predicted(job + " --round-robin");
  EXPECT_EQ(in_turn["calls"][0]["hosts"], 8);
  EXPECT_EQ(in_turn["calls"][1]["hosts"], 1);
  EXPECT_LT(blocks["calls"][0]["us"], in_turn["calls"][0]["us"]);
}

TEST_F(PredictCommand, TakesAJobOf4096Ranks) {
  capture_as("program.json", [] {
    for (int layer = 0; layer < 100; ++layer) {
      fc::wait_tensor(sum(1 << 20, fc::Where::ranks_alone(ranks_from(0, 8), "tensor")));
      fc::wait_tensor(sum(1 << 18, fc::Where::ranks_alone(ranks_from(0, 512, 8), "data")));
      fc::wait_tensor(sum(64, fc::Where::ranks_alone(ranks_from(0, 4096), "all")));
    }
  });
  const auto began = std::chrono::steady_clock::now();
  const Json told = predicted(std::string("program.json ") + box + " --hosts 512 --ranks 4096");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
  ASSERT_EQ(told["calls"].size(), 3u);
  EXPECT_EQ(told["calls"][1]["hosts"], 512);
  EXPECT_EQ(told["calls"][2]["hosts"], 512);
  EXPECT_EQ(told["calls"][2]["ranks"], 4096);
  EXPECT_EQ(told["calls"][2]["times"], 100);
}

TEST_F(PredictCommand, ShowsATable) {
  capture_as("program.json", [] {
    fc::wait_tensor(sum(1 << 20, fc::Where::ranks_alone(ranks_from(0, 8))));
    fc::wait_tensor(sum(1 << 20, fc::Where::ranks_alone({0})));
  });
  const ShellOutcome outcome = predict(std::string("program.json ") + box);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("8 ranks on 1 host"));
  EXPECT_THAT(outcome.output, HasSubstr("all_reduce                             4 MiB       8"));
  EXPECT_THAT(outcome.output, HasSubstr("nothing to carry"));
  EXPECT_THAT(outcome.output, HasSubstr("from the first call to the last result"));
}

TEST_F(PredictCommand, RefusesWhatCannotBe) {
  capture_as("program.json",
             [] { fc::wait_tensor(sum(1, fc::Where::ranks_alone(ranks_from(0, 8)))); });
  for (const auto& [arguments, words] :
       {std::pair{"nothing.json", "cannot read nothing.json"},
        {"program.json --ranks 4", "has a rank 7, but the job only 4 ranks"},
        {"program.json --ranks -1", "--ranks must be 1 or more"},
        {"program.json --hosts -1", "--hosts must be"},
        {"program.json --ranks 100000", "at most 4096 on each"},
        {"program.json --topo a.xml --synthetic 'core:2'", "give one of them"}}) {
    const ShellOutcome outcome = predict(arguments);
    EXPECT_THAT(outcome.output, HasSubstr(words));
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
  }
}

}  // namespace
}  // namespace hymn::test
