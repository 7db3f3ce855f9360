// The recorder's memory: the lines of groups, the names of algorithms, and what a peer sees of it
// after its owner has died.
#include "recorder/recorder_memory.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <nlohmann/json.hpp>
#include <vector>

#include "hymn/error.hpp"
#include "recorder/flight_dump.hpp"
#include "recorder/making_note.hpp"
#include "recorder/rank_list.hpp"
#include "recorder/recorder_clock.hpp"

namespace hymn::test {
namespace {

using Json = nlohmann::json;

TEST(RecorderMemory, TellsWhoItIs) {
  const RecorderMemory memory({.rank = 3, .world_size = 7, .ring = {.entries = 20, .frames = 2}});
  const RecorderView view = memory.view();
  EXPECT_EQ(view.header().rank, 3);
  EXPECT_EQ(view.header().world_size, 7);
  EXPECT_EQ(view.header().pid, getpid());
  EXPECT_EQ(view.header().program.load(), "unit_runtime");
  EXPECT_TRUE(view.header().executable.load().ends_with("/unit_runtime"));
  EXPECT_EQ(view.capacity(), 20u);
  EXPECT_EQ(view.ring().frames(), 2u);
  EXPECT_TRUE(view.groups().empty());
  ASSERT_TRUE(memory.key());
  EXPECT_EQ(memory.key()->pid, static_cast<std::uint64_t>(getpid()));
}

TEST(RecorderMemory, GroupsHaveLinesWhileTheyLive) {
  RecorderMemory memory({.ring = {.entries = 4}});
  {
    const GroupLineLease first = memory.take_line(5, "first", std::array{0, 1, 2}, true);
    const GroupLineLease second =
        memory.take_line(6, std::string(100, 'x'), std::array{0, 4}, true);
    first->collectives.store(9);
    first->completed.store(8);
    first->p2ps.store(7);
    first->flags.store(GroupLine::aborted);
    const auto seen = memory.view().groups();
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].uid, 5u);
    EXPECT_EQ(seen[0].description, "first");
    EXPECT_EQ(seen[0].members, 3u);
    EXPECT_EQ(seen[0].ranks, (std::vector{0, 1, 2}));
    EXPECT_EQ(seen[1].ranks, (std::vector{0, 4}));
    EXPECT_EQ(seen[0].collectives, 9u);
    EXPECT_EQ(seen[0].completed, 8u);
    EXPECT_EQ(seen[0].p2ps, 7u);
    EXPECT_EQ(seen[0].timeout_ns, CallRecord::no_timeout);
    EXPECT_TRUE(seen[0].aborted);
    EXPECT_FALSE(seen[0].ended);
    EXPECT_EQ(seen[1].description, std::string(47, 'x'));
  }
}

// Members that are not as far yet must find how far it had come, when it ends its world next.
TEST(RecorderMemory, LinesTellOfTheEndUntilOtherGroupsNeedThem) {
  RecorderMemory memory({.ring = {.entries = 4}});
  const auto make = [&](std::uint64_t uid, std::uint64_t collectives) {
    memory.take_line(uid, "short", std::array{3}, true)->collectives.store(collectives);
  };
  const auto line_of = [&](std::uint64_t uid) {
    const auto seen = memory.view().groups();
    const auto found = std::ranges::find(seen, uid, &GroupLineSeen::uid);
    return found == seen.end() ? GroupLineSeen() : *found;
  };
  make(1, 9);
  EXPECT_TRUE(line_of(1).ended);
  EXPECT_EQ(line_of(1).collectives, 9u);
  for (std::uint64_t uid = 2; uid <= RecorderHeader::group_lines; ++uid) make(uid, uid);
  EXPECT_EQ(line_of(1).collectives, 9u);
  make(1000, 3);
  EXPECT_EQ(line_of(1).collectives, 0u) << "the oldest goes first";
  EXPECT_EQ(line_of(2).collectives, 2u);
  const GroupLineLease again = memory.take_line(1000, "again", std::array{3}, true);
  EXPECT_EQ(line_of(2).collectives, 2u) << "a group that has a line needs no other";
  EXPECT_FALSE(line_of(1000).ended);
  EXPECT_EQ(line_of(1000).collectives, 0u) << "of the group that had the line before";
  EXPECT_EQ(line_of(1000).description, "again");
}

TEST(RecorderMemory, TellsWhoHasCalledShrink) {
  RecorderMemory memory({.ring = {.entries = 4}});
  const GroupLineLease line = memory.take_line(1, "short", std::array{3}, true);
  EXPECT_FALSE(memory.view().groups().front().shrunk);
  line->flags.fetch_or(GroupLine::shrunk);
  EXPECT_TRUE(memory.view().groups().front().shrunk);
  EXPECT_FALSE(memory.view().groups().front().ended);
}

