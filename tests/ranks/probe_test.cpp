// Messages that are looked at before they are received.
#include <algorithm>
#include <atomic>
#include <optional>

#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

void expect_info(const MessageInfo& info, int source, int tag, std::size_t bytes) {
  EXPECT_EQ(info.source, source);
  EXPECT_EQ(info.tag, tag);
  EXPECT_EQ(info.bytes, bytes);
}

/// Receives just what was told of.
void expect_received(ProcessGroup& group, const MessageInfo& info, DataType dtype, int salt = 0) {
  Buffer in(dtype, info.bytes / size_of(dtype));
  const RecvStatus status = group.recv(in, info.source, info.tag);
  EXPECT_EQ(status.source, info.source);
  EXPECT_EQ(status.count, in.count());
  expect_filled(in, info.source, salt);
  EXPECT_TRUE(in.guards_intact());
}

RANK_TEST(P2pProbe, TellsWhatWaitsAndLeavesIt) {
  NEEDS_RANKS(2);
  ProcessGroup& group = world.group();
  for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{200000}}) {
    if (world.rank() == 0) group.send(filled(DataType::float64, count, 0), 1, 7);
    if (world.rank() == 1) {
      const MessageInfo info = group.probe(0, 7);
      expect_info(info, 0, 7, count * 8);
      expect_info(group.probe(0, 7), 0, 7, count * 8);
      expect_info(group.iprobe(any_source, 7).value_or(MessageInfo()), 0, 7, count * 8);
      expect_received(group, info, DataType::float64);
      EXPECT_FALSE(group.iprobe(0, 7).has_value());
    }
    group.barrier();
  }
}

RANK_TEST(P2pProbe, OfAnySource) {
  NEEDS_RANKS(2);
  ProcessGroup& group = world.group();
  if (world.rank() != 0)
    group.send(filled(DataType::int32, as_size(100 * world.rank()), world.rank()), 0, 4);
  std::vector<int> sources;
  for (int i = 1; world.rank() == 0 && i < world.size(); ++i) {
    const MessageInfo info = group.probe(any_source, 4);
    EXPECT_EQ(info.bytes, as_size(400 * info.source));
    expect_received(group, info, DataType::int32);
    sources.push_back(info.source);
  }
  std::ranges::sort(sources);
  for (std::size_t i = 0; i < sources.size(); ++i) EXPECT_EQ(sources[i], static_cast<int>(i) + 1);
  group.barrier();
}

RANK_TEST(P2pProbe, NothingWaitsBeforeItIsSent) {
  NEEDS_RANKS(2);
  ProcessGroup& group = world.group();
  if (world.rank() == 1) {
    EXPECT_FALSE(group.iprobe(0, 1).has_value());
    EXPECT_FALSE(group.iprobe(any_source, 1).has_value());
  }
  group.barrier();
  if (world.rank() == 0) group.send(filled(DataType::uint8, 3, 0), 1, 1);
  if (world.rank() == 1) {
    std::optional<MessageInfo> seen;
    while (!seen) seen = group.iprobe(any_source, 1);
    expect_info(*seen, 0, 1, 3);
    expect_received(group, *seen, DataType::uint8);
  }
  group.barrier();
}

RANK_TEST(P2pProbe, OtherTagsDoNotCountNorBarTheWay) {
  NEEDS_RANKS(2);
  ProcessGroup& group = world.group();
  const Buffer large = filled(DataType::float32, 300000, 0, 1);
  const Buffer small = filled(DataType::float32, 3, 0, 2);
  if (world.rank() == 0) {
    Work first = group.isend(large, 1, 1);
    Work second = group.isend(small, 1, 2);
    first.wait();
    second.wait();
  } else if (world.rank() == 1) {
    const MessageInfo second = group.probe(0, 2);
    expect_info(second, 0, 2, 12);
    EXPECT_FALSE(group.iprobe(0, 3).has_value());
    const MessageInfo first = group.probe(any_source, 1);
    expect_info(first, 0, 1, 1200000);
    expect_received(group, first, DataType::float32, 1);
    expect_received(group, second, DataType::float32, 2);
  }
  group.barrier();
}

RANK_TEST(P2pProbe, TheFirstOfSeveralIsToldOf) {
  NEEDS_RANKS(2);
  ProcessGroup& group = world.group();
  for (std::size_t count = 1; count <= 20; ++count)
    if (world.rank() == 0) group.send(filled(DataType::uint8, count, 0), 1, 3);
  for (std::size_t count = 1; world.rank() == 1 && count <= 20; ++count) {
    const MessageInfo info = group.probe(0, 3);
    expect_info(info, 0, 3, count);
    expect_received(group, info, DataType::uint8);
  }
  group.barrier();
}

