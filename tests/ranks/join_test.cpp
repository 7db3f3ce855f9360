// Ranks with unequal inputs: who has run out shadows the others, and nobody waits for ever.
#include <array>

#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

constexpr std::int32_t before_post_hook = 41;
constexpr std::int32_t after_post_hook = 42;
/// Rank i has so many inputs and i more.
constexpr int base_inputs = 3;

/// What the hooks of an AllReducer are told.
struct Shadowing {
  int all_reduces = 1;
  bool post_hooks = false;
};

std::int32_t reduced(ProcessGroup group, std::int32_t value, ReduceOp op = {}) {
  group.all_reduce(view_of(value), op);
  return value;
}

/// Makes all_reduces of ones in each iteration; its hook makes the same of zeros. The post-hook
/// brings a number from the highest of the last ranks to all.
class AllReducer : public Joinable {
 public:
  explicit AllReducer(ProcessGroup group) : group_(std::move(group)) {}

  std::int32_t operator()(int all_reduces = 1) {
    Join::notify(*this);
    std::int32_t total = 0;
    for (int i = 0; i < all_reduces; ++i) total += reduced(group_, 1);
    return total;
  }
  std::int32_t brought() const { return brought_; }
  /// What its post-hook was told.
  bool was_last() const { return was_last_; }

  std::unique_ptr<JoinHook> join_hook(const JoinArguments& arguments) override {
    return std::make_unique<Hook>(*this, arguments.get_or(Shadowing{}));
  }
  ProcessGroup join_group() const override { return group_; }

 private:
  class Hook : public JoinHook {
   public:
    Hook(AllReducer& owner, Shadowing shadowing) : owner_(owner), shadowing_(shadowing) {}
    void main_hook() override {
      for (int i = 0; i < shadowing_.all_reduces; ++i) reduced(owner_.group_, 0);
    }
    void post_hook(bool is_last_joiner) override {
      owner_.was_last_ = is_last_joiner;
      if (shadowing_.post_hooks) owner_.bring(is_last_joiner);
    }

   private:
    AllReducer& owner_;
    Shadowing shadowing_;
  };

  void bring(bool may_give) {
    const int rank = group_.global_rank(group_.rank());
    const std::int32_t giver = reduced(group_, may_give ? rank : -1, ReduceOp::max);
    EXPECT_GE(giver, 0);
    if (giver == rank) brought_ = after_post_hook;
    group_.broadcast(view_of(brought_), giver);
  }

  ProcessGroup group_;
  std::int32_t brought_ = before_post_hook;
  bool was_last_ = false;
};

/// Sum over `inputs` iterations of the ranks that are still there, where rank i has as many inputs
/// as `inputs_of(i)`.
std::int32_t total_of(int ranks, int inputs, const std::function<int(int)>& inputs_of) {
  std::int32_t total = 0;
  for (int iteration = 0; iteration < inputs; ++iteration)
    for (int rank = 0; rank < ranks; ++rank) total += iteration < inputs_of(rank) ? 1 : 0;
  return total;
}
int uneven(int rank) { return base_inputs + rank; }

struct Case {
  bool uneven_inputs = true;
  std::size_t joinables = 1;
  Shadowing shadowing{};
  JoinOptions options{};
};

void run_case(World& world, Case the_case) {
  std::vector<std::unique_ptr<AllReducer>> reducers;
  std::vector<Joinable*> joinables;
  for (std::size_t i = 0; i < the_case.joinables; ++i) {
    reducers.push_back(std::make_unique<AllReducer>(world.group()));
    joinables.push_back(reducers.back().get());
  }
  const auto inputs_of = [&](int rank) {
    return the_case.uneven_inputs ? uneven(rank) : base_inputs;
  };
  the_case.options.arguments = {the_case.shadowing};
  Join join(joinables, the_case.options);
  std::int32_t total = 0;
  join.run([&] {
    for (int input = 0; input < inputs_of(world.rank()); ++input)
      for (const auto& reducer : reducers) total += (*reducer)(the_case.shadowing.all_reduces);
  });
  EXPECT_EQ(total, total_of(world.size(), inputs_of(world.rank()), inputs_of) *
                       static_cast<int>(the_case.joinables) * the_case.shadowing.all_reduces);
  const bool is_last = inputs_of(world.rank()) == inputs_of(world.size() - 1);
  for (const auto& reducer : reducers) {
    EXPECT_EQ(reducer->brought(),
              the_case.shadowing.post_hooks ? after_post_hook : before_post_hook);
    EXPECT_EQ(reducer->was_last(), is_last && the_case.options.enable);
  }
  expect_world_works(world);
}

/// Broadcasts from whoever stands in for rank 0, which runs out first; its hook does the same.
class FromFirst : public Joinable {
 public:
  explicit FromFirst(ProcessGroup group) : group_(std::move(group)) {}
  /// The root, and what came from it.
  std::pair<int, std::int32_t> operator()() {
    Join::notify(*this);
    return bring();
  }
  std::unique_ptr<JoinHook> join_hook(const JoinArguments&) override {
    return std::make_unique<Hook>(*this);
  }
  ProcessGroup join_group() const override { return group_; }