TEST(RecorderMemory, AFullTableGivesPrivateLines) {
  RecorderMemory memory({.ring = {.entries = 4}});
  std::vector<GroupLineLease> lines;
  for (std::uint64_t uid = 0; uid < RecorderHeader::group_lines + 3; ++uid)
    lines.push_back(memory.take_line(uid, "many", std::array{3}, true));
  EXPECT_EQ(memory.view().groups().size(), RecorderHeader::group_lines);
  lines.back()->collectives.store(1);
  EXPECT_EQ(lines.back().get()->collectives.load(), 1u);
  lines.erase(lines.begin());
  const GroupLineLease unseen = memory.take_line(1000, "outside", std::array{3}, false);
  EXPECT_EQ(memory.view().groups().size(), RecorderHeader::group_lines);
  EXPECT_TRUE(memory.view().groups().front().ended);
  const GroupLineLease again = memory.take_line(1001, "again", std::array{3}, true);
  EXPECT_EQ(memory.view().groups().front().uid, 1001u);
}

TEST(RecorderMemory, TellsOfTheGroupThatIsMade) {
  RecorderMemory memory({.ring = {.entries = 4}});
  EXPECT_FALSE(memory.view().making());
  memory.begin_making(5, std::array{0, 1, 2});
  memory.begin_making(6, std::array{0, 2});
  memory.end_making(5, true);  // another thread's
  ASSERT_TRUE(memory.view().making());
  EXPECT_EQ(memory.view().making()->uid, 6u);
  EXPECT_EQ(memory.view().making()->kind, MakingKind::new_group);
  EXPECT_EQ(unpack_ranks(memory.view().making()->ranks), (std::vector{0, 2}));
  EXPECT_EQ(memory.view().making()->given_up, 0u);
  memory.end_making(6, false);
  EXPECT_NE(memory.view().making()->given_up, 0u);
  memory.begin_making(7, std::array{0, 2});
  EXPECT_EQ(memory.view().making()->given_up, 0u);
  memory.end_making(7, true);
  EXPECT_FALSE(memory.view().making());
}

TEST(RecorderMemory, TellsOfAShrinkAroundTheGroupThatComesOfIt) {
  RecorderMemory memory({.ring = {.entries = 4}});
  {
    const std::array everybody = {0, 1, 2};
    MakingNote shrink(memory, 0, everybody, MakingKind::shrink);
    EXPECT_EQ(memory.view().making()->kind, MakingKind::shrink);
    const std::array left = {0, 2};
    MakingNote(memory, 9, left).set_made();
    EXPECT_FALSE(memory.view().making());
    shrink.begin();
    ASSERT_TRUE(memory.view().making());
    EXPECT_EQ(memory.view().making()->uid, 0u);
    EXPECT_EQ(unpack_ranks(memory.view().making()->ranks), (std::vector{0, 1, 2}));
    EXPECT_EQ(memory.view().making()->given_up, 0u);
  }
  EXPECT_NE(memory.view().making()->given_up, 0u);
}

TEST(RecorderMemory, AlgorithmsHaveNumbers) {
  RecorderMemory memory({.ring = {.entries = 4}});
  const std::uint16_t first = memory.method_number("shm", "one_shot");
  const std::uint16_t second = memory.method_number("mpi", "one_shot");
  EXPECT_NE(first, 0);
  EXPECT_NE(second, first);
  EXPECT_EQ(memory.method_number("shm", "one_shot"), first);
  EXPECT_EQ(memory.view().method(second).path, "mpi");
  EXPECT_EQ(memory.view().method(first).name, "one_shot");
  EXPECT_EQ(memory.view().method(0).name, "");
  EXPECT_EQ(memory.view().method(60000).name, "");
  for (int i = 0; i < 200; ++i) memory.method_number("mpi", "other_" + std::to_string(i));
  EXPECT_EQ(memory.method_number("mpi", "too many"), 0);
  EXPECT_EQ(memory.method_number("mpi", "one_shot"), second);
}

