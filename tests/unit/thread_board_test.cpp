// Meetings of threads on a board: nobody sees the wrong meeting's memory, and nobody sees any after
// its owner has given up. Memory shown is plain memory, so that ThreadSanitizer sees every slip.
#include "p2p/threads/thread_board.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>

#include "base/sanitizers.hpp"
#include "hymn/error.hpp"

namespace hymn::test {
namespace {

std::uint64_t word_of(int member, std::uint64_t number) {
  return number * 1000 + static_cast<std::uint64_t>(member);
}

std::uint64_t read(const ThreadBoard::Visit& visit, int member) {
  return *static_cast<const std::uint64_t*>(visit.shown_by(member));
}

/// The part of a member: all others must show what belongs to this meeting.
bool all_show(ThreadBoard::Visit& visit, int members, std::uint64_t number) {
  visit.begin_part();
  bool right = true;
  for (int other = 0; other < members; ++other)
    right = right && read(visit, other) == word_of(other, number);
  visit.end_part();
  return right;
}

void run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

/// One whole meeting, waiting politely.
bool meet(ThreadBoard& board, int member, int members, std::uint64_t number) {
  std::uint64_t word = word_of(member, number);
  ThreadBoard::Visit visit(board, member, number, &word);
  while (!visit.try_arrive()) std::this_thread::yield();
  const bool right = all_show(visit, members, number);
  while (!visit.try_leave()) std::this_thread::yield();
  word = 0;  // nobody may look any more
  return right;
}

TEST(ThreadBoard, ManyMeetingsOfFastAndSlowMembers) {
  for (const int members : {1, 2, 3, 5}) {
    ThreadBoard board(members);
    std::atomic<int> wrong{0};
    const std::uint64_t meetings = sanitized ? 300 : 1000;
    run_threads(members, [&](int member) {
      std::minstd_rand random(static_cast<unsigned>(member + 1));
      for (std::uint64_t number = 1; number <= meetings; ++number) {
        // Every member is slow now and then, the last one more often.
        for (auto turn = random() % (member + 1 == members ? 8 : 3); turn > 0; --turn)
          std::this_thread::yield();
        if (!meet(board, member, members, number)) ++wrong;
      }
    });
    EXPECT_EQ(wrong, 0) << members << " members";
  }
}

/// A member with many visits under way at the same time, as asynchronous operations have.
class Juggler {
 public:
  Juggler(ThreadBoard& board, int member, int members, std::uint64_t visits)
      : members_(members), words_(visits + 1) {
    for (std::uint64_t number = 1; number <= visits; ++number) {
      words_[number] = word_of(member, number);
      under_way_.push_back(
          {number, false, ThreadBoard::Visit(board, member, number, &words_[number])});
    }
  }

  /// One step for every visit.
  void step_all() {
    for (auto visit = under_way_.begin(); visit != under_way_.end();)
      visit = step(*visit) ? under_way_.erase(visit) : visit + 1;
  }
  bool done() const { return under_way_.empty(); }
  std::size_t under_way() const { return under_way_.size(); }
  int wrong() const { return wrong_; }

 private:
  struct UnderWay {
    std::uint64_t number;
    bool did_part;
    ThreadBoard::Visit visit;
  };
  bool step(UnderWay& one) {
    if (!one.did_part) {
      if (!one.visit.try_arrive()) return false;
      if (!all_show(one.visit, members_, one.number)) ++wrong_;
      one.did_part = true;
    }
    if (!one.visit.try_leave()) return false;
    words_[one.number] = 0;
    return true;
  }

  int members_;
  std::vector<std::uint64_t> words_;
  std::vector<UnderWay> under_way_;
  int wrong_ = 0;
};

TEST(ThreadBoard, MoreOutstandingThanTheRingHolds) {
  constexpr std::uint64_t visits = 300;
  ThreadBoard board(2);
  Juggler first(board, 0, 2, visits);
  // Alone, it gets nowhere, and does no harm.
  for (int i = 0; i < 3; ++i) first.step_all();
  EXPECT_EQ(first.under_way(), visits);
  Juggler second(board, 1, 2, visits);
  for (std::uint64_t turn = 0; turn < visits && !(first.done() && second.done()); ++turn) {
    first.step_all();
    second.step_all();
  }
  EXPECT_TRUE(first.done());
  EXPECT_TRUE(second.done());
  EXPECT_EQ(first.wrong() + second.wrong(), 0);
}

TEST(ThreadBoard, JugglersInThreads) {
  constexpr int members = 3;
  ThreadBoard board(members);
  std::atomic<int> wrong{0};
  run_threads(members, [&](int member) {
    Juggler juggler(board, member, members, 200);
    while (!juggler.done()) {
      juggler.step_all();
      std::this_thread::yield();
    }
    wrong += juggler.wrong();
  });
  EXPECT_EQ(wrong, 0);
}

std::string reason_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const AbortedError& error) {
    return error.what();
  }
  return "nothing is thrown";
}

TEST(ThreadBoard, AbortEndsEveryStep) {
  ThreadBoard board(2);
  ThreadBoard::Visit waiting(board, 0, 1, nullptr);
  EXPECT_FALSE(waiting.try_arrive());
  board.abort("first");
  board.abort("second");
  EXPECT_EQ(reason_of([&] { waiting.try_arrive(); }), "first");
  for (const std::uint64_t number : {1, 2, 65, 500}) {
    ThreadBoard::Visit late(board, 1, number, nullptr);
    EXPECT_EQ(reason_of([&] { late.try_arrive(); }), "first") << number;
  }
}