 private:
  class Hook : public JoinHook {
   public:
    explicit Hook(FromFirst& owner) : owner_(owner) {}
    void main_hook() override { owner_.bring(); }

   private:
    FromFirst& owner_;
  };
  std::pair<int, std::int32_t> bring() {
    const int root = Join::acting_root(*this, 0);
    std::int32_t value = group_.global_rank(group_.rank());
    group_.broadcast(view_of(value), root);
    return {root, value};
  }

  ProcessGroup group_;
};

RANK_TEST(Join, RootsAreStoodInFor) {
  FromFirst from_first(world.group());
  const auto inputs_of = [&](int rank) { return 1 + (rank + 1) % world.size(); };
  Join join({&from_first});
  join.run([&] {
    for (int input = 0; input < inputs_of(world.rank()); ++input) {
      int expected = 0;
      while (inputs_of(expected) <= input) ++expected;
      EXPECT_EQ(from_first(), std::pair(expected, expected));
    }
  });
  EXPECT_EQ(from_first(), std::pair(0, 0)) << "outside of a run";
}

RANK_TEST(Join, test_single_joinable_main_hooks) { run_case(world, {}); }

RANK_TEST(Join, test_single_joinable_post_hooks) {
  run_case(world, {.shadowing = {.all_reduces = 0, .post_hooks = true}});
}

RANK_TEST(Join, test_single_joinable) { run_case(world, {.shadowing = {.post_hooks = true}}); }

RANK_TEST(Join, test_multiple_joinables) {
  run_case(world, {.joinables = 3, .shadowing = {.post_hooks = true}});
}

RANK_TEST(Join, test_single_joinable_disable) {
  run_case(world, {.uneven_inputs = false, .options = {.enable = false}});
}

RANK_TEST(Join, test_multiple_joinable_disable) {
  run_case(world, {.uneven_inputs = false, .joinables = 3, .options = {.enable = false}});
}

RANK_TEST(Join, test_join_kwargs) { run_case(world, {.shadowing = {.all_reduces = 2}}); }

RANK_TEST(Join, EvenInputsNeedNoShadow) {
  run_case(world, {.uneven_inputs = false,
                   .shadowing = {.post_hooks = true},
                   .options = {.throw_on_early_termination = true}});
}

/// Rank 0 runs out first. All throw in step, so that everything works on.
void expect_early_termination(World& world, std::size_t joinables) {
  const Case the_case{.joinables = joinables, .options = {.throw_on_early_termination = true}};
  const std::string words =
      world.rank() == 0
          ? "Rank 0 exhausted all inputs."
          : "Detected at least one rank that exhausted inputs. Throwing across all ranks.";
  const Error error =
      failure_of([&] { run_case(world, the_case); }, {words, "default_pg", "join", "remedy"});
  EXPECT_EQ(error.kind(), ErrorKind::usage);
  EXPECT_EQ(error.context().missing, std::vector<int>{0});
  expect_world_works(world);
  EXPECT_THROW(run_case(world, the_case), EarlyTermination);
  expect_world_works(world);
}

RANK_TEST(Join, test_single_joinable_throw) {
  NEEDS_RANKS(2);
  expect_early_termination(world, 1);
}

RANK_TEST(Join, test_multiple_joinables_throw) {
  NEEDS_RANKS(2);
  expect_early_termination(world, 3);
}

RANK_TEST(Join, EarlyTerminationCannotBeSwallowed) {
  NEEDS_RANKS(2);
  AllReducer reducer(world.group());
  Join join({&reducer}, {.throw_on_early_termination = true});
  EXPECT_THROW(join.run([&] {
    for (int input = 0; input < uneven(world.rank()); ++input) {
      try {
        reducer();
      } catch (const EarlyTermination&) {
      }
    }
  }),
               EarlyTermination);
  expect_world_works(world);
}

// --- More than one group, more than one run

RANK_TEST(Join, RunsAgainAndAgain) {
  AllReducer reducer(world.group());
  Join join({&reducer}, {.arguments = {Shadowing{.post_hooks = true}}});
  for (int epoch = 0; epoch < 4; ++epoch) {
    // Also nothing at all, and another rank that is first.
    const auto inputs_of = [&](int rank) { return (rank * 3 + epoch * 2) % 5; };
    std::int32_t total = 0;
    join.run([&] {
      for (int input = 0; input < inputs_of(world.rank()); ++input) total += reducer();
    });
    EXPECT_EQ(total, total_of(world.size(), inputs_of(world.rank()), inputs_of));
    EXPECT_EQ(reducer.brought(), after_post_hook);
  }
}

RANK_TEST(Join, OfJoinablesOnSeveralGroups) {
  NEEDS_RANKS(3);
  ProcessGroup pair = world.new_group({0, 2}, {.description = "pair"});
  AllReducer wide(world.group());
  AllReducer narrow(pair);
  Join join({&wide, &narrow}, {.arguments = {Shadowing{.post_hooks = true}}});
  std::int32_t total = 0;
  join.run([&] {
    for (int input = 0; input < uneven(world.rank()); ++input) {
      wide();
      if (pair.is_member()) total += narrow();
    }
  });
  EXPECT_EQ(total, world.rank() == 0 ? 6 : world.rank() == 2 ? 8 : 0);
  EXPECT_EQ(narrow.brought(), pair.is_member() ? after_post_hook : before_post_hook);
  EXPECT_EQ(narrow.was_last(), world.rank() == 2);
}

