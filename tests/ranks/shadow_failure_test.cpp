// Collective-level joins that go wrong: whoever cannot go on is named on all others.
#include <algorithm>
#include <array>

#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"
#include "tests/support/variable.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// Rank 0 has no input, and cannot shadow what the others call. All hear of it.
void expect_not_shadowed(World& world, const std::function<void(ProcessGroup&)>& call,
                         std::string_view why, const ShadowOptions& options = {},
                         std::source_location where = std::source_location::current()) {
  ProcessGroup group = fresh_group(world, "given up");
  const auto run = [&] {
    const auto body = [&] {
      if (world.rank() != 0) call(group);
    };
    Join::shadow_all({group}, body, options);
  };
  if (world.rank() == 0) {
    const Error error = failure_of(run, {"cannot be shadowed", why, "remedy"}, where);
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
  } else {
    const Error error = failure_of(run, {"rank 0: shadow_all", "cannot be shadowed", why}, where);
    EXPECT_EQ(error.kind(), ErrorKind::aborted) << error.what();
    EXPECT_EQ(error.context().missing, std::vector<int>{0}) << error.what();
  }
  expect_world_works(world);
}

RANK_TEST(ShadowFailure, OfARootThatHasRunOut) {
  NEEDS_RANKS(2);
  std::int32_t value = 1;
  expect_not_shadowed(
      world, [&](ProcessGroup& group) { group.broadcast(view_of(value), 0); }, "its root");
  expect_not_shadowed(
      world, [&](ProcessGroup& group) { group.scatter(ConstBufferView(), view_of(value), 0); },
      "its root");
}

RANK_TEST(ShadowFailure, OfANumberThatTheTypeDoesNotHave) {
  NEEDS_RANKS(2);
  std::vector<std::uint32_t> all(ranks_as_size(world));
  const std::uint32_t mine = 1;
  expect_not_shadowed(world, [&](ProcessGroup& group) { group.all_gather(view_of(mine), all); },
                      "cannot be -3", {.fill = -3});
  std::int8_t value = 1;
  expect_not_shadowed(world, [&](ProcessGroup& group) { group.broadcast(view_of(value), 0); },
                      "cannot be 128", {.root_fill = 128});
}

RANK_TEST(ShadowFailure, OfPrefixReductions) {
  NEEDS_RANKS(2);
  std::int32_t value = 1;
  expect_not_shadowed(
      world, [&](ProcessGroup& group) { group.scan(view_of(value)); }, "prefix reductions");
  expect_not_shadowed(world, [&](ProcessGroup& group) { group.exscan(view_of(value)); }, "exscan");
}

struct NoLuck : std::runtime_error {
  NoLuck() : std::runtime_error("no luck") {}
};

/// `run` must fail with an error that names the last rank, and these words.
void expect_last_named(World& world, const std::function<void()>& run, Words words) {
  const Error error = failure_of(run, words);
  // Others may be late, too, on a machine that is busy.
  EXPECT_EQ(std::ranges::count(error.context().missing, world.size() - 1), 1) << error.what();
}

RANK_TEST(ShadowFailure, AnExceptionInTheBodyFreesTheOthers) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "given up");
  ProcessGroup second = fresh_group(world, "second");
  const bool is_last = world.rank() == world.size() - 1;
  const auto run = [&] {
    Join::shadow_all({group, second}, [&] {
      std::int32_t value = 1;
      group.all_reduce(view_of(value));
      if (is_last) throw NoLuck();
    });
  };
  if (is_last)
    EXPECT_THROW(run(), NoLuck);
  else
    expect_last_named(world, run, {"shadow_all: no luck"});
  EXPECT_TRUE(is_aborted_within(second, at_once));
  expect_world_works(world);
}

RANK_TEST(ShadowFailure, ARankThatEndsItsWorldIsNamed) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "forsaken");
  if (world.rank() == world.size() - 1) {
    world.destroy();
    return;
  }
  expect_last_named(world, [&] { Join::shadow_all({group}, [] {}); }, {"it has ended its world"});
}

RANK_TEST(ShadowFailure, ARankThatDoesNotComeIsNamed) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "incomplete", Timeout(50s));
  // Not for the making of the group, to which ranks may come late.
  if (world.rank() == 0) group.set_timeout(500ms);
  if (world.rank() == world.size() - 1)
    EXPECT_TRUE(is_aborted_within(group, at_once));
  else
    expect_last_named(world, [&] { Join::shadow_all({group}, [] {}); },
                      {"nothing to shadow", "have not run out"});
  expect_world_works(world);
}

