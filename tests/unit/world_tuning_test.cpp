// Which table of measured costs a world uses: rank 0's, if it fits the machines; the same on all
// ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "base/log.hpp"
#include "collectives/planner/tuning_table.hpp"
#include "hymn/hymn.hpp"
#include "runtime/world/thread_world.hpp"
#include "runtime/world/tuning_library.hpp"
#include "runtime/world/world_state.hpp"
#include "tests/support/machines.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TuningTable table_for(const Machine& machine) {
  TuningTable table;
  table.machine = fingerprint(machine);
  table.measured = "2026-01-02";
  table.library = tuning_library();
  table.rows.push_back({.path = "exchange",
                        .algorithm = "all_reduce_pairwise",
                        .ranks = 3,
                        .hosts = 2,
                        .points = {{8, 1e-6}, {1024, 2e-6}}});
  return table;
}

class WorldTuning : public ::testing::Test {
 protected:
  WorldTuning() {
    const auto box = share_box({});
    for (const char* host : {"a", "b", "b"}) ranks_.push_back({host, box, box->cpus});
    ranks_[0].config.tuning = file_;
    previous_ = set_log_sink([this](LogLevel, int rank, std::string_view text) {
      std::lock_guard lock(mutex_);
      warnings_.push_back(std::to_string(rank) + ": " + std::string(text));
    });
  }
  ~WorldTuning() override {
    set_log_sink(std::move(previous_));
    std::filesystem::remove(file_);
  }

  void write(const std::string& text) const { std::ofstream(file_) << text; }
  const Machine& machine() const { return *ranks_[0].machine; }

  /// The tables of all ranks, null where they have none.
  std::vector<std::shared_ptr<const TuningTable>> tables() {
    std::vector<std::shared_ptr<const TuningTable>> found(ranks_.size());
    run_pretended_ranks(ranks_, [&](World& world) {
      found[static_cast<std::size_t>(world.rank())] = detail::WorldState::of(world).tuning();
    });
    return found;
  }
  void expect_none() {
    for (const auto& table : tables()) EXPECT_EQ(table, nullptr);
  }

  // A name of its own for each test: what is wrong with a file is told once in a process.
  const std::string file_ = ::testing::TempDir() + "hymn-" + std::to_string(::getpid()) + "-" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                            ".json";
  std::vector<PretendedRank> ranks_;
  std::vector<std::string> warnings_;

 private:
  std::mutex mutex_;
  LogSink previous_;
};

TEST_F(WorldTuning, RankZerosTableReachesAll) {
  const TuningTable table = table_for(machine());
  write(table.to_json());
  for (const auto& found : tables()) {
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(*found, table);
  }
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(WorldTuning, ItsTimesAreExplained) {
  TuningTable table = table_for(machine());
  table.rows[0].points = {{8, 1e-6}};
  write(table.to_json());
  run_pretended_ranks(ranks_, [](World& world) {
    std::array<float, 2> values{};
    const Explanation why = world.group().explain(Request::all_reduce(values, values));
    bool told = false;
    for (const Candidate& candidate : why.candidates)
      told = told || (candidate.path == "exchange" && candidate.predicted_us == 1 &&
                      candidate.cost_source == "tuned on 2026-01-02");
    EXPECT_TRUE(told);
  });
}

TEST_F(WorldTuning, DamagedTablesAreIgnoredWithOneWarning) {
  write("{ this is no JSON");
  expect_none();
  expect_none();
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("0: "));
  EXPECT_THAT(warnings_[0], HasSubstr(file_));
  EXPECT_THAT(warnings_[0], HasSubstr("ignored"));
}

TEST_F(WorldTuning, TablesOfOtherMachinesAreIgnored) {
  write(table_for(make_box({.cores = 7})).to_json());
  expect_none();
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("another kind of machine"));
}

TEST_F(WorldTuning, ATableMustFitAllHosts) {
  write(table_for(machine()).to_json());
  ranks_[2].machine = share_box({.cores = 7});
  ranks_[1].machine = ranks_[2].machine;
  expect_none();
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(WorldTuning, StaleTablesAreIgnored) {
  TuningTable table = table_for(machine());
  table.library = "hymn 0.0.1, some MPI";
  write(table.to_json());
  expect_none();
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("stale"));
}

TEST_F(WorldTuning, AFileThatIsNamedMustBeThere) {
  expect_none();
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("HYMN_TUNING names " + file_));
}

TEST_F(WorldTuning, OffIsOff) {
  write("{ this is no JSON");
  ranks_[0].config.tuning = "off";
  expect_none();
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace hymn::test
