// What real jobs leave when they are asked, and when they fail: the dumps of their ranks, how their
// processes end, and what `hymn trace` makes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/mpi/job_runner.hpp"
#include "tests/support/shell.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int ended_by_abort = 128 + SIGABRT;

/// All keys that the schema requires, of a dump, its groups, its entries and its peers.
void expect_required(const Json& value, const Json& schema, const std::string& what) {
  for (const auto& key : schema["required"])
    EXPECT_TRUE(value.contains(key.get<std::string>())) << what << " has no " << key;
}

void expect_valid(const Json& dump, int rank) {
  std::ifstream file(HYMN_SCHEMA);
  const Json schema = Json::parse(file);
  expect_required(dump, schema, "the dump");
  EXPECT_EQ(dump["version"], "1.4");
  EXPECT_EQ(dump["rank"], rank);
  const auto& triggers = schema["properties"]["trigger"]["enum"];
  EXPECT_NE(std::find(triggers.begin(), triggers.end(), dump["trigger"]), triggers.end())
      << dump["trigger"];
  for (const auto& group : dump["pg_config"])
    expect_required(group, schema["$defs"]["group"], "a group");
  for (const auto& entry : dump.value("entries", Json::array()))
    expect_required(entry, schema["$defs"]["entry"], "an entry");
  for (const auto& peer : dump["peers"]) expect_required(peer, schema["$defs"]["peer"], "a peer");
}

class Dump : public ::testing::Test {
 protected:
  void start(const std::string& life, const std::string& settings = "", int ranks = 2) {
    job_.start(ranks, HYMN_DUMP_JOB " " + life + " \"$0\"",
               "HYMN_DUMP=" + job_.word("dump") + " HYMN_TIMEOUT=60 " + settings);
  }
  /// The dump of a rank, once it is there; null if it does not come.
  Json dump_of(int rank) {
    const std::string name = "dump" + std::to_string(rank);
    if (!job_.wait_for(name)) {
      ADD_FAILURE() << "there is no " << name;
      return {};
    }
    struct stat found{};
    EXPECT_EQ(stat((job_.folder() / name).c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777, 0600u) << name;
    Json dump = Json::parse(job_.read(name));
    expect_valid(dump, rank);
    return dump;
  }
  /// The two sums of rank 0, of which the second one has not completed.
  void expect_one_of_two(const Json& dump, const std::string& state) {
    ASSERT_EQ(dump["entries"].size(), 2u);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(dump["entries"][i]["collective_seq_id"], i + 1);
      EXPECT_EQ(dump["entries"][i]["op"], "all_reduce");
      EXPECT_EQ(dump["entries"][i]["input_sizes"], Json::array({{3, 4}}));
    }
    EXPECT_EQ(dump["entries"][0]["state"], "completed");
    EXPECT_EQ(dump["entries"][1]["state"], state);
  }
  void expect_first_alone(const Json& dump) {
    ASSERT_EQ(dump["entries"].size(), 1u);
    EXPECT_EQ(dump["entries"][0]["collective_seq_id"], 1);
    EXPECT_EQ(dump["entries"][0]["state"], "completed");
  }
  void write_to_pipe(int rank) {
    const std::string pipe = "dump" + std::to_string(rank) + ".pipe";
    ASSERT_TRUE(job_.wait_for(pipe));
    job_.write(pipe, "1\n");
  }
  void end_well(int ranks = 2) {
    job_.write("go", "1");
    const std::string output = job_.output();
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(job_.status(rank), 0) << output;
  }
  /// What `hymn trace` says of all dumps.
  void expect_verdict(int exit_code, const std::vector<std::string>& words) {
    const auto trace = run_shell(HYMN_COMMAND " trace " + job_.word("dump") + " 2>&1");
    EXPECT_EQ(trace.exit_code, exit_code) << trace.output;
    for (const std::string& word : words) EXPECT_THAT(trace.output, HasSubstr(word));
  }
  int pid_of(int rank) {
    const std::string name = "pid" + std::to_string(rank);
    EXPECT_TRUE(job_.wait_for(name));
    return std::atoi(job_.read(name).c_str());
  }

