// Joins that go wrong: a rank that leaves the scope by an exception, dies, or comes too late is
// named on all others, which go on.
#include <algorithm>

#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// Makes one all_reduce in each iteration, and `in_hook` before it where it shadows.
class Summer : public Joinable {
 public:
  explicit Summer(
      ProcessGroup group, std::function<void()> in_hook = [] {})
      : group_(std::move(group)), in_hook_(std::move(in_hook)) {}
  void step() {
    Join::notify(*this);
    sum(1);
  }
  std::unique_ptr<JoinHook> join_hook(const JoinArguments&) override {
    struct Hook : JoinHook {
      explicit Hook(Summer& summer) : owner(summer) {}
      void main_hook() override {
        owner.in_hook_();
        owner.sum(0);
      }
      Summer& owner;
    };
    return std::make_unique<Hook>(*this);
  }
  ProcessGroup join_group() const override { return group_; }

 private:
  void sum(std::int32_t value) { group_.all_reduce(view_of(value)); }
  ProcessGroup group_;
  std::function<void()> in_hook_;
};

struct NoLuck : std::runtime_error {
  NoLuck() : std::runtime_error("no luck") {}
};

/// As rank i has i + 1 inputs.
void run_steps(World& world, Summer& summer) {
  for (int input = 0; input <= world.rank(); ++input) summer.step();
}

/// `run` must fail with an error that names this rank, and these words.
void expect_named(int culprit, const std::function<void()>& run, Words words,
                  std::source_location where = std::source_location::current()) {
  const Error error = failure_of(run, words, where);
  EXPECT_TRUE(error.kind() == ErrorKind::aborted || error.kind() == ErrorKind::peer)
      << where.line() << ": " << error.what();
  EXPECT_EQ(error.context().missing, std::vector<int>{culprit})
      << where.line() << ": " << error.what();
}

RANK_TEST(JoinFailure, AnExceptionInTheBodyFreesTheOthers) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "given up");
  ProcessGroup second = fresh_group(world, "second");
  const int last = world.size() - 1;
  Summer summer(group);
  Summer other(second);
  Join join({&summer, &other});
  const auto run = [&] {
    join.run([&] {
      for (int input = 0; input <= world.rank(); ++input) {
        if (world.rank() == last && input == 1) throw NoLuck();
        summer.step();
        other.step();
      }
    });
  };
  if (world.rank() == last)
    EXPECT_THROW(run(), NoLuck);
  else
    expect_named(last, run, {"rank " + std::to_string(last) + ": join: no luck"});
  // Nobody knows how far the others have come in either of them.
  EXPECT_TRUE(is_aborted_within(group, at_once));
  EXPECT_TRUE(is_aborted_within(second, at_once));
  expect_world_works(world);
  // The joinables are free again.
  Summer third(fresh_group(world, "third"));
  Join({&third}).run([&] { run_steps(world, third); });
}

RANK_TEST(JoinFailure, AnExceptionInAHookFreesTheOthers) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "given up");
  Summer summer(group, [&] {
    if (world.rank() == 0) throw NoLuck();
  });
  Join join({&summer});
  const auto run = [&] { join.run([&] { run_steps(world, summer); }); };
  if (world.rank() == 0)
    EXPECT_THROW(run(), NoLuck);
  else
    expect_named(0, run, {"rank 0: join: no luck"});
  expect_world_works(world);
}

RANK_TEST(JoinFailure, ARankThatEndsItsWorldIsNamed) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "forsaken");
  const int last = world.size() - 1;
  if (world.rank() == last) {
    world.destroy();
    return;
  }
  Summer summer(group);
  Join join({&summer});
  expect_named(last, [&] { join.run([&] { run_steps(world, summer); }); },
               {"it has ended its world"});
}