RANK_TEST(ShadowFailure, GroupsWithBlockingCallsAreRefused) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "endless", Timeout::none());
  int runs = 0;
  const auto run = [&] { Join::shadow_all({group}, [&] { ++runs; }); };
  // Only MPI's calls block, and only where ranks share no memory.
  const std::string text = error_text(run);
  EXPECT_EQ(runs, text.empty() ? 1 : 0);
  EXPECT_TRUE(text.empty() || text.find("blocking calls") != std::string::npos) << text;
  expect_group_works(group);
}

RANK_TEST(ShadowFailure, OfAGroupGivenTwice) {
  expect_error(ErrorKind::usage, [&] { Join::shadow_all({world.group(), world.group()}, [] {}); },
               {"twice", "shadow_all", "remedy"});
  expect_world_works(world);
}

RANK_TEST(ShadowFailure, WithinItself) {
  ProcessGroup group = fresh_group(world, "given up");
  const auto nested = [&] { Join::shadow_all({group}, [] {}); };
  expect_error(ErrorKind::usage, [&] { Join::shadow_all({group}, nested); },
               {"twice", "shadow_all", "remedy"});
  EXPECT_TRUE(group.is_aborted());
  expect_world_works(world);
  // It can be used again where the error went no further.
  ProcessGroup second = fresh_group(world, "second");
  Join::shadow_all({second}, [&] {
    expect_error(ErrorKind::usage, [&] { Join::shadow_all({second}, [] {}); }, {"twice"});
  });
  Join::shadow_all({second}, [] {});
  expect_group_works(second);
}

RANK_TEST(ShadowFailure, OfADestroyedGroup) {
  ProcessGroup group = fresh_group(world, "destroyed");
  group.destroy();
  int runs = 0;
  expect_error(ErrorKind::usage, [&] { Join::shadow_all({group}, [&] { ++runs; }); },
               {"has been destroyed"});
  expect_error(ErrorKind::usage, [&] { Join::shadow_all({ProcessGroup()}, [&] { ++runs; }); },
               {"empty"});
  EXPECT_EQ(runs, 0);
  expect_world_works(world);
}

RANK_TEST(ShadowFailure, OfAGroupThatOneRankDestroys) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "half destroyed");
  const int last = world.size() - 1;
  const auto run = [&] {
    Join::shadow_all({group}, [&] {
      if (world.rank() == last) group.destroy();
    });
  };
  if (world.rank() == last)
    expect_error(ErrorKind::usage, run, {"has been destroyed"});
  else
    expect_last_named(world, run, {"has been destroyed"});
  expect_world_works(world);
}

/// On all ranks, before anything is sent.
void expect_unsupported(World& world, std::string_view why) {
  NEEDS_RANKS(2);
  int runs = 0;
  expect_error(ErrorKind::unsupported, [&] { Join::shadow_all({world.group()}, [&] { ++runs; }); },
               {"shadow_all", why, "remedy"});
  EXPECT_EQ(runs, 0);
  expect_world_works(world);
}

TEST(ShadowFailure, WithoutFlightRecorder) {
  const Variable size("HYMN_RECORDER_SIZE", "0");
  on_ranks([](World& world) { expect_unsupported(world, "no flight recorder"); });
}

TEST(ShadowFailure, WithoutControlPlane) {
  if (ranks_are_threads()) GTEST_SKIP() << "threads need no control plane to hear of each other";
  const Variable control("HYMN_CONTROL", "0");
  on_ranks([](World& world) { expect_unsupported(world, "no control plane"); });
}

TEST(ShadowFailure, WithChecksThatMeet) {
  on_ranks([](World& world) { expect_unsupported(world, "level detail"); },
           {.checks = CheckLevel::detail});
}

/// Rank 0 comes when the others have forgotten where they have begun.
void overwrite_records(World& world) {
  NEEDS_RANKS(2);
  constexpr std::size_t works = 40;
  ProcessGroup group = fresh_group(world, "given up");
  std::vector<std::int32_t> values(works, 1);
  std::vector<Work> in_flight;
  const auto run = [&] {
    Join::shadow_all({group}, [&] {
      if (world.rank() == 0) return await_tokens_of_all_others(world);
      for (std::int32_t& value : values)
        in_flight.push_back(group.all_reduce_async(view_of(value)));
      send_token(world, 0);
    });
  };
  if (world.rank() == 0) {
    const Error error = failure_of(run, {"#1 is overwritten", "HYMN_RECORDER_SIZE"});
    EXPECT_EQ(error.kind(), ErrorKind::resource) << error.what();
  } else {
    const Error error = failure_of(run, {"rank 0: shadow_all", "is overwritten"});
    EXPECT_EQ(error.context().missing, std::vector<int>{0}) << error.what();
  }
  expect_world_works(world);
}

TEST(ShadowFailure, OfRecordsThatAreOverwritten) {
  const Variable size("HYMN_RECORDER_SIZE", "10");
  on_ranks(overwrite_records);
}

}  // namespace
}  // namespace hymn::test
