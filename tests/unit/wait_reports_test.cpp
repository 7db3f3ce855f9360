#include "runtime/world/wait_reports.hpp"

#include <gtest/gtest.h>

#include <array>

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

CallRecord call_of(std::uint64_t record_id, std::uint64_t sequence,
                   OpType type = OpType::all_reduce) {
  CallRecord call;
  call.record_id = record_id;
  call.group_uid = 7;
  call.sequence = sequence;
  call.type = type;
  return call;
}

constexpr TimePoint start{};

std::vector<std::uint64_t> ids_of(const std::vector<CallRecord>& calls) {
  std::vector<std::uint64_t> ids;
  for (const CallRecord& call : calls) ids.push_back(call.record_id);
  return ids;
}

TEST(WaitReports, TellOfEachLongWaitOnce) {
  WaitReports reports(30s);
  const std::array calls{call_of(4, 1)};
  EXPECT_TRUE(reports.grown_long(calls, start).empty());
  EXPECT_TRUE(reports.grown_long(calls, start + 29s).empty());
  EXPECT_EQ(ids_of(reports.grown_long(calls, start + 30s)), (std::vector<std::uint64_t>{4}));
  EXPECT_EQ(reports.waited(calls[0]), 30s);
  EXPECT_TRUE(reports.grown_long(calls, start + 31s).empty());
  EXPECT_TRUE(reports.grown_long(calls, start + 10h).empty());
  EXPECT_EQ(reports.waited(calls[0]), 10h);
}

TEST(WaitReports, CountEachWaitFromItsOwnBeginning) {
  WaitReports reports(30s);
  const std::array both{call_of(4, 1), call_of(5, 2)};
  reports.grown_long(std::span(both).first(1), start);
  EXPECT_TRUE(reports.grown_long(both, start + 20s).empty());
  EXPECT_EQ(ids_of(reports.grown_long(both, start + 30s)), (std::vector<std::uint64_t>{4}));
  EXPECT_EQ(ids_of(reports.grown_long(both, start + 50s)), (std::vector<std::uint64_t>{5}));
  // The first one is over: what it was is forgotten.
  reports.grown_long(std::span(both).last(1), start + 51s);
  EXPECT_EQ(reports.waited(both[0]), std::nullopt);
  EXPECT_TRUE(reports.grown_long(both, start + 52s).empty());
}

TEST(WaitReports, KnowWhichCollectivesTheyWillTellOf) {
  WaitReports reports(30s);
  const std::array calls{call_of(4, 1), call_of(5, 3, OpType::send)};
  reports.grown_long(calls, start);
  EXPECT_FALSE(reports.will_tell(7, 1));
  reports.grown_long(calls, start + 15s);
  EXPECT_TRUE(reports.will_tell(7, 1));
  EXPECT_FALSE(reports.will_tell(7, 2));
  EXPECT_FALSE(reports.will_tell(8, 1));
  EXPECT_FALSE(reports.will_tell(7, 3)) << "it is a message";
}

TEST(WaitReports, SayNothingWhereTheyAreOff) {
  WaitReports reports(Timeout::none());
  EXPECT_FALSE(reports.is_on());
  const std::array calls{call_of(4, 1)};
  reports.grown_long(calls, start);
  EXPECT_TRUE(reports.grown_long(calls, start + 1000h).empty());
}

}  // namespace
}  // namespace hymn::test