RANK_TEST(Join, OfDisjointGroupsAtTheSameTime) {
  NEEDS_RANKS(2);
  std::vector<int> even;
  std::vector<int> odd;
  for (int rank = 0; rank < world.size(); ++rank) (rank % 2 == 0 ? even : odd).push_back(rank);
  const std::array groups = {world.new_group(even), world.new_group(odd)};
  const int mine = world.rank() % 2;
  AllReducer reducer(groups[static_cast<std::size_t>(mine)]);
  Join join({&reducer});
  std::int32_t total = 0;
  join.run([&] {
    for (int input = 0; input < uneven(world.rank()); ++input) total += reducer();
  });
  const auto inputs_of = [&](int rank) { return rank % 2 == mine ? uneven(rank) : 0; };
  EXPECT_EQ(total, total_of(world.size(), uneven(world.rank()), inputs_of));
}

RANK_TEST(Join, OutsideOfItsGroupJustRunsTheBody) {
  NEEDS_RANKS(2);
  ProcessGroup first = world.new_group({0});
  AllReducer reducer(first);
  Join join({&reducer}, {.arguments = {Shadowing{.post_hooks = true}}});
  int runs = 0;
  join.run([&] { ++runs; });
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(reducer.brought(), world.rank() == 0 ? after_post_hook : before_post_hook);
}

// --- Averages and progress

/// Averages the ranks' numbers, from 1 on, over those that have input.
class Averager : public Joinable {
 public:
  explicit Averager(ProcessGroup group) : group_(std::move(group)) {}
  double average(double value) {
    Join::notify(*this);
    return reduce(value);
  }
  std::unique_ptr<JoinHook> join_hook(const JoinArguments&) override {
    struct Hook : JoinHook {
      explicit Hook(Averager& averager) : owner(averager) {}
      void main_hook() override { owner.reduce(0); }
      Averager& owner;
    };
    return std::make_unique<Hook>(*this);
  }
  ProcessGroup join_group() const override { return group_; }

 private:
  double reduce(double value) {
    group_.all_reduce(view_of(value), Join::average(*this));
    return value;
  }
  ProcessGroup group_;
};

void expect_averages(World& world, JoinDivisor divisor) {
  Averager averager(world.group());
  EXPECT_EQ(Join::divisor(averager), world.size());
  Join join({&averager}, {.divisor = divisor});
  join.run([&] {
    for (int input = 0; input < uneven(world.rank()); ++input) {
      // Those with more inputs than this, and what they give.
      double sum = 0;
      int active = 0;
      for (int rank = 0; rank < world.size(); ++rank)
        if (uneven(rank) > input) sum += rank + 1, ++active;
      const int by = divisor == JoinDivisor::active ? active : world.size();
      EXPECT_DOUBLE_EQ(averager.average(world.rank() + 1), sum / by);
      EXPECT_EQ(Join::divisor(averager), by);
      EXPECT_EQ(join.status().active, active);
    }
  });
  EXPECT_EQ(Join::divisor(averager), world.size());
}

RANK_TEST(Join, AveragesOfTheRanksWithInput) { expect_averages(world, JoinDivisor::active); }
RANK_TEST(Join, AveragesOfAllRanks) { expect_averages(world, JoinDivisor::initial); }

RANK_TEST(Join, StatusTellsWhoHasRunOut) {
  AllReducer reducer(world.group());
  Join join({&reducer});
  EXPECT_EQ(join.status().iterations, 0u);
  const TimePoint began = std::chrono::steady_clock::now();
  // The highest rank has nothing at all.
  const auto inputs_of = [&](int rank) { return world.size() - 1 - rank; };
  join.run([&] {
    for (int input = 0; input < inputs_of(world.rank()); ++input) {
      reducer();
      const JoinStatus status = join.status();
      EXPECT_EQ(status.iterations, static_cast<std::uint64_t>(input) + 1);
      EXPECT_EQ(status.active, world.size() - 1 - input);
      EXPECT_EQ(status.joined.size(), static_cast<std::size_t>(input) + 1);
    }
  });
  const JoinStatus status = join.status();
  EXPECT_EQ(status.active, 0);
  EXPECT_EQ(status.iterations, ranks_as_size(world) - 1);
  ASSERT_EQ(status.joined.size(), ranks_as_size(world));
  TimePoint last = began;
  for (std::size_t i = 0; i < status.joined.size(); ++i) {
    EXPECT_EQ(status.joined[i].rank, world.size() - 1 - static_cast<int>(i));
    EXPECT_EQ(status.joined[i].iterations, i);
    EXPECT_GE(status.joined[i].since, last);
    last = status.joined[i].since;
  }
}

}  // namespace
}  // namespace hymn::test
