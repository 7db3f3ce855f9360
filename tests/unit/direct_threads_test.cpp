// Members that are threads of one process work on each other's memory, one meeting after another.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "collectives/shm/direct_board.hpp"
#include "hymn/allocate.hpp"
#include "p2p/shm/heap_region.hpp"

namespace hymn::test {
namespace {

constexpr int members = 3;
constexpr std::size_t slice = 1000;

/// In each turn every member writes its slice of all outputs, from all inputs.
void take_part(DirectBoard& board, int me, std::vector<std::size_t>& wrong) {
  SharedBuffer in(members * slice);
  SharedBuffer out(members * slice);
  SharedHeap& heap = SharedHeap::of_process();
  const DirectCall call{.usable = 1,
                        .input = *heap.find(in.data(), in.size()),
                        .output = *heap.find(out.data(), out.size())};
  for (int turn = 0; turn < 100; ++turn) {
    std::memset(in.data(), turn + me, in.size());
    board.show(call);
    while (!board.all_have_shown()) std::this_thread::yield();
    if (!board.all_know()) {
      board.map();
      while (!board.all_have_mapped()) std::this_thread::yield();
    }
    const std::size_t from = static_cast<std::size_t>(me) * slice;
    for (std::size_t i = from; i < from + slice; ++i) {
      const DirectBoard::Touch touch(board);
      int sum = 0;
      for (int member = 0; member < members; ++member)
        sum += std::to_integer<int>((member == me ? in.data() : board.input(member))[i]);
      for (int member = 0; member < members; ++member)
        (member == me ? out.data() : board.output(member))[i] = static_cast<std::byte>(sum);
    }
    board.leave();
    while (!board.all_have_left()) std::this_thread::yield();
    for (std::size_t i = 0; i < out.size(); ++i)
      wrong[static_cast<std::size_t>(me)] += out.data()[i] != static_cast<std::byte>(3 * turn + 3);
  }
}

TEST(DirectThreads, EachFoldsASliceForAll) {
  RegionPlan plan;
  const int desk = ShmChannel::open_desk(plan);
  const int area = plan.add(DirectBoard::area_bytes(), RegionPlan::Reserve::at_once);
  const auto memory = std::make_shared<HeapMemory>(plan, members);
  std::vector<std::size_t> wrong(members);
  std::vector<std::thread> threads;
  for (int me = 0; me < members; ++me)
    threads.emplace_back([&, me] {
      const auto channel =
          std::make_shared<ShmChannel>(HeapMemory::view(memory, me), std::vector{0, 1, 2}, true,
                                       desk, [](const std::string&) {});
      DirectBoard board(channel, area);
      take_part(board, me, wrong);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<std::size_t>(members));
}

}  // namespace
}  // namespace hymn::test
