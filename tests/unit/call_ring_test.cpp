// The ring of the last calls, read while it is written, by threads and by another process.
#include "recorder/call_ring.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "base/sanitizers.hpp"
#include "tests/unit/own_ring.hpp"

namespace hymn::test {
namespace {

constexpr std::uint64_t entries = CallRing::Size{}.entries;

CallSide side_of_number(std::uint64_t number) {
  CallSide side;
  side.count = ~number;
  side.shape[0] = static_cast<std::uint32_t>(number * 7);
  side.shape[1] = static_cast<std::uint32_t>(number * 11);
  side.buffers = static_cast<std::uint16_t>(number * 5);
  side.dtype = static_cast<DataType>(number % data_type_count);
  side.layout = static_cast<Layout>(number % 5);
  side.dimensions = static_cast<std::uint8_t>(number % 4);
  side.even = number % 3 == 0;
  return side;
}

/// A record all of whose fields follow from one number.
CallRecord record_of(std::uint64_t number) {
  CallRecord record;
  record.group_uid = number;
  record.op_id = number * 3;
  record.sequence = number ^ 0xabcdef;
  record.type = static_cast<OpType>(number % op_type_count);
  record.kind = static_cast<ReduceKind>(number % reduce_kind_count);
  record.peer = static_cast<std::int32_t>(number % 1000) - 1;
  record.method = static_cast<std::uint16_t>(number * 13);
  record.shadowed = number % 2 == 1;
  record.input = side_of_number(number);
  record.output = side_of_number(number + 1);
  record.timeout_ns = static_cast<std::int64_t>(number * 17);
  record.created = number * 19 + 1;
  record.site = number * 23;
  return record;
}

/// What a reader has seen is one record, not parts of several.
bool is_whole(const CallRecord& seen, std::uint64_t id) {
  CallRecord expected = record_of(seen.group_uid);
  expected.record_id = id;
  expected.state = seen.state;
  expected.retired = seen.retired;
  expected.started = seen.started;
  expected.completed = seen.completed;
  return seen == expected;
}

TEST(CallRing, GivesBackWhatWasRecorded) {
  OwnRing ring;
  EXPECT_EQ(ring->next_id(), 0u);
  EXPECT_EQ(ring->read(0), std::nullopt);
  CallRecord record = record_of(41);
  record.peer = -1;
  EXPECT_EQ(ring->record(record), 0u);
  EXPECT_EQ(ring->record(record_of(42)), 1u);
  EXPECT_EQ(ring->next_id(), 2u);
  EXPECT_EQ(ring->read(0), record);
  record = record_of(42);
  record.record_id = 1;
  EXPECT_EQ(ring->read(1), record);
  EXPECT_EQ(ring->read(2), std::nullopt);
}

TEST(CallRing, KeepsEveryField) {
  OwnRing ring;
  CallRecord extreme;
  extreme.group_uid = extreme.op_id = extreme.sequence = extreme.site = ~0ull;
  extreme.type = OpType::batch;
  extreme.kind = ReduceKind::opaque;
  extreme.method = 0xffff;
  extreme.input = {.count = ~0ull,
                   .shape = {~0u, ~0u},
                   .buffers = 0xffff,
                   .dtype = DataType::opaque,
                   .layout = Layout::list,
                   .dimensions = 3,
                   .even = true};
  extreme.output = {.dtype = DataType::opaque, .even = false};
  extreme.timeout_ns = CallRecord::no_timeout;
  extreme.peer = -2147483647 - 1;
  ring->record(extreme);
  EXPECT_EQ(ring->read(0), extreme);
  std::swap(extreme.input, extreme.output);
  extreme.record_id = 1;
  extreme.peer = 2147483647;
  ring->record(extreme);
  EXPECT_EQ(ring->read(1), extreme);
}

TEST(CallRing, KeepsTheLastOnes) {
  OwnRing ring;
  constexpr std::uint64_t total = 3 * entries + 7;
  for (std::uint64_t id = 0; id < total; ++id) EXPECT_EQ(ring->record(record_of(id)), id);
  EXPECT_EQ(ring->next_id(), total);
  for (std::uint64_t id = 0; id < total + entries; ++id) {
    const auto seen = ring->read(id);
    ASSERT_EQ(seen.has_value(), id >= total - entries && id < total) << id;
    if (!seen) continue;
    EXPECT_EQ(seen->group_uid, id);
    EXPECT_TRUE(is_whole(*seen, id)) << id;
  }
}

TEST(CallRing, TellsHowACallWentOn) {
  OwnRing ring;
  const std::uint64_t first = ring->record(record_of(1));
  const std::uint64_t second = ring->record(record_of(2));
  EXPECT_EQ(ring->read(first)->state, CallState::scheduled);
  EXPECT_EQ(ring->read(first)->completed, 0u);
  ring->set_started(first);
  EXPECT_EQ(ring->read(first)->state, CallState::started);
  EXPECT_EQ(ring->read(first)->completed, 0u);
  ring->set_ended(first, CallState::completed, false);
  ring->set_ended(second, CallState::failed, true);
  const CallRecord well = *ring->read(first);
  EXPECT_EQ(well.state, CallState::completed);
  EXPECT_FALSE(well.retired);
  EXPECT_GT(well.started, well.created);
  EXPECT_GE(well.completed, well.started);
  EXPECT_TRUE(is_whole(well, first));
  const CallRecord badly = *ring->read(second);
  EXPECT_EQ(badly.state, CallState::failed);
  EXPECT_TRUE(badly.retired);
  EXPECT_EQ(badly.started, 0u);
  EXPECT_GT(badly.completed, badly.created);
  ring->set_retired(first);
  EXPECT_TRUE(ring->read(first)->retired);
  EXPECT_EQ(ring->read(first)->state, CallState::completed);
}

TEST(CallRing, TellsWhetherAThreadWaits) {
  OwnRing ring;
  CallRecord record = record_of(1);
  EXPECT_TRUE(ring->read(ring->record(record))->waited_for);
  record.waited_for = false;
  const std::uint64_t id = ring->record(record);
  EXPECT_FALSE(ring->read(id)->waited_for);
  ring->set_started(id);
  EXPECT_FALSE(ring->read(id)->waited_for) << "it has started all the same";
  EXPECT_EQ(ring->read(id)->state, CallState::started);
  ring->set_waited_for(id, true);
  EXPECT_TRUE(ring->read(id)->waited_for);
  ring->set_waited_for(id, false);
  EXPECT_FALSE(ring->read(id)->waited_for);
  EXPECT_EQ(ring->read(id)->state, CallState::started);
  ring->set_ended(id, CallState::completed, true);
  const CallRecord ended = *ring->read(id);
  ring->set_waited_for(id, false);
  EXPECT_EQ(*ring->read(id), ended) << "what has ended stays as it was";
  ring->set_waited_for(id + entries, false);
  EXPECT_EQ(*ring->read(id), ended) << "it is of another call";
}

TEST(CallRing, TellsWhetherAThreadWaitedUntilACallFailed) {
  OwnRing ring;
  CallRecord record = record_of(1);
  record.waited_for = false;
  const std::uint64_t tested = ring->record(record);
  ring->set_ended(tested, CallState::failed, true);
  EXPECT_FALSE(ring->read(tested)->waited_for);
  const std::uint64_t waited = ring->record(record);
  ring->set_waited_for(waited, true);
  ring->set_ended(waited, CallState::failed, true);
  EXPECT_TRUE(ring->read(waited)->waited_for);
  EXPECT_TRUE(ring->read(waited)->retired);
  EXPECT_FALSE(ring->read(waited)->undriven);
}

TEST(CallRing, TellsSinceWhenAThreadWaits) {
  OwnRing ring;
  CallRecord record = record_of(1);
  record.created = time_stamp();
  EXPECT_EQ(ring->read(ring->record(record))->waited_since, 0u) << "as it was made";
  record.waited_for = false;
  const std::uint64_t id = ring->record(record);
  EXPECT_EQ(ring->read(id)->waited_since, 0u) << "nobody waits";
  const std::uint64_t before = time_stamp();
  ring->set_waited_for(id, true);
  EXPECT_GE(ring->read(id)->waited_since, before);
  EXPECT_LE(ring->read(id)->waited_since, time_stamp());
  EXPECT_EQ(ring->read(id)->completed, 0u);
  ring->set_waited_for(id, false);
  EXPECT_EQ(ring->read(id)->waited_since, 0u);
  const std::uint64_t late = time_stamp();
  ring->set_ended(id, CallState::completed, true);
  EXPECT_GE(ring->read(id)->completed, late);
  EXPECT_EQ(ring->read(id)->waited_since, 0u);
}

TEST(CallRing, TimesAreStamps) {
  OwnRing ring;
  CallRecord record = record_of(1);
  record.created = time_stamp();
  const std::uint64_t id = ring->record(record);
  ring->set_started(id);
  const std::uint64_t between = time_stamp();
  ring->set_ended(id, CallState::completed, true);
  const std::uint64_t after = time_stamp();
  EXPECT_EQ(ring->read(id)->created, record.created);
  EXPECT_LE(ring->read(id)->started, between);
  EXPECT_LE(between, ring->read(id)->completed);
  EXPECT_LE(ring->read(id)->completed, after);
}

TEST(CallRing, KeepsAsManyAsWereAskedFor) {
  OwnRing ring({.entries = 10});
  for (std::uint64_t id = 0; id < 25; ++id) ring->record(record_of(id));
  EXPECT_EQ(ring->first_id(), 15u);
  for (std::uint64_t id = 0; id < 30; ++id)
    EXPECT_EQ(ring->read(id).has_value(), id >= 15 && id < 25) << id;
}

TEST(CallRing, IsOffWithoutEntries) {
  OwnRing ring({.entries = 0});
  EXPECT_FALSE(ring->is_on());
  EXPECT_LE(CallRing::memory_bytes({.entries = 0}), 64u);
  const std::uint64_t id = ring->record(record_of(1));
  ring->set_started(id);
  ring->set_ended(id, CallState::completed, true);
  ring->set_retired(id);
  EXPECT_EQ(ring->next_id(), 0u);
  EXPECT_EQ(ring->read(id), std::nullopt);
}

TEST(CallRing, KeepsCallersWhereAsked) {
  OwnRing ring({.entries = 3, .frames = 4});
  CallRecord record = record_of(1);
  record.site = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  const std::uint64_t known = ring->record(record);
  record.site = 12345;
  const std::uint64_t unknown = ring->record(record);
  std::vector<std::uint64_t> frames;
  ASSERT_TRUE(ring->read(known, &frames));
  ASSERT_GE(frames.size(), 2u) << "the call site and who called it";
  EXPECT_LE(frames.size(), 4u);
  EXPECT_EQ(frames[0], ring->read(known)->site);
  ASSERT_TRUE(ring->read(unknown, &frames));
  EXPECT_EQ(frames, std::vector<std::uint64_t>{12345});
}

TEST(CallRing, KeepsSizesOfBlocksAsFarAsThereIsRoom) {
  OwnRing ring({.entries = 3, .counts = 5});
  std::array<std::int32_t, 9> in{};
  std::array<std::int32_t, 9> out{};
  const std::array<std::size_t, 3> sizes = {2, 0, 7};
  const std::array<BufferView, 2> list = {BufferView(out).slice(0, 8), BufferView(out).slice(8, 1)};
  const auto keep = [&](const Request& request) {
    CallRecord record = record_of(1);
    record.input = side_of(request.inputs);
    record.output = side_of(request.outputs);
    const std::uint64_t id = ring->claim();
    ring->keep_sizes(id, request);
    ring->fill(id, record);
    BlockCounts counts;
    EXPECT_TRUE(ring->read(id, nullptr, &counts));
    return counts;
  };
  const InputBlocks given = InputBlocks::counted(in, sizes);
  EXPECT_EQ(keep(Request::all_to_all(given, OutputBlocks::list(list))),
            (BlockCounts{{2, 0, 7}, {8, 1}}));
  EXPECT_EQ(keep(Request::all_to_all(given, OutputBlocks::counted(out, sizes))),
            (BlockCounts{{2, 0, 7}, {2, 0, 7}}))
      << "what is alike on both sides is kept once";
  const std::array<BufferView, 3> more = {BufferView(out).slice(0, 7), BufferView(out).slice(7, 1),
                                          BufferView(out).slice(8, 1)};
  EXPECT_EQ(keep(Request::all_to_all(given, OutputBlocks::list(more))),
            (BlockCounts{{}, {7, 1, 1}}))
      << "one side, where there is no room for both";
  const std::array<ConstBufferView, 3> mine = {
      BufferView(in).slice(0, 2), BufferView(in).slice(2, 0), BufferView(in).slice(2, 7)};
  Request reductions = Request::reduce({}, {}, 0);
  reductions.inputs = InputBlocks::list(mine);
  reductions.outputs = OutputBlocks::list(more);
  EXPECT_EQ(keep(reductions), (BlockCounts{{2, 0, 7}, {}})) << "that which all ranks have";
  const std::array<std::size_t, 6> many = {1, 2, 3, 0, 0, 1};
  EXPECT_EQ(keep(Request::all_to_all(InputBlocks::equal(in), OutputBlocks::counted(out, many))),
            BlockCounts())
      << "more than there is room for";
  EXPECT_EQ(keep(Request::all_gather(view_of(in[0]), OutputBlocks::equal(out))), BlockCounts());
  EXPECT_EQ(keep(Request::all_gather(view_of(in[0]), OutputBlocks::counted(out, sizes))),
            (BlockCounts{{}, {2, 0, 7}}));
}

TEST(CallRing, LateNewsDoNotReachAnotherCall) {
  OwnRing ring;
  const std::uint64_t old = ring->record(record_of(0));
  for (std::uint64_t i = 1; i <= entries; ++i) ring->record(record_of(i));
  ring->set_ended(old, CallState::failed, true);
  ring->set_started(old);
  ring->set_retired(old);
  EXPECT_EQ(ring->read(old), std::nullopt);
  EXPECT_EQ(ring->read(old + entries)->state, CallState::scheduled);
  EXPECT_FALSE(ring->read(old + entries)->retired);
}

/// A ring of one entry whose memory the test may write, as a writer does that lost its core before.
struct OneEntry {
  static constexpr CallRing::Size size{.entries = 1};
  static constexpr std::size_t next_at = 0;  // of the ring
  OwnRing ring{size};