TEST(ThreadBoard, AbandonBeforeArriving) {
  ThreadBoard board(2);
  ThreadBoard::Visit gone(board, 0, 1, nullptr);
  ThreadBoard::Visit other(board, 1, 1, nullptr);
  EXPECT_FALSE(other.try_arrive());
  gone.abandon("too slow");
  EXPECT_EQ(reason_of([&] { other.try_arrive(); }), "too slow");
}

TEST(ThreadBoard, AbandonAfterArriving) {
  std::uint64_t word = 7;
  ThreadBoard board(2);
  ThreadBoard::Visit gone(board, 0, 1, &word);
  ThreadBoard::Visit other(board, 1, 1, &word);
  EXPECT_FALSE(gone.try_arrive());
  EXPECT_TRUE(other.try_arrive());  // and so may begin, were it not for …
  gone.abandon("changed its mind");
  EXPECT_EQ(reason_of([&] { other.begin_part(); }), "changed its mind");
}

TEST(ThreadBoard, AbandonAfterItsOwnPart) {
  std::uint64_t word = 7;
  ThreadBoard board(2);
  ThreadBoard::Visit gone(board, 0, 1, &word);
  ThreadBoard::Visit other(board, 1, 1, &word);
  gone.try_arrive();
  other.try_arrive();
  gone.begin_part();
  gone.end_part();
  EXPECT_FALSE(gone.try_leave());
  gone.abandon("waited long enough");
  EXPECT_EQ(reason_of([&] { other.begin_part(); }), "waited long enough");
}

TEST(ThreadBoard, AbandonWaitsForPartsUnderWay) {
  std::uint64_t word = 7;
  ThreadBoard board(3);
  ThreadBoard::Visit gone(board, 0, 1, &word);
  ThreadBoard::Visit working(board, 1, 1, &word);
  ThreadBoard::Visit idle(board, 2, 1, &word);
  for (auto* visit : {&gone, &working, &idle}) visit->try_arrive();
  working.begin_part();
  std::atomic<bool> returned{false};
  std::thread giving_up([&] {
    gone.abandon("given up");
    returned = true;
    word = 0;  // plain: a reader now would be a data race
  });
  // It has begun to give up once others notice; it must not return before the part has ended.
  ThreadBoard::Visit next(board, 2, 2, nullptr);
  while (reason_of([&] { next.try_arrive(); }) != "given up") std::this_thread::yield();
  EXPECT_EQ(reason_of([&] { idle.begin_part(); }), "given up");
  EXPECT_FALSE(returned);
  EXPECT_EQ(read(working, 0), 7u);
  working.end_part();
  giving_up.join();
  EXPECT_TRUE(returned);
  EXPECT_EQ(reason_of([&] { working.try_leave(); }), "given up");
}

TEST(ThreadBoard, AMeetingThatIsOverIsOverInSpiteOfTheEnd) {
  std::uint64_t word = 7;
  ThreadBoard board(2);
  ThreadBoard::Visit first(board, 0, 1, &word);
  ThreadBoard::Visit second(board, 1, 1, &word);
  for (auto* visit : {&first, &second}) visit->try_arrive();
  for (auto* visit : {&first, &second}) {
    visit->begin_part();
    visit->end_part();
  }
  EXPECT_TRUE(first.try_leave());
  board.abort("after the fact");
  EXPECT_TRUE(second.try_leave());
  // The next meeting in the same place does not forget that the board has ended.
  ThreadBoard::Visit later(board, 0, 65, &word);
  EXPECT_EQ(reason_of([&] { later.try_arrive(); }), "after the fact");
}

/// Members meet again and again until one of them gives up at a random point of a random meeting;
/// then its memory must have no reader left, whatever the others are at.
void give_up_somewhere(unsigned seed) {
  constexpr int members = 3;
  std::minstd_rand random(seed);
  const std::uint64_t last = 1 + random() % 80;
  const unsigned point = random() % 4;
  ThreadBoard board(members);
  std::atomic<int> readers{0};
  run_threads(members, [&](int member) {
    auto memory = std::make_unique<std::uint64_t>(0);
    for (std::uint64_t number = 1;; ++number) {
      *memory = word_of(member, number);
      ThreadBoard::Visit visit(board, member, number, memory.get());
      const bool gives_up = member == 0 && number == last;
      const auto give_up_at = [&](unsigned here) {
        if (!gives_up || point != here) return false;
        visit.abandon("given up");
        EXPECT_EQ(readers, 0);
        memory.reset();
        return true;
      };
      try {
        if (give_up_at(0)) return;
        if (!visit.try_arrive() && give_up_at(1)) return;
        while (!visit.try_arrive()) std::this_thread::yield();
        if (give_up_at(2)) return;
        visit.begin_part();
        ++readers;
        for (int other = 0; other < members; ++other)
          EXPECT_EQ(read(visit, other), word_of(other, number));
        --readers;
        visit.end_part();
        if (give_up_at(3) || give_up_at(1)) return;
        while (!visit.try_leave()) std::this_thread::yield();
      } catch (const AbortedError& error) {
        visit.abandon(error.what());
        return;
      }
    }
  });
}

TEST(ThreadBoard, NoReaderIsLeftWhereverAMemberGivesUp) {
  for (unsigned seed = 1; seed <= (sanitized ? 60 : 200); ++seed) {
    give_up_somewhere(seed);
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace hymn::test
