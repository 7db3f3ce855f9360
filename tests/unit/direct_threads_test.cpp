// Members that are threads of one process work on each other's memory, one meeting after another.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "collectives/shm/direct_board.hpp"
#include "hymn/allocate.hpp"
#include "hymn/error.hpp"
#include "p2p/shm/heap_region.hpp"

namespace hymn::test {
namespace {

constexpr int board_members = 3;
constexpr std::size_t slice_bytes = 1000;

/// What the members share, which are threads.
class Boards {
 public:
  DirectBoard board(int me) const {
    return {std::make_shared<ShmChannel>(HeapMemory::view(memory_, me), std::vector{0, 1, 2}, true,
                                         control_block_, [](const std::string&) {}),
            area_};
  }

 private:
  RegionPlan plan_;
  int control_block_ = ShmChannel::add_control_block(plan_);
  int area_ = plan_.add(DirectBoard::area_bytes(), RegionPlan::Reserve::at_once);
  std::shared_ptr<HeapMemory> memory_ = std::make_shared<HeapMemory>(plan_, board_members);
};

/// In each turn every member writes its slice of all outputs, from all inputs.
void take_part(DirectBoard& board, int me, std::vector<std::size_t>& wrong) {
  SharedBuffer in(board_members * slice_bytes);
  SharedBuffer out(board_members * slice_bytes);
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
    const std::size_t from = static_cast<std::size_t>(me) * slice_bytes;
    for (std::size_t i = from; i < from + slice_bytes; ++i) {
      const DirectBoard::Touch touch(board);
      int sum = 0;
      for (int member = 0; member < board_members; ++member)
        sum += std::to_integer<int>((member == me ? in.data() : board.input(member))[i]);
      for (int member = 0; member < board_members; ++member)
        (member == me ? out.data() : board.output(member))[i] = static_cast<std::byte>(sum);
    }
    board.leave();
    while (!board.all_have_left()) std::this_thread::yield();
    for (std::size_t i = 0; i < out.size(); ++i)
      wrong[static_cast<std::size_t>(me)] += out.data()[i] != static_cast<std::byte>(3 * turn + 3);
  }
}

TEST(DirectThreads, EachFoldsASliceForAll) {
  const Boards boards;
  std::vector<std::size_t> wrong(board_members);
  std::vector<std::thread> threads;
  for (int me = 0; me < board_members; ++me)
    threads.emplace_back([&, me] {
      DirectBoard board = boards.board(me);
      take_part(board, me, wrong);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<std::size_t>(board_members));
}

// A thread that writes cannot be cut off: it would write to what the buffer is used for next.
TEST(DirectThreads, ABufferIsGivenUpWhenNobodyWritesToIt) {
  const Boards boards;
  DirectBoard giver = boards.board(0);
  DirectBoard writer = boards.board(1);
  const DirectBoard other = boards.board(2);
  auto touch = std::make_unique<DirectBoard::Touch>(writer);
  std::atomic<bool> given_up{false};
  std::thread thread([&] {
    giver.give_up(nullptr, 0);
    given_up = true;
  });
  const auto has_ended = [&] {
    try {
      const DirectBoard::Touch attempt(other);
      return false;
    } catch (const AbortedError&) {
      return true;
    }
  };
  while (!has_ended()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(given_up);
  touch.reset();
  thread.join();
}

}  // namespace
}  // namespace hymn::test
