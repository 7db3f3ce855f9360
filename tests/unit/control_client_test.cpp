// The control plane over TCP: several ranks in one process, some of which end, or hang.
#include "control/control_client.hpp"

#include <gmock/gmock.h>

#include <asio/ip/tcp.hpp>
#include <filesystem>
#include <thread>

#include "tests/unit/control_client_scene.hpp"
#include "tests/unit/eventually.hpp"

namespace hymn::test {
namespace {

using namespace control;
using namespace std::chrono_literals;

std::size_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator begin(folder);
  return static_cast<std::size_t>(std::distance(begin, std::filesystem::directory_iterator()));
}

TEST(ControlClient, AllHearAnAbortAndAreAsked) {
  ControlClientScene job(4, {0});
  job.expect_abort(2, 7, {0, 1, 3});
  job.expect_abort(0, 8, {1, 2, 3});
  const std::vector<int> asked = {0, 1, 2, 3};
  const auto reports = job.at(3).agent->ask(5, asked, 60s);
  ASSERT_EQ(reports.size(), 4u);
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(reports[static_cast<std::size_t>(rank)],
              (ProgressReport{.rank = rank, .knows_group = true, .entered = 5, .answered = true}));
}

TEST(ControlClient, GoodbyeIsNoFailure) {
  ControlClientScene job(3, {0});
  job.expect_abort(2, 7, {0, 1});
  job.at(2).control_client->post(Goodbye{{{7, 3, 3}}});
  job.end(2);
  EXPECT_TRUE(job.ears(0).hears("2 is left"));
  EXPECT_TRUE(job.ears(1).hears("2 is left"));
  EXPECT_THAT(job.at(1).agent->news_of(2).marks, ::testing::ElementsAre(GroupMark{7, 3, 3}));
  job.expect_abort(1, 8, {0});
  job.expect_abort(0, 9, {1});
  for (const int rank : {0, 1}) EXPECT_FALSE(job.ears(rank).has_heard("2 is lost"));
}

// Each of them takes with it the coordinator to whom the others say theirs.
TEST(ControlClient, GoodbyesOfThoseWhoLeaveTogetherAreHeard) {
  for (int turn = 0; turn < 20; ++turn) {
    ControlClientScene job(4, {0, 1, 2, 3});
    job.expect_abort(3, 7, {0, 1, 2});
    std::vector<std::thread> leaving;
    for (const int rank : {0, 1, 2})
      leaving.emplace_back([&job, rank] {
        job.at(rank).agent->post(Goodbye{});
        job.at(rank).control_client->flush();
        job.end(rank);
      });
    for (std::thread& thread : leaving) thread.join();
    for (const int rank : {0, 1, 2}) {
      EXPECT_TRUE(job.ears(3).hears(std::to_string(rank) + " is left")) << turn;
      EXPECT_FALSE(job.ears(3).has_heard(std::to_string(rank) + " is lost")) << turn;
    }
  }
}

TEST(ControlClient, WhoHasSaidGoodbyeDoesNotMissTheCoordinator) {
  ControlClientScene job(3, {0});
  job.expect_abort(2, 7, {0, 1});
  job.at(1).control_client->post(Goodbye{});
  ASSERT_TRUE(job.ears(2).hears("1 is left"));
  // That it was not answered in time when it came, perhaps.
  const auto before = job.at(1).all_said();
  job.end(0);
  // The other one does, and says so: by then the first one has tried it, too.
  for (int turn = 0; turn < 1000 && job.at(2).all_said().empty(); ++turn) job.at(2).gate.await(1);
  EXPECT_THAT(job.at(2).all_said(), ::testing::Contains(::testing::HasSubstr("cannot connect")));
  job.at(1).gate.await(20);
  EXPECT_EQ(job.at(1).all_said(), before);
}

TEST(ControlClient, MovesAgainSoonWhileThereIsSomethingToMove) {
  constexpr int enough = 20;
  std::atomic<int> moves = 0;
  WorldEars ears;
  control::ControlClientOptions options{.rank = 0, .size = 1};
  options.beat_every = std::chrono::hours(1);
  control::ControlClient client(std::move(options));
  client.set_on_move([&moves] { return ++moves < enough; });
  const auto agent = std::make_shared<control::Agent>(0, 1, ears, [](const control::Message&) {});
  client.run(Token::random(), {}, agent, [&ears] { return ears.marks(); }, {});
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (moves < enough && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(moves, enough);
  client.close();
}

TEST(ControlClient, WhoGoesWithoutAGoodbyeIsLost) {
  ControlClientScene job(3, {0});
  job.expect_abort(2, 7, {0, 1});
  job.end(2);
  EXPECT_TRUE(job.ears(0).hears("2 is lost"));
  EXPECT_TRUE(job.ears(1).hears("2 is lost"));
}

TEST(ControlClient, WithoutItsCoordinatorAJobGoesToTheNext) {
  ControlClientScene job(4, {0, 1});
  job.expect_abort(2, 7, {0, 1, 3});
  job.at(2).gate.await(2);  // has said how far it is
  job.end(0);
  for (const int rank : {1, 2, 3}) EXPECT_TRUE(job.ears(rank).hears("0 is lost")) << rank;
  job.expect_abort(3, 8, {1, 2});
  job.at(2).gate.await(2);  // has said so to the new coordinator, too
  job.end(2);
  for (const int rank : {1, 3}) {
    EXPECT_TRUE(job.ears(rank).hears("2 is lost")) << rank;
    EXPECT_THAT(job.at(rank).agent->news_of(2).marks, ::testing::ElementsAre(GroupMark{7, 2, 1}))
        << rank;
  }
  EXPECT_FALSE(job.ears(1).has_heard("3 is lost"));
}

TEST(ControlClient, TwoCoordinatorsMayGo) {
  ControlClientScene job(4, {0, 1, 2});
  job.expect_abort(3, 7, {0, 1, 2});
  job.end(0);
  job.end(1);
  for (const int rank : {2, 3})
    for (const char* line : {"0 is lost", "1 is lost"})
      EXPECT_TRUE(job.ears(rank).hears(line)) << rank;
  job.expect_abort(3, 8, {2});
  job.end(3);
  EXPECT_TRUE(job.ears(2).hears("3 is lost"));
}

TEST(ControlClient, CoordinatorsMayGoUntilOneIsLeft) {
  // Not the last rank: it would go on to its own one if the other gave it no answer in time.
  ControlClientScene job(6, {0, 1, 2, 3, 4});
  job.expect_abort(5, 7, {0, 1, 2, 3, 4});
  for (const int gone : {0, 1, 2, 3}) {
    job.end(gone);
    EXPECT_TRUE(job.ears(5).hears(std::to_string(gone) + " is lost"));
  }
  job.expect_abort(5, 8, {4});
  job.expect_abort(4, 9, {5});
}

// Else neither it nor the others would hear anything of each other.
TEST(ControlClient, AllComeToWhomTheFirstCoordinatorGaveNoAnswer) {
  ControlClientScene job = ControlClientScene::with_unanswered(3, 5, {0, 1, 2, 3, 4});
  for (const int rank : {0, 1, 2, 4})
    job.expect_abort(rank, 10 + static_cast<std::uint64_t>(rank), {3});
  job.expect_abort(3, 7, {0, 1, 2, 4});
  for (int rank = 0; rank < 5; ++rank) EXPECT_FALSE(job.ears(rank).has_heard("3 is lost")) << rank;
}

TEST(ControlClient, WithoutAnyCoordinatorAllOthersAreLost) {
  ControlClientScene job(3, {0});
  job.expect_abort(1, 7, {0, 2});
  job.end(0);
  for (const char* line : {"0 is lost", "2 is lost"}) EXPECT_TRUE(job.ears(1).hears(line));
}

TEST(ControlClient, ASilentCoordinatorIsLeft) {
  ControlClientScene job(4, {0, 1}, 2s);
  job.expect_abort(2, 7, {0, 1, 3});
  job.at(0).gate.close();
  for (const int rank : {1, 2, 3}) EXPECT_TRUE(job.ears(rank).hears("0 is stalled")) << rank;
  job.expect_abort(2, 8, {1, 3});
  // When it goes on it sees that it was deserted, and follows.
  job.at(0).gate.open();
  EXPECT_TRUE(job.ears(0).hears("abort of 8"));
  for (const int rank : {1, 2, 3}) EXPECT_TRUE(job.ears(rank).hears("0 is alive")) << rank;
  job.expect_abort(0, 9, {1, 2, 3});
  for (int rank = 0; rank < 4; ++rank)
    for (int other = 0; other < 4; ++other)
      EXPECT_FALSE(job.ears(rank).has_heard(std::to_string(other) + " is lost"))
          << "rank " << rank << " of rank " << other;
}

// A rank that was stopped for a while has heard nothing in that time, and it is not the
// coordinator's fault.
TEST(ControlClient, WhoWasHeldItselfDoesNotBlameTheCoordinator) {
  // Longer than the coordinator may be without a core.
  ControlClientScene job(3, {0, 1}, 6s);
  job.expect_abort(2, 7, {0, 1});
  job.at(2).gate.close();
  job.at(0).gate.await(650);  // beats of 10 ms
  job.at(2).gate.open();
  job.expect_abort(2, 8, {0, 1});
  job.expect_abort(1, 9, {2});
  EXPECT_FALSE(job.ears(2).has_heard("0 is stalled"));
}

// Some may find a coordinator silent that others hear: all go where the first one goes.
TEST(ControlClient, NobodyStaysWithADesertedCoordinator) {
  ControlClientScene job(4, {0, 1});
  job.expect_abort(3, 7, {0, 1, 2});
  job.at(3).control_client->post(Moved{});
  job.expect_abort(3, 6, {0, 1, 2});
  job.end(3);
  job.at(0).gate.await(3);
  // Whoever still spoke with the first coordinator would not be heard by the second, and be missed
  // there.
  job.expect_abort(2, 8, {0, 1});
  job.expect_abort(0, 9, {1, 2});
  for (const int rank : {0, 1, 2}) EXPECT_FALSE(job.ears(rank).has_heard("0 is lost"));
}

TEST(ControlClient, LongTextsHarmNobody) {
  ControlClientScene job(2, {0});
  job.at(1).agent->post(DumpNow{std::string(3'000'000, 'x')});
  EXPECT_TRUE(job.ears(0).hears("dump: " + std::string(longest_text, 'x')));
  job.expect_abort(0, 7, {1});
}

TEST(ControlClient, MarksOutliveTheirRank) {
  ControlClientScene job(3, {0});
  job.expect_abort(2, 7, {0, 1});
  job.at(2).gate.await(2);
  job.end(2);
  EXPECT_TRUE(job.ears(1).hears("2 is lost"));
  EXPECT_THAT(job.at(1).agent->news_of(2).marks, ::testing::ElementsAre(GroupMark{7, 2, 1}));
}

TEST(ControlClient, FlushAndCloseMayComeAtAnyTime) {
  const Token token = Token::random();
  ControlClientRank never_run(0, 2, {0});
  never_run.control_client->flush();
  never_run.control_client->open_coordinator(token);
  never_run.control_client->flush();
  never_run.end();

  // Nobody is there; somebody is there who says nothing.
  asio::io_context io;
  asio::ip::tcp::acceptor mute(io, Endpoint(asio::ip::address_v4::loopback(), 0));
  const Endpoint nobody(asio::ip::address_v4::loopback(), 1);
  for (const Endpoint& coordinator : {nobody, mute.local_endpoint()}) {
    ControlClientRank searching(1, 2, {0});
    searching.run(token, {{0, coordinator}});
    searching.agent->post(DumpNow{"for nobody"});
    searching.control_client->flush();
    searching.end();
  }
  ControlClientRank without_coordinators(1, 2, {});
  without_coordinators.run(token, {});
  without_coordinators.control_client->close();
  without_coordinators.control_client->close();
  without_coordinators.control_client->flush();
}

TEST(ControlClient, LeavesNothingBehind) {
  const std::size_t descriptors = entries_of("/proc/self/fd");
  const std::size_t threads = entries_of("/proc/self/task");
  for (int round = 0; round < 3; ++round) {
    ControlClientScene job(3, {0, 1});
    job.expect_abort(2, 7, {0, 1});
    if (round > 0) job.end(round - 1);
  }
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
  // A thread that was joined is seen for another moment.
  EXPECT_TRUE(eventually([threads] { return entries_of("/proc/self/task") <= threads; }));
}

// Frames of the control plane hold 1 MiB.
TEST(ControlClient, WhatFitsIsSaidAndWhatDoesNotIsRefusedWhereItIsSaid) {
  ControlClientScene job(2, {0});
  const auto question = [](std::size_t bytes) {
    Question made;
    made.about.uid = 1;
    made.asked.resize((bytes - pack(made).size()) / sizeof(std::uint64_t), 1);
    return made;
  };
  const std::size_t limit = LinkLimits().frame_bytes;
  const Question fits = question(limit);
  EXPECT_GT(pack(fits).size() + sizeof(std::uint64_t), limit);
  job.at(1).control_client->post(fits);
  EXPECT_THROW(job.at(1).control_client->post(question(limit + sizeof(std::uint64_t))), UsageError);
  EXPECT_THROW(job.at(0).control_client->post(question(2 * limit)), UsageError);
  job.expect_abort(1, 7, {0});
  job.expect_abort(0, 8, {1});
}

TEST(ControlClient, SaysGoodbyeOfVeryManyGroups) {
  ControlClientScene job(3, {0});
  job.expect_abort(2, 7, {0, 1});
  Goodbye goodbye;
  for (std::uint64_t uid = 0; uid < 44000; ++uid) goodbye.marks.push_back({uid, 3, 3});
  job.at(2).control_client->post(goodbye);
  // So much goes out within the time of its end only if it is read meanwhile.
  EXPECT_TRUE(job.ears(1).hears("2 is left"));
  job.end(2);
  EXPECT_LE(job.at(1).agent->news_of(2).marks.size(), most_marks);
  job.expect_abort(1, 8, {0});
}

}  // namespace
}  // namespace hymn::test