TEST(RecorderMemory, OtherMemoryIsRefused) {
  EXPECT_THROW(RecorderView({}), ResourceError);
  alignas(64) static std::array<std::byte, sizeof(RecorderHeader) + 4096> memory{};
  EXPECT_THROW(RecorderView{memory}, ResourceError);
  auto& header = *::new (static_cast<void*>(memory.data())) RecorderHeader();
  header.magic = RecorderHeader::right_magic;
  header.layout = RecorderHeader::right_layout;
  header.capacity = 16;
  EXPECT_NO_THROW(RecorderView{memory});
  header.capacity = 512;  // more than there is memory for
  EXPECT_THROW(RecorderView{memory}, ResourceError);
  header.capacity = ~std::uint64_t{0};
  EXPECT_THROW(RecorderView{memory}, ResourceError);
  header.capacity = 16;
  header.frames = std::uint64_t{1} << 60;
  EXPECT_THROW(RecorderView{memory}, ResourceError);
  header.frames = 0;
  header.layout = RecorderHeader::right_layout + 1;
  EXPECT_THROW(RecorderView{memory}, ResourceError);
}

TEST(StampClock, TellsTimes) {
  const StampClock clock({1000, 50'000, 7'000'000}, {3000, 54'000, 9'000'000});
  EXPECT_EQ(clock.wall_ns(3000), 9'000'000);
  EXPECT_EQ(clock.wall_ns(2000), 9'000'000 - 2000);
  EXPECT_EQ(clock.wall_ns(4000), 9'000'000 + 2000);
  EXPECT_EQ(clock.duration_ns(1500, 1600), 200);
  const ClockReading first = ClockReading::now();
  const ClockReading second = ClockReading::now();
  EXPECT_GT(second.stamp, first.stamp);
  EXPECT_GE(second.steady_ns, first.steady_ns);
}

/// A rank that records, tells where its memory is, and waits to be killed.
[[noreturn]] void live_and_wait(int to_parent) {
  RecorderMemory memory({.rank = 1, .world_size = 2, .ring = {.entries = 8}});
  memory.set_job(0xabc);
  const GroupLineLease line = memory.take_line(0, "default_pg", std::array{0, 1}, true);
  line->collectives.store(2);
  line->completed.store(1);
  CallRecord record;
  record.type = OpType::barrier;
  record.created = time_stamp();
  record.site = reinterpret_cast<std::uintptr_t>(&live_and_wait) + 1;
  for (const std::uint64_t number : {1u, 2u}) {
    record.op_id = record.sequence = number;
    const std::uint64_t id = memory.ring().record(record);
    if (number == 1) memory.ring().set_ended(id, CallState::completed, true);
  }
  Packer packer;
  memory.key()->pack(packer);
  const Bytes told = packer.packed();
  if (write(to_parent, told.data(), told.size()) < 0) _exit(1);
  while (true) pause();
}

TEST(RecorderMemory, IsReadAfterItsRankHasDied) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) live_and_wait(ends[1]);
  Bytes told(4096);
  const ssize_t got = read(ends[0], told.data(), told.size());
  ASSERT_GT(got, 0);
  told.resize(static_cast<std::size_t>(got));
  Unpacker unpacker(told);
  const PeerRecorder peer(MemoryKey::unpack(unpacker));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  close(ends[0]);
  close(ends[1]);

  DumpRequest request;
  request.written_by = 0;
  request.trigger = "death";
  request.groups.push_back({.membership = {{0, 1}, 0, 0, 0, ""},
                            .label = "default_pg",
                            .description = "default_pg",
                            .abort_reason = "rank 1 has died",
                            .line = {}});
  const Json dump = Json::parse(dump_json(peer.view(), request));
  EXPECT_EQ(dump["rank"], 1);
  EXPECT_EQ(dump["pid"], child);
  EXPECT_EQ(dump["written_by"], 0);
  EXPECT_EQ(dump["trigger"], "death");
  EXPECT_EQ(dump["job"], "0000000000000abc");
  EXPECT_EQ(dump["pg_config"]["0"]["collective_seq"], 2);
  EXPECT_EQ(dump["pg_config"]["0"]["completed_seq"], 1);
  EXPECT_EQ(dump["pg_config"]["0"]["ranks"], Json::array({0, 1}));
  EXPECT_FALSE(dump["pg_config"]["0"].contains("aborted")) << "the dead rank knew nothing of it";
  ASSERT_EQ(dump["entries"].size(), 2u);
  EXPECT_EQ(dump["entries"][0]["state"], "completed");
  EXPECT_EQ(dump["entries"][1]["state"], "scheduled");
  EXPECT_EQ(dump["entries"][1]["profiling_name"], "hymn:barrier");
  // Another process ran the same program elsewhere in memory; a fork ran it at the same place.
  EXPECT_NE(dump["entries"][0]["frames"].dump().find("live_and_wait"), std::string::npos)
      << dump["entries"][0]["frames"];
}

}  // namespace
}  // namespace hymn::test
