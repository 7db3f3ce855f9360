// Members that share cores: who waits for somebody that needs the waiting one's core, and who does
// not, with members that are stepped one by one in a thread that moves from core to core.
#include <gtest/gtest.h>

#include "collectives/shm/shm_port.hpp"
#include "tests/unit/shm_office.hpp"
#include "tests/unit/shm_team.hpp"
#include "topology/affinity.hpp"
#include "topology/cpu_set.hpp"

namespace hymn::test {
namespace {

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
    EXPECT_FALSE(parts[0]->awaits_other_cores());  // 1 has yet to come
    parts.push_back(call(team, 1, name));
    EXPECT_FALSE(parts[0]->step());
    EXPECT_TRUE(parts[0]->awaits_other_cores());  // 2 has
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
  const auto waits_elsewhere = [&](int peer) {
    OperationStorage storage;
    Operation& operation = start(storage, 0, receive, peer);
    const bool elsewhere = operation.awaits_other_cores();
    operation.abandon("it was only asked");
    return elsewhere;
  };
  EXPECT_FALSE(waits_elsewhere(1));
  EXPECT_TRUE(waits_elsewhere(2));
  EXPECT_FALSE(waits_elsewhere(any_source));
}

// Where each member has a core of its own nobody asks, and nothing is written.
TEST_F(ShmWaiting, NobodyLooksWhereCoresAreNotShared) {
  Office office(2, false);
  go_to_core(1);
  office.of(0).channel().note_core();
  EXPECT_TRUE(office.of(0).channel().is_beside(1));
}

}  // namespace
}  // namespace hymn::test