  Job job_;
};

// --- On request

TEST_F(Dump, test_dump_pipe) {
  start("finished");
  ASSERT_TRUE(job_.wait_for("ready0"));
  ASSERT_TRUE(job_.wait_for("ready1"));
  write_to_pipe(0);
  const Json dump = dump_of(0);
  EXPECT_EQ(dump["trigger"], "pipe");
  EXPECT_EQ(dump["entries"].size(), 2u);
  EXPECT_THAT(dump.dump(), HasSubstr("all_reduce"));
  EXPECT_FALSE(job_.has("dump1"));
  // As often as one likes.
  std::filesystem::remove(job_.folder() / "dump0");
  write_to_pipe(0);
  dump_of(0);
  write_to_pipe(1);
  dump_of(1);
  expect_verdict(0, {});
  end_well();
  EXPECT_FALSE(job_.has("dump0.pipe"));
}

TEST_F(Dump, ByACallOfOneRank) {
  start("asks", "", 3);
  for (int rank = 0; rank < 3; ++rank) {
    const Json dump = dump_of(rank);
    EXPECT_EQ(dump["trigger"], rank == 0 ? "call" : "request");
    EXPECT_THAT(dump["reason"].get<std::string>(), HasSubstr("the program wants to know"));
    expect_first_alone(dump);
  }
  expect_verdict(0, {});
  end_well(3);
}

TEST_F(Dump, OfARankThatIsEndingItsWorld) {
  start("ending");
  ASSERT_TRUE(job_.wait_for("ready1"));
  // It may not have come to its barrier yet.
  for (int tries = 0; tries < 100; ++tries) {
    std::filesystem::remove(job_.folder() / "dump0");
    write_to_pipe(0);
    if (dump_of(0)["entries"].size() == 2) break;
  }
  const Json dump = dump_of(0);
  ASSERT_EQ(dump["entries"].size(), 2u);
  EXPECT_EQ(dump["entries"][1]["op"], "barrier");
  EXPECT_EQ(dump["entries"][1]["state"], "scheduled");
  end_well();
}

TEST_F(Dump, OfARankThatWasStoppedAndContinued) {
  start("stopped");
  const int pid = pid_of(1);
  // By the test: one that stopped itself might do so when it is continued already.
  ASSERT_TRUE(job_.wait_for("ready1"));
  kill(pid, SIGSTOP);
  job_.write("go", "1");
  // Rank 0 has noticed that rank 1 is stopped, which is no failure.
  const auto peer_state = [&] {
    std::filesystem::remove(job_.folder() / "dump0");
    write_to_pipe(0);
    const Json dump = dump_of(0);
    return dump["peers"].empty() ? std::string("alive")
                                 : dump["peers"][0]["state"].get<std::string>();
  };
  std::string state;
  for (int tries = 0; tries < 60 && state != "stalled"; ++tries) {
    state = peer_state();
    std::this_thread::sleep_for(250ms);
  }
  EXPECT_EQ(state, "stalled");
  ASSERT_TRUE(job_.wait_for("dump1.pipe"));
  job_.write("dump1.pipe", "1\n");
  EXPECT_FALSE(job_.has("dump1"));
  kill(pid, SIGCONT);
  const std::string output = job_.output();
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(job_.status(rank), 0) << output;
}

// --- On failures

TEST_F(Dump, test_timeout_dumps) {
  // The limit is that of the making of the world, too, and of the first sum.
  start("left_alone", "HYMN_ON_FAILURE=tear_down HYMN_TIMEOUT=10");
  const std::string output = job_.output();
  EXPECT_EQ(job_.status(0), ended_by_abort) << output;
  EXPECT_EQ(job_.status(1), 0) << output;
  expect_one_of_two(dump_of(0), "scheduled");
  EXPECT_FALSE(job_.has("dump1"));
  expect_verdict(1, {"rank 1", "all_reduce #2", "left"});
}