  std::uint64_t& word(std::size_t at) {
    return *reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(&ring.memory()[at]));
  }
  std::uint64_t& completed() { return word(ring.memory().size() - sizeof(std::uint64_t)); }
};

TEST(CallRing, LateTimesAreNotTakenForAnotherCalls) {
  OneEntry one;
  const std::uint64_t old = one.ring->record(record_of(0));
  one.ring->set_ended(old, CallState::completed, true);
  const std::uint64_t late = one.completed();
  ASSERT_NE(one.ring->read(old)->completed, 0u);
  const std::uint64_t id = one.ring->record(record_of(1));
  one.ring->set_ended(id, CallState::completed, true);
  ASSERT_TRUE(one.ring->read(id));
  one.completed() = late;
  EXPECT_EQ(one.ring->read(id), std::nullopt) << "the time is another call's";
}

TEST(CallRing, ALateClaimLeavesTheEntryToTheNewerCall) {
  OneEntry one;
  one.ring->record(record_of(0));
  // From here on claims are made among others.
  std::thread([&] { one.ring->record(record_of(1)); }).join();
  const std::uint64_t id = one.ring->record(record_of(2));
  one.word(OneEntry::next_at) = id - 1;
  const std::uint64_t late = one.ring->claim();
  EXPECT_EQ(late, id - 1);
  one.ring->fill(late, record_of(3));
  one.word(OneEntry::next_at) = id + 1;
  const auto seen = one.ring->read(id);
  ASSERT_TRUE(seen);
  EXPECT_TRUE(is_whole(*seen, id));
  EXPECT_EQ(seen->group_uid, 2u);
}

TEST(CallRing, IsSeenThroughASecondView) {
  OwnRing writer;
  const CallRing reader = CallRing::attach(writer.memory(), {});
  writer->record(record_of(5));
  EXPECT_EQ(reader.next_id(), 1u);
  EXPECT_TRUE(is_whole(*reader.read(0), 0));
}

/// Reads whatever may be there until `total` records were made. Returns how many it has seen whole,
/// or -1 for a torn one.
long read_along(const CallRing& ring, std::uint64_t total) {
  long seen = 0;
  while (true) {
    const std::uint64_t end = ring.next_id();
    for (std::uint64_t id = end > entries ? end - entries : 0; id < end; ++id) {
      const auto record = ring.read(id);
      if (!record) continue;
      if (!is_whole(*record, id)) return -1;
      ++seen;
    }
    if (end >= total) return seen;
    std::this_thread::yield();
  }
}

TEST(CallRing, ReadersNeverSeeATornRecord) {
  OwnRing ring;
  constexpr std::uint64_t writers = 16;
  constexpr std::uint64_t each = 30'000;
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (std::uint64_t writer = 0; writer < writers; ++writer) {
    threads.emplace_back([&, writer] {
      for (std::uint64_t i = 0; i < each; ++i) {
        const std::uint64_t number = writer * each + i;
        const std::uint64_t id = ring->record(record_of(number));
        ring->set_ended(id, CallState::completed, true);
        // A writer that was kept from its core meanwhile reads what the others left of its record.
        const auto own = ring->read(id);
        if (own && !(is_whole(*own, id) && own->group_uid == number)) ++torn;
      }
    });
  }
  long seen = 0;
  threads.emplace_back([&] { seen = read_along(*ring, writers * each); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
  EXPECT_GT(seen, 0) << "or torn";
  EXPECT_EQ(ring->next_id(), writers * each);
}

// The first thread goes without locked instructions until the second comes: wherever it is then.
TEST(CallRing, AnotherThreadMayComeAtAnyTime) {
  constexpr std::uint64_t first_calls = 3000;
  constexpr std::uint64_t second_calls = 300;
  for (std::uint64_t round = 0; round < (sanitized ? 20 : 100); ++round) {
    OwnRing ring({.entries = 4096});
    const auto call = [&ring](std::uint64_t calls) {
      std::vector<std::uint64_t> ids;
      for (std::uint64_t i = 0; i < calls; ++i) ids.push_back(ring->record(record_of(i)));
      return ids;
    };
    std::vector<std::uint64_t> ids;
    std::thread second([&] {
      while (ring->next_id() < 25 * round) std::this_thread::yield();
      ids = call(second_calls);
    });
    const std::vector<std::uint64_t> others = call(first_calls);
    second.join();
    ids.insert(ids.end(), others.begin(), others.end());
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end()) << "one id for two calls";
    EXPECT_EQ(ring->next_id(), first_calls + second_calls);
    for (const std::uint64_t id : ids) ASSERT_TRUE(ring->read(id)) << id;
  }
}

TEST(CallRing, IsReadByAnotherProcess) {
  void* shared = ::mmap(nullptr, CallRing::memory_bytes({}), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  const std::span memory(static_cast<std::byte*>(shared), CallRing::memory_bytes({}));
  CallRing ring = CallRing::create(memory, {}, CallRing::Writers::one_at_a_time);
  constexpr std::uint64_t total = 200'000;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const long seen = read_along(CallRing::attach(memory, {}), total);
    // All but the last one, if that is being written still.
    ::_exit(seen < 0 ? 1 : seen < static_cast<long>(entries) - 1 ? 2 : 0);
  }
  for (std::uint64_t i = 0; i < total; ++i) {
    const std::uint64_t id = ring.record(record_of(i));
    ring.set_ended(id, i % 2 == 0 ? CallState::completed : CallState::failed, true);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: torn; 2: too few were seen";
  ::munmap(shared, memory.size());
}

}  // namespace
}  // namespace hymn::test