RANK_TEST(JoinFailure, ARankThatDoesNotComeIsNamed) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "incomplete");
  // Only the first has a short limit, and not for the making of the group; the others hear of it,
  // and the last one does not even look.
  group.set_timeout(world.rank() == 0 ? Timeout(500ms) : Timeout(50s));
  const int last = world.size() - 1;
  Summer summer(group);
  Join join({&summer});
  if (world.rank() == last) {
    EXPECT_TRUE(is_aborted_within(group, at_once));
  } else {
    const Error error = failure_of([&] { join.run([&] { run_steps(world, summer); }); },
                                   {"rank " + std::to_string(last) + " ("});
    EXPECT_TRUE(error.kind() == ErrorKind::timeout || error.kind() == ErrorKind::aborted)
        << error.what();
    // Others may be late, too, on a machine that is busy.
    EXPECT_EQ(std::ranges::count(error.context().missing, last), 1) << error.what();
  }
  expect_world_works(world);
}

RANK_TEST(JoinFailure, OptionsThatDifferAreRefusedOnAllRanks) {
  NEEDS_RANKS(2);
  Summer summer(world.group());
  const bool is_first = world.rank() == 0;
  const auto run = [&](const JoinOptions& options) {
    Join join({&summer}, options);
    join.run([&] { run_steps(world, summer); });
  };
  expect_error(ErrorKind::usage, [&] { run({.throw_on_early_termination = is_first}); },
               {"throw_on_early_termination differs", "remedy"});
  expect_error(ErrorKind::usage,
               [&] { run({.divisor = is_first ? JoinDivisor::active : JoinDivisor::initial}); },
               {"divisor differs", "remedy"});
  expect_world_works(world);
}

RANK_TEST(JoinFailure, FaultyCallsAreRefused) {
  expect_error(ErrorKind::usage, [] { Join join({}); }, {"no joinables"});
  expect_error(ErrorKind::usage, [] { Join join({nullptr}); }, {"null"});
  Summer summer(world.group());
  expect_error(ErrorKind::usage, [&] { Join({&summer, &summer}).run([] {}); }, {"twice"});
  expect_world_works(world);
  Summer empty{ProcessGroup()};
  expect_error(ErrorKind::usage, [&] { Join({&empty}).run([] {}); }, {"empty"});
}

RANK_TEST(JoinFailure, AJoinWithinAJoinOfTheSameJoinable) {
  ProcessGroup group = fresh_group(world, "given up");
  Summer summer(group);
  Join join({&summer});
  expect_error(ErrorKind::usage, [&] { join.run([&] { join.run([] {}); }); }, {"twice"});
  EXPECT_TRUE(group.is_aborted());
  expect_world_works(world);
}

RANK_TEST(JoinFailure, OfAGroupThatOneRankDestroys) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world, "half destroyed");
  Summer summer(group);
  Join join({&summer});
  const auto run = [&] {
    join.run([&] {
      if (world.rank() == 0) group.destroy();
      run_steps(world, summer);
    });
  };
  if (world.rank() == 0)
    expect_error(ErrorKind::usage, run, {"has been destroyed"});
  else
    expect_named(0, run, {"has been destroyed"});
  expect_world_works(world);
}

RANK_TEST(JoinFailure, ABodyThatIsNoFunction) {
  ProcessGroup group = fresh_group(world, "given up");
  Summer summer(group);
  Join join({&summer});
  EXPECT_THROW(join.run(nullptr), std::bad_function_call);
  expect_world_works(world);
}

RANK_TEST(JoinFailure, TheWidestGroupComesFirst) {
  NEEDS_RANKS(2);
  ProcessGroup narrow = world.new_group({0}, {.description = "narrow"});
  Summer first(narrow);
  Summer second(world.group());
  Join join({&first, &second});
  if (world.rank() == 0)
    expect_error(ErrorKind::usage, [&] { join.run([] {}); }, {"[0]", "widest group first"});
  else
    join.run([] {});
  expect_world_works(world);
}

}  // namespace
}  // namespace hymn::test
