// Measured costs: their text, their file, and what is read out of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "collectives/planner/tuning_table.hpp"
#include "hymn/error.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

TuningTable some_table() {
  TuningTable table;
  table.machine = "0123456789abcdef";
  table.measured = "2026-11-21";
  table.library = "hymn 0.1.0, an \"MPI\"";
  table.rows.push_back({"mpi",
                        "all_reduce_mpi",
                        OpType::all_reduce,
                        DataType::float32,
                        4,
                        1,
                        {{8, 1e-6}, {1024, 2e-6}, {2048, 3e-6}}});
  table.rows.push_back(
      {"mpi_p2p", "broadcast_pairwise", OpType::broadcast, DataType::uint8, 4, 2, {{0, 2.5e-7}}});
  return table;
}

std::string problem_of(const std::string& json) {
  try {
    TuningTable::parse(json, "some.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing is thrown";
}

/// The table's text with one thing in it replaced.
std::string altered(const std::string& what, const std::string& by) {
  std::string text = some_table().to_json();
  const std::size_t found = text.find(what);
  EXPECT_NE(found, std::string::npos) << what << " is not in " << text;
  return text.replace(found, what.size(), by);
}

TEST(TuningTable, ComesBackAsItWas) {
  const TuningTable table = some_table();
  EXPECT_EQ(TuningTable::parse(table.to_json(), "here"), table);
  EXPECT_EQ(TuningTable::parse(TuningTable{}.to_json(), "here"), TuningTable{});
}

TEST(TuningTable, KnowsTheTimeOfWhatMovesNothing) {
  TuningTable table;
  table.rows.push_back(
      {"shm", "barrier_flags", OpType::barrier, DataType::uint8, 2, 1, {{0, 3e-7}}});
  EXPECT_EQ(table.seconds("shm", "barrier_flags", OpType::barrier, DataType::uint8, 2, 1, 0,
                          MemoryKind::host),
            3e-7);
}

TEST(TuningTable, RefusesWhatItCannotUse) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"\"hymn_tuning\": 1", "\"hymn_tuning\": 2", "hymn_tuning: expected a whole number from 1"},
      {"\"hymn_tuning\": 1", "\"tuning\": 1", "a field \"hymn_tuning\""},
      {"\"rows\": [", "\"rows\": 3, \"x\": [", "rows: expected a list"},
      {"\"ranks\":4", "\"ranks\":-4", "rows[0].ranks"},
      {"\"ranks\":4", "\"ranks\":4.5", "rows[0].ranks"},
      {"\"ranks\":4", "\"ranks\":99999999999999999999", "rows[0].ranks"},
      {"\"hosts\":1", "\"hosts\":5", "rows[0].hosts: expected a whole number from 1 to 4"},
      {"\"float32\"", "\"float33\"", "rows[0].dtype"},
      {"\"float32\"", "\"opaque\"", "rows[0].dtype"},
      {"\"all_reduce\"", "\"send\"", "rows[0].collective"},
      {"\"all_reduce_mpi\"", "\"broadcast_mpi\"", "rows[0].algorithm"},
      {"[8,1e-06]", "[8,-1e-06]", "rows[0].points[0][1]"},
      {"[8,1e-06]", "[8,0]", "rows[0].points[0][1]"},
      {"[8,1e-06]", "[8,1e99]", "rows[0].points[0][1]"},
      {"[8,1e-06]", "[8,1e999]", "not JSON"},
      {"[8,1e-06]", "[8,null]", "rows[0].points[0][1]"},
      {"[8,1e-06]", "[8]", "rows[0].points[0]"},
      {"[8,1e-06]", "[1024,1e-06]", "ascending"},
      {"[[0,2.5e-07]]", "[]", "rows[1].points: expected a list of 1 to"},
      {"{\n", "[\n", "not JSON"},
  };
  for (const auto& [what, by, expected] : cases) {
    const std::string problem = problem_of(altered(what, by));
    EXPECT_THAT(problem, HasSubstr(expected)) << by;
    EXPECT_THAT(problem, HasSubstr("some.json"));
    EXPECT_THAT(problem, HasSubstr("hymn tune"));
  }
  EXPECT_THAT(problem_of(""), HasSubstr("not JSON"));
  EXPECT_THAT(problem_of("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(problem_of(std::string((1u << 20) + 1, ' ')), HasSubstr("longer than"));
  EXPECT_THAT(problem_of(std::string(1u << 19, '[')), HasSubstr("not JSON"));
}

TEST(TuningTable, TellsTheMemoryOfGpusFromTheHosts) {
  TuningTable table = some_table();
  EXPECT_THAT(table.to_json(), Not(HasSubstr("memory")));
  table.rows.push_back(table.rows.front());
  table.rows.back().memory = MemoryKind::device;
  table.rows.back().points = {{8, 5e-6}};
  EXPECT_THAT(table.to_json(), HasSubstr("\"memory\":\"device\""));
  EXPECT_EQ(TuningTable::parse(table.to_json(), "here"), table);
  const auto seconds = [&table](MemoryKind memory) {
    return table.seconds("mpi", "all_reduce_mpi", OpType::all_reduce, DataType::float32, 4, 1, 8,
                         memory);
  };
  EXPECT_EQ(seconds(MemoryKind::host), 1e-6);
  EXPECT_EQ(seconds(MemoryKind::device), 5e-6);
  EXPECT_TRUE(TuningTable::parse(altered("\"hosts\":1", "\"hosts\":1,\"memory\":\"host\""),
                                 "here") == some_table());
  for (const char* memory : {"\"pinned\"", "\"\"", "1", "null"})
    EXPECT_THAT(problem_of(altered("\"hosts\":1", std::string("\"hosts\":1,\"memory\":") + memory)),
                HasSubstr("rows[0].memory: expected "));
}

TEST(TuningTable, RefusesTheSameRowTwice) {
  TuningTable table = some_table();
  table.rows.push_back(table.rows.front());
  EXPECT_THAT(problem_of(table.to_json()), HasSubstr("rows[2]: expected each algorithm once"));
}

TEST(TuningTable, InterpolatesBetweenSizes) {
  const TuningTable table = some_table();
  const auto microseconds = [&](std::size_t bytes) {
    return 1e6 *
           table
               .seconds("mpi", "all_reduce_mpi", OpType::all_reduce, DataType::float32, 4, 1, bytes)
               .value();
  };
  EXPECT_NEAR(microseconds(8), 1, 1e-9);
  EXPECT_NEAR(microseconds(1), 1, 1e-9);
  EXPECT_NEAR(microseconds(516), 1.5, 1e-9);
  EXPECT_NEAR(microseconds(1024), 2, 1e-9);
  EXPECT_NEAR(microseconds(2048), 3, 1e-9);
  EXPECT_NEAR(microseconds(4096), 5, 1e-9);
}

TEST(TuningTable, LongerMessagesNeverBecomeFaster) {
  TuningTable table = some_table();
  table.rows[0].points = {{8, 3e-6}, {16, 2e-6}};
  EXPECT_EQ(table.seconds("mpi", "all_reduce_mpi", OpType::all_reduce, DataType::float32, 4, 1,
                          std::size_t{1} << 40),
            2e-6);
}

TEST(TuningTable, AnswersOnlyForWhatWasMeasured) {
  const TuningTable table = some_table();
  const auto all_reduce = [&](std::string_view path, DataType dtype, int ranks, int hosts) {
    return table.seconds(path, "all_reduce_mpi", OpType::all_reduce, dtype, ranks, hosts, 8)
        .has_value();
  };
  EXPECT_TRUE(all_reduce("mpi", DataType::float32, 4, 1));
  EXPECT_FALSE(all_reduce("exchange", DataType::float32, 4, 1));
  EXPECT_FALSE(all_reduce("mpi", DataType::float64, 4, 1));
  EXPECT_FALSE(all_reduce("mpi", DataType::float32, 3, 1));
  EXPECT_FALSE(all_reduce("mpi", DataType::float32, 4, 2));
  // Moving does not depend on the type.
  EXPECT_TRUE(table.seconds("mpi_p2p", "broadcast_pairwise", OpType::broadcast, DataType::float64,
                            4, 2, 8));
}

TEST(TuningChoice, TakesOnlyWhatFitsMachineAndLibrary) {
  const TuningTable table = some_table();
  const auto problem = [&](const std::string& text, const std::vector<std::string>& machines,
                           const std::string& library) {
    const TuningChoice choice = choose_tuning(text, "some.json", machines, library);
    EXPECT_EQ(choice.table == nullptr, !choice.problem.empty());
    return choice.problem;
  };
  const std::string good = table.to_json();
  EXPECT_EQ(problem(good, {table.machine, table.machine}, table.library), "");
  EXPECT_THAT(problem(good, {table.machine, "ffff"}, table.library),
              HasSubstr("another kind of machine"));
  EXPECT_THAT(problem(good, {table.machine}, "hymn 0.2.0"), HasSubstr("stale"));
  EXPECT_THAT(problem("{", {table.machine}, table.library), HasSubstr("not JSON"));
  const TuningChoice none = choose_tuning(std::nullopt, "some.json", {}, "");
  EXPECT_EQ(none.table, nullptr);
  EXPECT_EQ(none.problem, "");
}

class TuningFile : public ::testing::Test {
 protected:
  TuningFile() : folder_(fs::path(::testing::TempDir()) / ("hymn-tuning-" + unique())) {
    fs::create_directories(folder_);
  }
  ~TuningFile() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

 private:
  static std::string unique() { return std::to_string(::getpid()); }
  fs::path folder_;
};

TEST_F(TuningFile, IsWrittenWholeAndReplaced) {
  TuningTable table = some_table();
  write_tuning_file(table, path("new/folder/table.json"));
  table.measured = "2027-01-01";
  write_tuning_file(table, path("new/folder/table.json"));
  const auto text = read_tuning_text(path("new/folder/table.json"));
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(TuningTable::parse(*text, "here"), table);
  EXPECT_EQ(std::distance(fs::directory_iterator(path("new/folder")), {}), 1);
}

TEST_F(TuningFile, LeavesNothingBehindWhenItCannotBeWritten) {
  fs::create_directory(path("taken"));
  std::ofstream(path("taken/file")) << "in the way";
  EXPECT_THROW(write_tuning_file(some_table(), path("taken")), ResourceError);
  EXPECT_THROW(write_tuning_file(some_table(), path("taken/file/table.json")), ResourceError);
  EXPECT_EQ(files(), 1u);
}

TEST_F(TuningFile, ThatIsNotThereIsNoError) {
  EXPECT_EQ(read_tuning_text(path("none.json")), std::nullopt);
  EXPECT_EQ(read_tuning_text(path("none/none.json")), std::nullopt);
}

TEST_F(TuningFile, ThatCannotBeReadIs) {
  EXPECT_THROW(read_tuning_text(path(".")), ConfigError);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THROW(read_tuning_text(path("pipe")), ConfigError);
  std::ofstream(path("long")) << std::string((1u << 20) + 1, ' ');
  EXPECT_THROW(read_tuning_text(path("long")), ConfigError);
}

TEST_F(TuningFile, LiesInTheUsersCache) {
  ::setenv("XDG_CACHE_HOME", "/some/cache", 1);
  EXPECT_EQ(tuning_file_for("0123"), "/some/cache/hymn/tuning-0123.json");
  // The specification has relative paths ignored.
  ::setenv("XDG_CACHE_HOME", "cache", 1);
  ::setenv("HOME", "/home/somebody", 1);
  EXPECT_EQ(tuning_file_for("0123"), "/home/somebody/.cache/hymn/tuning-0123.json");
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(tuning_file_for("0123"), "");
}

}  // namespace
}  // namespace hymn::test
