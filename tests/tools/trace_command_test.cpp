// `hymn trace` as a user meets it: run as a program, judged by its output and exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/shell.hpp"
#include "tests/tools/dump_maker.hpp"

namespace hymn::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Json = nlohmann::json;
namespace fs = std::filesystem;

class TraceCommand : public testing::Test {
 protected:
  TraceCommand()
      : folder_(testing::TempDir() + "trace_command_" +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~TraceCommand() override { fs::remove_all(folder_); }

  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::vector<DumpMaker>& makers, const std::string& base = "dump") const {
    for (const DumpMaker& maker : makers)
      std::ofstream(at(base + maker.json()["rank"].dump())) << maker.text();
  }
  std::string content(const std::string& name) const {
    std::ifstream file(at(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// In the folder, so that names can be short.
  ShellOutcome trace(const std::string& arguments) const {
    return run_shell("cd '" + folder_ + "' && " HYMN_COMMAND " trace " + arguments + " 2>&1");
  }

  std::string folder_;
};

std::vector<DumpMaker> healthy() {
  std::vector<DumpMaker> makers = make_dumps(2);
  for (DumpMaker& maker : makers) maker.calls(3, "0", {}).with("trigger", "call");
  return makers;
}

std::vector<DumpMaker> hanging() {
  std::vector<DumpMaker> makers = healthy();
  makers[0].call("0", open_call());
  return makers;
}

TEST_F(TraceCommand, TellsAFaultByItsExitCode) {
  write(hanging());
  for (const char* names : {".", "dump", "dump0 dump1", "./dump"}) {
    const ShellOutcome outcome = trace(names);
    EXPECT_EQ(outcome.exit_code, 1) << names;
    EXPECT_THAT(outcome.output,
                StartsWith("1. missing: rank 1 (nodeA, pid 4712) never entered all_reduce #4 of "
                           "group 'default_pg'\n"))
        << names;
  }
}

TEST_F(TraceCommand, FindsNoFaultInAHealthyJob) {
  write(healthy());
  const ShellOutcome outcome = trace(".");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, StartsWith("no fault found\n"));
  EXPECT_THAT(outcome.output, HasSubstr("dumps of 2 of 2 ranks of solver (job 9f3c), 1 host"));
}

TEST_F(TraceCommand, PrintsJson) {
  write(hanging());
  const ShellOutcome outcome = trace("dump --json");
  EXPECT_EQ(outcome.exit_code, 1);
  const Json json = Json::parse(outcome.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << outcome.output;
  EXPECT_EQ(json["verdict"], "fault");
  EXPECT_EQ(json["dumps"][0]["file"], "dump0");
}

TEST_F(TraceCommand, WritesPictures) {
  write(hanging());
  const ShellOutcome outcome = trace("dump --svg t.svg --perfetto t.json --last 1");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("in flight 0; not entered 1"));
  EXPECT_THAT(outcome.output, HasSubstr("#3  all_reduce"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("#2  all_reduce")));
  EXPECT_THAT(content("t.svg"), HasSubstr("</svg>"));
  EXPECT_TRUE(Json::parse(content("t.json"), nullptr, false).contains("traceEvents"));
  EXPECT_THAT(trace("dump --svg -").output, StartsWith("<?xml"));
  EXPECT_THAT(trace("dump --perfetto -").output, StartsWith("{"));
}

TEST_F(TraceCommand, ReadsWhatIsLeftOfADamagedFile) {
  std::vector<DumpMaker> makers = hanging();
  write(makers);
  std::ofstream(at("dump1")) << R"({"version":"1.0","rank":1,"world_size":2,"job":"9f3c","pg_con)";
  const ShellOutcome outcome = trace("dump");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("rank 1 may be missing from all_reduce #4"));
  EXPECT_THAT(outcome.output, HasSubstr("note: dump1 is not used: it is damaged, or not a dump"));
}

TEST_F(TraceCommand, ChoosesAmongJobs) {
  write(healthy());
  std::vector<DumpMaker> others = hanging();
  for (DumpMaker& maker : others) maker.with("job", "77aa");
  write(others, "other");
  const ShellOutcome outcome = trace(".");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("job 77aa of 2 ranks (--job 77aa:2): ./other0, ./other1"));
  EXPECT_EQ(trace(". --job 9f3c").exit_code, 0);
  EXPECT_EQ(trace(". --job 77").exit_code, 1);
}

TEST_F(TraceCommand, PipesAreNotOpened) {
  write(healthy());
  ASSERT_EQ(::mkfifo(at("dump7").c_str(), 0600), 0);
  EXPECT_EQ(trace(".").exit_code, 0);
  EXPECT_EQ(trace("dump").exit_code, 0);
}

TEST_F(TraceCommand, RefusesBadArguments) {
  write(healthy());
  std::ofstream(at("text")) << "no dump";
  fs::create_directories(at("empty"));
  for (const auto& [arguments, expected] : std::vector<std::pair<std::string, std::string>>{
           {"", "dumps"},
           {"nothing", "no such file or folder"},
           {"empty", "there are no dumps in"},
           {"text", "none of the files is a dump"},
           {". --job ffff", "no dump is of job ffff"},
           {". --last 0", "--last"},
           {". --json --svg -", "only one of"},
           {". --json --last 3", "--last"},
           {". --svg /nowhere/at/all.svg", "/nowhere/at/all.svg"},
           {". --perfetto empty", "empty"},
           {". --picture", "picture"}}) {
    const ShellOutcome outcome = trace(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(expected)) << arguments;
  }
}

}  // namespace
}  // namespace hymn::test
