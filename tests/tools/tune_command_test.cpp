// `hymn tune`, and what runs make of its table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/support/shell.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

const std::string command = HYMN_COMMAND;

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++found;
  return found;
}

/// With a cache of its own.
class HymnTune : public ::testing::Test {
 protected:
  HymnTune()
      : cache_(fs::path(::testing::TempDir()) / ("hymn-tune-" + std::to_string(::getpid()))) {
    fs::remove_all(cache_);
    fs::create_directories(cache_);
  }
  ~HymnTune() override { fs::remove_all(cache_); }

  ShellOutcome run(const std::string& line) const {
    // Other tests have it switched off. What is counted here is in host memory.
    return run_shell("unset HYMN_TUNING; export HYMN_GPU=none; XDG_CACHE_HOME='" + cache_.string() +
                     "' " + line);
  }
  ShellOutcome on_2_ranks(const std::string& arguments) const {
    return run(HYMN_MPIRUN " -n 2 " + command + " " + arguments + " 2>&1");
  }
  /// The one file that lies in the cache.
  fs::path file() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(cache_))
      if (entry.is_regular_file()) files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? cache_ : files.front();
  }
  static Json read(const fs::path& path) {
    std::ifstream in(path);
    return Json::parse(in, nullptr, false);
  }
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }
  /// How `hymn bench` takes 64 bytes of all_reduce on 2 ranks, with its messages.
  ShellOutcome bench() const {
    return on_2_ranks("bench all_reduce --min 64 --max 64 --iters 2 --in-place --csv -");
  }
  Json info() const {
    return Json::parse(run(command + " info --json").output, nullptr, false)["tuning"];
  }

  fs::path cache_;
};

const std::string quick = "tune --quick --min 64 --max 1K --collectives ";

TEST_F(HymnTune, WritesATableThatRunsTakeUp) {
  const ShellOutcome outcome = on_2_ranks(quick + "all_reduce,barrier");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("measuring all_reduce (1 of 2)"));
  EXPECT_THAT(outcome.output, HasSubstr("written to " + file().string()));
  Json table = read(file());
  ASSERT_TRUE(table.is_object());
  // Eight ways of all_reduce between two members, five of a barrier.
  ASSERT_EQ(table["rows"].size(), 13u) << table.dump();
  for (const Json& row : table["rows"]) {
    EXPECT_EQ(row["ranks"], 2);
    EXPECT_EQ(row["points"].size(), row["collective"] == "barrier" ? 1u : 2u);
  }
  const Json in_effect = info();
  EXPECT_EQ(in_effect["in_effect"], true);
  EXPECT_EQ(in_effect["rows"], 13);
  EXPECT_EQ(in_effect["measured"], table["measured"]);
  EXPECT_THAT(run(command + " info").output, HasSubstr("measured on"));
  EXPECT_THAT(run(command + " explain all_reduce --ranks 2 --max 1K").output,
              HasSubstr("(tuned on " + table["measured"].get<std::string>()));

  // Each of the paths is taken when the table says that it is the fastest.
  for (const char* fastest : {"shm", "mpi", "mpi_p2p", "exchange"}) {
    for (Json& row : table["rows"])
      row["points"] = Json::array({Json::array({64, row["path"] == fastest ? 1e-6 : 1e-3})});
    write(file(), table.dump());
    EXPECT_THAT(bench().output, HasSubstr(std::string(",") + fastest + ",all_reduce_"));
  }
}

TEST_F(HymnTune, SaysWhereTheMemoryOfGpusCannotBeMeasured) {
  const std::string why =
      "device memory can be measured where every rank has a GPU, but rank(s) "
      "0, 1 of 2 have none";
  EXPECT_THAT(on_2_ranks(quick + "barrier").output,
              HasSubstr("hymn: only host memory is measured: " + why));
  EXPECT_THAT(on_2_ranks(quick + "barrier --memory host").output, Not(HasSubstr(why)));
  const ShellOutcome outcome = on_2_ranks(quick + "barrier --memory device");
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr(why));
  EXPECT_THAT(outcome.output, Not(HasSubstr("only host memory")));
}

TEST_F(HymnTune, KeepsWhatItDoesNotMeasureAnew) {
  ASSERT_EQ(on_2_ranks(quick + "all_reduce").exit_code, 0);
  ASSERT_EQ(on_2_ranks(quick + "barrier").exit_code, 0);
  EXPECT_THAT(on_2_ranks(quick + "barrier,barrier").output, HasSubstr("13 rows, 5 of them new"));
  EXPECT_EQ(read(file())["rows"].size(), 13u);
}

