// Streams of bytes between processes: in order, however full; who sleeps is woken, and once.
#include "p2p/shm/byte_streams.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/child.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// All members of streams, as one process may be several.
class Members {
 public:
  explicit Members(int count) {
    std::vector<Bytes> addresses;
    for (int i = 0; i < count; ++i) {
      meetings_.push_back(meet_for_byte_streams());
      addresses.push_back(meetings_.back()->address());
    }
    ticket_ = meetings_.front()->make_memory(addresses);
  }
  std::unique_ptr<ByteStreams> join(int me) {
    return meetings_[static_cast<std::size_t>(me)]->join(ticket_, count(), me);
  }

 private:
  int count() const { return static_cast<int>(meetings_.size()); }

  std::vector<std::unique_ptr<ByteStreamMeeting>> meetings_;
  Bytes ticket_;
};

iovec piece_of(const std::vector<std::byte>& bytes, std::size_t from = 0) {
  return {const_cast<std::byte*>(bytes.data()) + from, bytes.size() - from};
}

void fill(ByteStream& stream) {
  const std::vector<std::byte> bytes(stream.capacity());
  while (true) {
    const iovec piece = piece_of(bytes);
    if (stream.write({&piece, 1}) == 0) return;
  }
}

std::byte byte_at(std::size_t place) { return static_cast<std::byte>((place * 131) >> 3); }

/// Sends and takes at the same time, and stands still where neither goes on.
std::string exchange(ByteStreams& streams, int other, std::size_t all) {
  ByteStream& stream = streams.with(other);
  std::mt19937 random(static_cast<unsigned>(other));
  std::size_t sent = 0;
  std::size_t taken = 0;
  const std::atomic<bool> never{false};
  const auto until = std::chrono::steady_clock::now() + 20s;
  while ((sent < all || taken < all) && std::chrono::steady_clock::now() < until) {
    std::vector<std::byte> bytes(std::min<std::size_t>(all - sent, random() % 100'000));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(sent + i);
    const iovec pieces[] = {{bytes.data(), bytes.size() / 3},
                            {bytes.data() + bytes.size() / 3, bytes.size() - bytes.size() / 3}};
    sent += stream.write(pieces);
    const auto come = stream.come();
    for (std::size_t i = 0; i < come.size(); ++i)
      if (come[i] != byte_at(taken + i)) return "another byte at " + std::to_string(taken + i);
    taken += come.size();
    stream.pass(come.size());
    if (come.empty() && !stream.want_room()) (void)streams.await(never, 100us);
  }
  return sent == all && taken == all ? "" : "it stands still";
}

TEST(ByteStreams, BringAllInOrder) {
  constexpr std::size_t all = 40'000'000;
  Members members(2);
  Child other([&] { return exchange(*members.join(1), 0, all); });
  EXPECT_EQ(exchange(*members.join(0), 1, all), "");
  EXPECT_EQ(other.report(), "");
}

TEST(ByteStreams, AreApart) {
  Members members(3);
  std::vector<std::unique_ptr<ByteStreams>> ends;
  for (int me = 0; me < 3; ++me) ends.push_back(members.join(me));
  for (int from = 0; from < 3; ++from)
    for (int to = 0; to < 3; ++to) {
      if (from == to) continue;
      const std::vector<std::byte> bytes(5, static_cast<std::byte>(10 * from + to));
      const iovec piece = piece_of(bytes);
      EXPECT_EQ(ends[from]->with(to).write({&piece, 1}), 5u);
    }
  for (int from = 0; from < 3; ++from)
    for (int to = 0; to < 3; ++to) {
      if (from == to) continue;
      const auto come = ends[to]->with(from).come();
      ASSERT_EQ(come.size(), 5u);
      EXPECT_EQ(come[4], static_cast<std::byte>(10 * from + to));
    }
}

TEST(ByteStreams, SayWhenThereIsRoom) {
  Members members(2);
  const auto writes = members.join(0);
  const auto reads = members.join(1);
  ByteStream& out = writes->with(1);
  ByteStream& in = reads->with(0);
  fill(out);
  EXPECT_FALSE(out.want_room());
  EXPECT_FALSE(out.has_wanted_room());
  // It sleeps until there is some.
  EXPECT_TRUE(writes->begin_sleep());
  in.pass(1000);
  EXPECT_TRUE(in.must_wake_for_room());
  EXPECT_TRUE(out.has_wanted_room());
  writes->end_sleep();
  const std::atomic<bool> never{false};
  EXPECT_TRUE(writes->await(never, 1s));
  EXPECT_TRUE(out.want_room());
  out.want_no_room();
  EXPECT_FALSE(out.has_wanted_room());
  EXPECT_TRUE(writes->begin_sleep());
  in.pass(1000);
  EXPECT_FALSE(in.must_wake_for_room()) << "it wants none any more";
}

TEST(ByteStreams, WakeASleeperOnce) {
  Members members(2);
  const auto writes = members.join(0);
  const auto reads = members.join(1);
  ByteStream& out = writes->with(1);
  const std::vector<std::byte> bytes(8);
  const iovec piece = piece_of(bytes);
  out.write({&piece, 1});
  EXPECT_FALSE(out.must_wake()) << "it is awake";
  EXPECT_FALSE(reads->begin_sleep()) << "something has come";
  reads->end_sleep();
  reads->with(0).pass(8);
  for (int nap = 0; nap < 3; ++nap) {
    EXPECT_TRUE(reads->begin_sleep());
    out.write({&piece, 1});
    EXPECT_TRUE(out.must_wake());
    EXPECT_FALSE(out.must_wake()) << "it has been woken";
    reads->end_sleep();
    reads->with(0).pass(8);
  }
}

void stay_on_first_core() {
  cpu_set_t cores;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(cores), &cores), 0);
  int first = 0;
  while (!CPU_ISSET(first, &cores)) ++first;
  CPU_ZERO(&cores);
  CPU_SET(first, &cores);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(cores), &cores), 0);
}