TEST_F(Dump, test_timeout_dumps_with_times) {
  start("timed", "HYMN_ON_FAILURE=tear_down HYMN_TIMEOUT=10");
  const std::string output = job_.output();
  EXPECT_EQ(job_.status(0), ended_by_abort) << output;
  EXPECT_EQ(job_.status(1), 0) << output;
  const Json dump = dump_of(0);
  expect_one_of_two(dump, "started");
  EXPECT_TRUE(dump["timing"].get<bool>());
  EXPECT_GE(dump["entries"][0]["duration_ms"].get<double>(), 0);
  EXPECT_FALSE(job_.has("dump1"));
}

TEST_F(Dump, test_timeout_dumps_on_stuck_ranks) {
  start("asleep", "HYMN_ON_FAILURE=tear_down HYMN_TIMEOUT=10");
  const std::string output = job_.output();
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(job_.status(rank), ended_by_abort) << output;
  const Json dump = dump_of(0);
  EXPECT_EQ(dump["trigger"], "timeout");
  expect_one_of_two(dump, "scheduled");
  expect_first_alone(dump_of(1));
  EXPECT_THAT(output, HasSubstr("HYMN_ON_FAILURE=tear_down"));
  expect_verdict(1, {"missing: rank 1", "never entered all_reduce #2"});
}

TEST_F(Dump, test_nccl_errors_dump) {
  start("exits", "HYMN_ON_FAILURE=tear_down HYMN_TIMEOUT=10");
  const std::string output = job_.output();
  EXPECT_EQ(job_.status(0), ended_by_abort) << output;
  EXPECT_EQ(job_.status(1), 1) << output;
  EXPECT_THAT(output, HasSubstr("exited with status 1"));
  const Json dump = dump_of(0);
  // Its own call may give the group up before the thread that has heard of the death comes to it.
  EXPECT_THAT(dump["trigger"].get<std::string>(), AnyOf("death", "abort"));
  EXPECT_THAT(dump["reason"].get<std::string>(), ContainsRegex("rank 1 \\(.*\\) is dead"));
  expect_first_alone(dump_of(1));
  expect_verdict(1, {"death", "rank 1", "exited with status 1"});
}

TEST_F(Dump, OnAnExitThatIsOnlyReported) {
  start("exits", "HYMN_ON_FAILURE=report HYMN_TIMEOUT=10");
  const std::string output = job_.output();
  EXPECT_EQ(job_.status(0), 3) << output;
  EXPECT_THAT(output, HasSubstr("exited with status 1"));
  dump_of(0);
}

TEST_F(Dump, OfAKilledRankByAnother) {
  start("killed", "", 3);
  const std::string output = job_.output();
  EXPECT_EQ(job_.status(1), 128 + SIGKILL) << output;
  EXPECT_EQ(job_.status(0), 3) << output;
  EXPECT_EQ(job_.status(2), 3) << output;
  const Json dead = dump_of(1);
  EXPECT_EQ(dead["trigger"], "death");
  // By the lowest that is left: rank 0 may be gone when rank 2 hears of it.
  EXPECT_THAT(dead["written_by"].get<int>(), AnyOf(0, 2));
  expect_first_alone(dead);
  for (const int rank : {0, 2}) {
    const Json dump = dump_of(rank);
    EXPECT_EQ(dump.value("written_by", rank), rank);
    // Whichever comes first: the death, that the group is given up for it, or the other's request.
    const auto trigger = dump["trigger"].get<std::string>();
    EXPECT_THAT(trigger, AnyOf("death", "abort", "request"));
    EXPECT_THAT(dump["reason"].get<std::string>(), ContainsRegex("rank 1 \\(.*\\) is dead"));
    if (trigger != "death") continue;
    const Json& peers = dump["peers"];
    EXPECT_TRUE(std::any_of(peers.begin(), peers.end(), [](const Json& peer) {
      return peer["rank"] == 1 && peer["state"] == "dead";
    })) << peers;
  }
  expect_verdict(1, {"death", "rank 1"});
}

}  // namespace
}  // namespace hymn::test