RANK_TEST(P2pProbe, AReceiveThatWaitsHasItsMessageFirst) {
  NEEDS_RANKS(2);
  ProcessGroup& group = world.group();
  for (const int source : {0, any_source}) {
    Buffer first(DataType::int32, 1);
    Work received;
    if (world.rank() == 1) received = group.irecv(first, source, 3);
    group.barrier();
    if (world.rank() == 0) {
      group.send(filled(DataType::int32, 1, 0, 1), 1, 3);
      group.send(filled(DataType::int32, 2, 0, 2), 1, 3);
    } else if (world.rank() == 1) {
      const MessageInfo info = group.probe(0, 3);
      expect_info(info, 0, 3, 8);
      expect_received(group, info, DataType::int32, 2);
      received.wait();
      expect_filled(first, 0, 1);
    }
  }
  group.barrier();
}

RANK_TEST(P2pProbe, MessagesOfAllInAnyOrder) {
  ProcessGroup& group = world.group();
  std::vector<Buffer> out;
  std::vector<Work> sent;
  for (int peer = 0; peer < world.size(); ++peer) {
    if (peer == world.rank()) continue;
    out.push_back(filled(DataType::int64, as_size(1 + world.rank() * 1000), world.rank()));
    sent.push_back(group.isend(out.back(), peer, 1));
  }
  for (int i = 1; i < world.size(); ++i) {
    const MessageInfo info = group.probe(any_source, 1);
    EXPECT_EQ(info.bytes, as_size(8 * (1 + info.source * 1000)));
    expect_received(group, info, DataType::int64);
  }
  wait_all(sent);
}

RANK_TEST(P2pProbe, SourcesAreGlobalRanks) {
  NEEDS_RANKS(3);
  ProcessGroup ends = world.new_group({0, world.size() - 1});
  if (world.rank() == world.size() - 1) ends.send(filled(DataType::uint8, 9, world.rank()), 0, 2);
  if (world.rank() == 0) {
    const MessageInfo info = ends.probe(any_source, 2);
    expect_info(info, world.size() - 1, 2, 9);
    expect_info(ends.probe(world.size() - 1, 2), world.size() - 1, 2, 9);
    // What waits in one group is not seen in another.
    EXPECT_FALSE(world.group().iprobe(any_source, 2).has_value());
    expect_received(ends, info, DataType::uint8);
    expect_error(ErrorKind::usage, [&] { (void)ends.probe(1); }, {"probe", "not part of group"});
  }
  world.group().barrier();
}

RANK_TEST(P2pProbe, EndsWithItsLimit) {
  NEEDS_RANKS(2);
  ProcessGroup group = world.new_group(everybody(world));
  if (world.rank() == 1)
    expect_error(ErrorKind::timeout,
                 [&] { (void)group.probe(0, 6, {.timeout = std::chrono::milliseconds(50)}); },
                 {"rank 1", "probe", "rank 0"});
  group.barrier();  // that was its own matter
  if (world.rank() == 0) group.send(filled(DataType::int32, 2, 0), 1, 6);
  if (world.rank() == 1) expect_received(group, group.probe(0, 6), DataType::int32);
  group.barrier();
}

RANK_TEST(P2pProbe, FaultsAreRefused) {
  ProcessGroup& group = world.group();
  const auto refused = [&](int source, int tag, Words words) {
    expect_refused(
        group, ErrorKind::usage, "probe", [&] { (void)group.probe(source, tag); }, words);
    expect_refused(
        group, ErrorKind::usage, "probe", [&] { (void)group.iprobe(source, tag); }, words);
  };
  refused(world.size(), 0, {"not part of group"});
  refused(world.rank(), 0, {"itself"});
  refused(any_source, -1, {"tag -1"});
  refused(any_source, ProcessGroup::max_tag + 1, {"tag 16384"});
}

RANK_TEST(P2pProbe, AStreamIsRefused) {
  int stream = 0;
  expect_refused(world.group(), ErrorKind::usage, "probe",
                 [&] { (void)world.group().probe(any_source, 0, {.stream = &stream}); },
                 {"stream"});
}

TEST(P2pProbeOutside, WhoPollsIsWarnedOnce) {
  std::atomic<int> outside = 0;
  ::testing::internal::CaptureStderr();
  on_ranks([&](World& world) {
    ProcessGroup group = world.new_group({0}, {.description = "leaders"});
    if (group.is_member()) return;
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(group.iprobe(0).has_value());
    ++outside;
    group.destroy();
    expect_error(ErrorKind::usage, [&] { (void)group.iprobe(0); }, {"destroyed"});
  });
  const std::string text = ::testing::internal::GetCapturedStderr();
  int warnings = 0;
  for (std::size_t at = 0; (at = text.find("is ignored", at)) != std::string::npos; ++at)
    ++warnings;
  EXPECT_EQ(warnings, outside) << text;
}

RANK_TEST(P2pProbe, AGroupThatWasGivenUpRefuses) {
  ProcessGroup own;
  for (int rank = 0; rank < world.size(); ++rank) {
    const ProcessGroup one = world.new_group({rank});
    if (rank == world.rank()) own = one;
  }
  own.abort("enough");
  expect_error(ErrorKind::aborted, [&] { (void)own.iprobe(any_source); }, {"probe", "enough"});
  expect_error(ErrorKind::aborted, [&] { (void)own.probe(any_source); }, {"probe", "enough"});
}

}  // namespace
}  // namespace hymn::test