/// More members than cores give theirs away; here to who keeps it for a whole turn each time.
TEST(ByteStreams, WaitNoLongerThanTheyMayWhereCoresAreShort) {
  const int members = static_cast<int>(std::thread::hardware_concurrency()) + 1;
  Child child([members] {
    stay_on_first_core();
    std::vector<std::unique_ptr<Child>> others;
    for (int i = 0; i < 3; ++i)
      others.push_back(std::make_unique<Child>([]() -> std::string {
        for (volatile unsigned turns = 0;;) turns = turns + 1;
      }));
    Members all(members);
    const auto own = all.join(0);
    const std::atomic<bool> never{false};
    Duration longest{0};
    for (int i = 0; i < 5; ++i) {
      const auto began = std::chrono::steady_clock::now();
      (void)own->await(never, 50us);
      longest = std::max(longest, Duration(std::chrono::steady_clock::now() - began));
    }
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(longest).count();
    return ms < 100 ? std::string() : std::to_string(ms) + " ms";
  });
  EXPECT_EQ(child.report(), "");
}

TEST(ByteStreams, AreNoNewsWhereTheyAreClosed) {
  Members members(2);
  const auto writes = members.join(0);
  const auto reads = members.join(1);
  const std::vector<std::byte> bytes(8);
  const iovec piece = piece_of(bytes);
  writes->with(1).write({&piece, 1});
  const std::atomic<bool> never{false};
  const std::atomic<bool> at_once{true};
  EXPECT_TRUE(reads->await(never, 1ms));
  reads->with(0).close();
  EXPECT_FALSE(reads->await(never, 1ms));
  EXPECT_TRUE(reads->await(at_once, 1s));
  EXPECT_TRUE(reads->begin_sleep());
}

}  // namespace
}  // namespace hymn::test
