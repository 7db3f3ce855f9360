// Members that share cores: who waits for somebody that needs the waiting one's core, and who does
// not, with members that are stepped one by one in a thread that moves from core to core.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "p2p/shm/shm_port.hpp"
#include "tests/unit/shm_office.hpp"
#include "tests/unit/shm_team.hpp"
#include "topology/affinity.hpp"
#include "topology/cpu_set.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds longest_park = 20s;

class ShmWaiting : public testing::Test {
 protected:
  void SetUp() override {
    if (granted_.count() < 2) GTEST_SKIP() << "one core: there is no other one";
  }
  void TearDown() override { bind_this_thread(granted_); }

  /// Whatever is started from now on is started on that core.
  void go_to_core(int which) const {
    CpuSet one;
    one.add(granted_.to_vector().at(static_cast<std::size_t>(which)));
    ASSERT_TRUE(bind_this_thread(one));
  }

 private:
  const CpuSet granted_ = CpuSet::of_this_thread();
};

TEST_F(ShmWaiting, ACoreIsKeptForMembersOnOtherCoresOnly) {
  const Ints in = numbers(0, 5);
  Ints out[3] = {Ints(5), Ints(5), Ints(5)};
  const auto call = [&](Team& team, int member, std::string_view name) {
    const bool barrier = name == "barrier_flags";
    return std::make_unique<Part>(
        team, member, name, barrier ? Request::barrier() : Request::all_reduce(in, out[member]));
  };
  for (const std::string_view name : {"all_reduce_one_shot", "barrier_flags"}) {
    SCOPED_TRACE(name);
    Team team(3, true);
    Parts parts;
    // A first call, by which all learn who is where: 0 and 1 on one core, 2 on another.
    for (const int member : {0, 1, 2}) {
      go_to_core(member / 2);
      parts.push_back(call(team, member, name));
    }
    ASSERT_TRUE(finish(parts));
    parts.clear();

    go_to_core(0);
    parts.push_back(call(team, 0, name));
    EXPECT_EQ(parts[0]->awaited(), Awaited::here);  // 1 has yet to come
    parts.push_back(call(team, 1, name));
    EXPECT_FALSE(parts[0]->step());
    EXPECT_EQ(parts[0]->awaited(), Awaited::elsewhere);  // 1 has come, 2 has not
    go_to_core(1);
    parts.push_back(call(team, 2, name));
    EXPECT_TRUE(finish(parts));
  }
}

TEST_F(ShmWaiting, AReceiveKnowsWhereItsSenderIs) {
  Office office(3);
  std::unique_ptr<Algorithm> ends[3];
  for (std::size_t member = 0; member < 3; ++member)
    ends[member] = make_send_recv_rings(office.mail[member]);
  Ints data(4);
  const auto start = [&](OperationStorage& storage, std::size_t member, const Request& request,
                         int peer) -> Operation& {
    Operation& operation = ends[member]->prepare(storage, {.request = &request, .peer = peer});
    operation.start();
    return operation;
  };
  const Request send = Request::send(data, 0);
  const Request receive = Request::recv(data, 1);
  OperationStorage sent[2];
  go_to_core(0);
  EXPECT_TRUE(start(sent[0], 1, send, 0).step());
  go_to_core(1);
  EXPECT_TRUE(start(sent[1], 2, send, 0).step());
  go_to_core(0);
  const auto awaited = [&](int peer) {
    OperationStorage storage;
    Operation& operation = start(storage, 0, receive, peer);
    const Awaited found = operation.awaited();
    operation.abandon("it was only asked");
    return found;
  };
  EXPECT_EQ(awaited(1), Awaited::here);
  EXPECT_EQ(awaited(2), Awaited::elsewhere);
  EXPECT_EQ(awaited(any_source), Awaited::here) << "1 may be the one that sends";
}

/// Brings this part to its end in a thread of its own, which sleeps whenever it can for longer than
/// the test waits.
std::future<void> park_to_its_end(Part& part) {
  return std::async(std::launch::async, [&part] {
    while (!part.park(longest_park.count())) {
    }
  });
}

TEST(ShmResting, WhatIsShownWakesThoseThatRest) {
  const Ints in = numbers(0, 5);
  Ints out[2] = {Ints(5), Ints(5)};
  Team team(2, true);
  Part sleeper(team, 0, "all_reduce_one_shot", Request::all_reduce(in, out[0]));
  auto ended = park_to_its_end(sleeper);
  std::this_thread::sleep_for(50ms);  // time for it to lie down
  Part other(team, 1, "all_reduce_one_shot", Request::all_reduce(in, out[1]));
  EXPECT_EQ(ended.wait_for(longest_park / 2), std::future_status::ready) << "nobody has woken it";
  ended.wait();
}

TEST(ShmResting, RoomWakesTheRootThatRestsForIt) {
  Ints sent = numbers(0, 3'000'000);
  Ints got(sent.size());
  Team team(2, true);
  Part root(team, 0, "broadcast_slots", Request::broadcast(sent, 0), 0);
  Part other(team, 1, "broadcast_slots", Request::broadcast(got, 0), 0);
  auto ended = park_to_its_end(root);
  while (!other.step()) std::this_thread::sleep_for(1ms);  // time for the root to lie down
  EXPECT_EQ(ended.wait_for(longest_park / 2), std::future_status::ready) << "nobody has woken it";
  ended.wait();
  EXPECT_EQ(got, sent);
}

// Where their number does not say that members share cores they note theirs now and then, so that
// whoever waits long can see that they do.
TEST_F(ShmWaiting, MembersThatAreNotKnownToShareCoresAreFoundAllTheSame) {
  Office office(2, false);
  ShmChannel& mine = office.of(0).channel();
  ShmChannel& other = office.of(1).channel();
  go_to_core(1);
  EXPECT_EQ(mine.awaited(), Awaited::somewhere) << "it has not made a call yet";
  other.note_core(0);
  EXPECT_EQ(mine.awaited(), Awaited::here);
  go_to_core(0);
  EXPECT_EQ(mine.awaited(), Awaited::elsewhere) << "who asks has moved";
  other.note_core(1);
  EXPECT_EQ(mine.awaited(), Awaited::elsewhere) << "not in every call";
  other.note_core(16);
  EXPECT_EQ(mine.awaited(), Awaited::here);
  go_to_core(1);
  EXPECT_EQ(other.awaited(), Awaited::elsewhere) << "who waits notes its own, too";
  EXPECT_EQ(mine.awaited(), Awaited::here);
}

// The note of every call where they are known to.
TEST_F(ShmWaiting, MembersThatShareCoresNoteThemInEachCall) {
  Office office(2, true);
  go_to_core(1);
  office.of(1).channel().note_core(1);
  EXPECT_EQ(office.of(0).channel().awaited(), Awaited::here);
}

}  // namespace
}  // namespace hymn::test