TEST_F(HymnTune, ReplacesATableThatCannotBeRead) {
  const fs::path path = cache_ / "long.json";
  write(path, std::string(2u << 20, ' '));
  const ShellOutcome outcome = on_2_ranks(quick + "barrier --output '" + path.string() + "'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("replacing it: "));
  EXPECT_EQ(read(path)["rows"].size(), 5u);
}

TEST_F(HymnTune, MeasuresThreadsToo) {
  const std::string output = (cache_ / "threads.json").string();
  const ShellOutcome outcome =
      run(command + " " + quick + "all_to_all --threads 3 --output '" + output + "' 2>&1");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const Json rows = read(output)["rows"];
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0]["path"], "threads");
  EXPECT_EQ(rows[0]["algorithm"], "all_to_all_direct");
  EXPECT_THAT(run("HYMN_TUNING='" + output + "' " + command +
                  " explain all_to_all --threads --ranks 3 --max 1K")
                  .output,
              HasSubstr("(tuned on "));
}

TEST_F(HymnTune, UnusableTablesAreToldOnceAndPassedOver) {
  ASSERT_EQ(on_2_ranks(quick + "all_reduce").exit_code, 0);
  const fs::path path = file();
  const Json good = read(path);
  Json foreign = good;
  foreign["machine"] = "0000000000000000";
  Json stale = good;
  stale["library"] = "hymn 0.0.1, another MPI";
  const std::vector<std::array<std::string, 2>> cases = {
      {"{", "not JSON"},
      {good.dump().substr(0, good.dump().size() / 2), "not JSON"},
      {foreign.dump(), "another kind of machine"},
      {stale.dump(), "stale"},
      {std::string(2u << 20, ' '), "longer than"},
  };
  for (const auto& [text, expected] : cases) {
    write(path, text);
    const ShellOutcome outcome = bench();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_EQ(count(outcome.output, expected), 1u) << expected << ": " << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(",shm,all_reduce_swapped"));
    EXPECT_EQ(info()["in_effect"], false);
    EXPECT_THAT(info()["problem"].get<std::string>(), HasSubstr(expected));
  }
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_EQ(count(bench().output, "cannot be read"), 1u);
  fs::remove(path);
  const std::string silent = bench().output;
  EXPECT_THAT(silent, Not(HasSubstr("tuning table")));
}

TEST_F(HymnTune, IsSwitchedOff) {
  write(cache_ / "broken.json", "{");
  const std::string file = "HYMN_TUNING='" + (cache_ / "broken.json").string() + "' ";
  EXPECT_THAT(run(file + command + " info").output, HasSubstr("not JSON"));
  EXPECT_THAT(run("HYMN_TUNING=off " + command + " info").output, HasSubstr("switched off"));
  EXPECT_THAT(run("HYMN_TUNING=/nowhere/table.json " + command + " info").output,
              HasSubstr("/nowhere/table.json is not there"));
}

TEST_F(HymnTune, RefusesBadArguments) {
  const std::vector<std::array<std::string, 2>> cases = {
      {"--collectives all_reduces", "unknown collective"},
      {"--collectives send_recv", "unknown collective"},
      {"--min 8 --max 4", "min <= max"},
      {"--dtype floating", "unknown dtype"},
      {"--memory tape", "unknown memory"},
      {"--op band", "band of float32"},
      {"--timeout soon", "'soon'"},
      {"--threads -1", "--threads"},
      {"--threads 1000000", "1 to 4096"},
      {"--min -8", "negative"},
  };
  for (const auto& [arguments, expected] : cases) {
    const ShellOutcome outcome = run(command + " tune " + arguments + " 2>&1");
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_THAT(outcome.output, HasSubstr(expected)) << arguments;
  }
}

TEST_F(HymnTune, FailsWhereItCannotWriteAndDoesNotMeasureFirst) {
  for (const std::string& path :
       {std::string("/proc/nowhere/table.json"), std::string("/dev/null"), cache_.string()}) {
    const ShellOutcome outcome = on_2_ranks(quick + "barrier --output " + path);
    EXPECT_EQ(outcome.exit_code, 1) << path;
    EXPECT_EQ(count(outcome.output, "the tuning table cannot be written to " + path), 1u)
        << outcome.output;
    EXPECT_THAT(outcome.output, Not(HasSubstr("measuring")));
  }
  EXPECT_TRUE(fs::is_empty(cache_));
}

TEST_F(HymnTune, InterruptedItLeavesNothing) {
  const ShellOutcome outcome = run("timeout --signal=INT 1 " + command + " tune --threads 2 2>&1");
  EXPECT_EQ(outcome.exit_code, 124) << outcome.output;
  for (const auto& entry : fs::recursive_directory_iterator(cache_))
    EXPECT_FALSE(entry.is_regular_file()) << entry.path();
}

}  // namespace
}  // namespace hymn::test
