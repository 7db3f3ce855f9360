// Joins at random, from a seed: groups that overlap, ranks with any number of inputs, any calls in
// each iteration, by hooks or in the shadow of the others, and now and then an exception. What
// every rank gets is compared with what a loop over the ranks says that it should get, bit for bit.
//
// TEST_CASES says how many, TEST_FIRST_CASE the first: its number is its seed.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <numeric>

#include "tests/support/join_script.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

std::uint64_t number_in(const char* variable, std::uint64_t usual) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

/// One rank's part on one group: makes the calls of an iteration, and compares what it gets.
class Part : public Joinable {
 public:
  Part(const Script& script, std::size_t which, ProcessGroup group, int rank)
      : script_(script), which_(which), group_(std::move(group)), rank_(rank) {}
  const ProcessGroup& group() const { return group_; }
  /// A hash of each result that was rounded.
  const std::vector<std::uint64_t>& bits() const { return bits_; }

  void run(int iteration) {
    if (script_.by_hooks) Join::notify(*this);
    play(iteration);
    ++played_;
  }
  std::unique_ptr<JoinHook> join_hook(const JoinArguments&) override {
    return std::make_unique<Hook>(*this);
  }
  ProcessGroup join_group() const override { return group_; }

 private:
  class Hook : public JoinHook {
   public:
    explicit Hook(Part& part) : part_(part) {}
    void main_hook() override { part_.play(part_.played_++); }

   private:
    Part& part_;
  };

  const std::vector<int>& members() const { return script_.groups[which_]; }
  bool am_active() const { return script_.is_active(rank_, iteration_); }
  int count_active() const {
    return static_cast<int>(std::ranges::count_if(
        members(), [this](int rank) { return script_.is_active(rank, iteration_); }));
  }
  /// Small, so that no sum of them overflows or is rounded.
  std::int64_t value(int rank, std::size_t i) const {
    const auto salt = static_cast<std::size_t>(rank * 31 + iteration_ * 7) + at_ * 13 + i * 3;
    return static_cast<std::int64_t>(salt % 101) - 50;
  }
  template <class Value>
  std::vector<Value> given(std::size_t count, Value nothing) const {
    std::vector<Value> values(count, nothing);
    for (std::size_t i = 0; am_active() && i < count; ++i)
      values[i] = static_cast<Value>(value(rank_, i));
    return values;
  }
  /// Of those that are active, folded element by element.
  template <class Value, class Fold>
  std::vector<Value> expected(std::size_t count, Value nothing, Fold fold) const {
    std::vector<Value> values(count, nothing);
    for (const int rank : members())
      for (std::size_t i = 0; script_.is_active(rank, iteration_) && i < count; ++i)
        values[i] = fold(values[i], static_cast<Value>(value(rank, i)));
    return values;
  }
  std::vector<std::int64_t> expected_sum(std::size_t count) const {
    return expected<std::int64_t>(count, 0, std::plus<>());
  }
  int acting_root(int preferred) {
    const int rank = group_.global_rank(preferred);
    const int root =
        script_.by_hooks ? Join::acting_root(*this, rank) : Join::acting_root(group_, rank);
    EXPECT_TRUE(count_active() == 0 || script_.is_active(root, iteration_)) << root;
    return root;
  }
  template <class Value>
  void compare(const std::vector<Value>& is, const std::vector<Value>& should) const {
    if (am_active()) {
      EXPECT_EQ(is, should);
    }
  }

  void play(int iteration) {
    iteration_ = iteration;
    at_ = 0;
    for (const Step& step : script_.steps(which_, iteration)) {
      SCOPED_TRACE("iteration " + std::to_string(iteration) + ", group " + std::to_string(which_) +
                   ", deed " + std::to_string(static_cast<int>(step.deed)));
      perform(step);
      ++at_;
    }
  }
  void perform(const Step& step) {
    switch (step.deed) {
      case Deed::sum:
        return reduce_all(step.count);
      case Deed::largest:
        return find_largest(step.count);
      case Deed::average:
        return find_average();
      case Deed::several:
        return start_several(step.count);
      case Deed::bits:
        return sum_bits(step.count);
      case Deed::all_gather:
        return gather_all(step.count);
      case Deed::all_to_all:
        return exchange_all(step.count);
      case Deed::reduce_scatter:
        return scatter_sums(step.count);
      case Deed::broadcast:
        return bring(step);
      case Deed::reduce:
        return reduce_to_one(step);
      case Deed::barrier:
        return group_.barrier();
      case Deed::all_gather_uneven:
        return gather_uneven(step.count);
      case Deed::all_to_all_uneven:
        return exchange_uneven(step.count);
    }
  }

  void reduce_all(std::size_t count) {
    auto values = given<std::int64_t>(count, 0);
    group_.all_reduce(values);
    compare(values, expected_sum(count));
  }
  void find_largest(std::size_t count) {
    constexpr auto lowest = std::numeric_limits<std::int32_t>::min();
    auto values = given<std::int32_t>(count, lowest);
    group_.all_reduce(values, ReduceOp::max);
    compare(values,
            expected<std::int32_t>(count, lowest, [](auto a, auto b) { return std::max(a, b); }));
  }
  void find_average() {
    const bool is_active_only = !script_.by_hooks || script_.divisor == JoinDivisor::active;
    const int divisor = is_active_only ? std::max(count_active(), 1) : group_.size();
    auto values = given<double>(1, 0);
    group_.all_reduce(values, script_.by_hooks ? Join::average(*this) : Join::average(group_));
    if (am_active()) {
      EXPECT_NEAR(values[0], static_cast<double>(expected_sum(1)[0]) / divisor, 1e-12);
      bits_.push_back(std::bit_cast<std::uint64_t>(values[0]));
    }
  }
  void start_several(std::size_t count) {
    std::array<std::vector<std::int64_t>, 3> values;
    std::vector<Work> works;
    for (auto& each : values) {
      each = given<std::int64_t>(count, 0);
      works.push_back(group_.all_reduce_async(each));
    }
    // All of them: the buffers go.
    std::exception_ptr failure;
    for (Work& work : works) {
      try {
        work.wait();
      } catch (...) {
        failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
    for (const auto& each : values) compare(each, expected_sum(count));
  }
  void sum_bits(std::size_t count) {
    std::vector<double> values(count, -0.0);
    for (std::size_t i = 0; am_active() && i < count; ++i)
      values[i] = 1.0 / static_cast<double>(value(rank_, i) + 60);
    group_.all_reduce(values);
    std::uint64_t hash = 0;
    for (const double each : values) hash = hash * 31 + std::bit_cast<std::uint64_t>(each);
    if (am_active()) bits_.push_back(hash);
  }
  /// What a member gives as elements `first` and following of its input; or what is declared, where
  /// it has run out.
  void append_given(std::vector<std::int32_t>& to, int rank, std::size_t first,
                    std::size_t count) const {
    const double fill = script_.by_hooks ? 0 : script_.fill;
    for (std::size_t i = first; i < first + count; ++i)
      to.push_back(static_cast<std::int32_t>(
          script_.is_active(rank, iteration_) ? static_cast<double>(value(rank, i)) : fill));
  }
  void gather_all(std::size_t count) {
    const auto mine = given<std::int32_t>(count, 0);
    std::vector<std::int32_t> all(count * members().size());
    group_.all_gather(mine, all);
    std::vector<std::int32_t> should;
    for (const int rank : members()) append_given(should, rank, 0, count);
    compare(all, should);
  }
  void exchange_all(std::size_t count) {
    const auto mine = given<std::int32_t>(count * members().size(), 0);
    std::vector<std::int32_t> all(count * members().size());
    group_.all_to_all(mine, all);
    std::vector<std::int32_t> should;
    for (const int rank : members())
      append_given(should, rank, as_size(group_.rank()) * count, count);
    compare(all, should);
  }
  void gather_uneven(std::size_t salt) {
    std::vector<std::size_t> counts;
    std::vector<std::int32_t> should;
    for (std::size_t member = 0; member < members().size(); ++member) {
      counts.push_back((salt + member * 3) % 11);
      append_given(should, members()[member], 0, counts.back());
    }
    const auto mine = given<std::int32_t>(counts[as_size(group_.rank())], 0);
    std::vector<std::int32_t> all(should.size());
    group_.all_gather(mine, all, counts);
    compare(all, should);
  }
  void exchange_uneven(std::size_t salt) {
    const auto between = [&](std::size_t from, std::size_t to) {
      return (salt + from * 5 + to * 3) % 7;
    };
    const std::size_t me = as_size(group_.rank());
    std::vector<std::size_t> to;
    std::vector<std::size_t> from;
    std::vector<std::int32_t> should;
    for (std::size_t member = 0; member < members().size(); ++member) {
      to.push_back(between(me, member));
      from.push_back(between(member, me));
      std::size_t first = 0;
      for (std::size_t before = 0; before < me; ++before) first += between(member, before);
      append_given(should, members()[member], first, from.back());
    }
    const auto mine = given<std::int32_t>(std::accumulate(to.begin(), to.end(), std::size_t{0}), 0);
    std::vector<std::int32_t> all(should.size());
    group_.all_to_all(mine, to, all, from);
    compare(all, should);
  }
  void scatter_sums(std::size_t count) {
    const auto mine = given<std::int64_t>(count * members().size(), 0);
    std::vector<std::int64_t> block(count);
    group_.reduce_scatter(mine, block);
    const auto all = expected_sum(mine.size());
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(as_size(group_.rank()) * count);
    compare(block, std::vector(first, first + static_cast<std::ptrdiff_t>(count)));
  }
  void bring(const Step& step) {
    const int root = acting_root(step.preferred);
    auto values = given<std::int64_t>(step.count, 0);
    group_.broadcast(values, root);
    std::vector<std::int64_t> should;
    for (std::size_t i = 0; i < step.count; ++i) should.push_back(value(root, i));
    compare(values, should);
  }
  void reduce_to_one(const Step& step) {
    const int root = acting_root(step.preferred);
    const auto mine = given<std::int64_t>(step.count, 0);
    std::vector<std::int64_t> all(rank_ == root ? step.count : 0);
    group_.reduce(mine, all, root);
    if (rank_ == root) compare(all, expected_sum(step.count));
  }

  const Script& script_;
  std::size_t which_;
  ProcessGroup group_;
  int rank_;
  int iteration_ = 0;
  int played_ = 0;
  std::size_t at_ = 0;
  std::vector<std::uint64_t> bits_;
};

struct Thrown : std::runtime_error {
  Thrown() : std::runtime_error("thrown by the test") {}
};

using Parts = std::vector<std::unique_ptr<Part>>;

void run_parts(const Script& script, const Parts& parts, int rank) {
  const auto body = [&] {
    for (int iteration = 0; iteration < script.inputs[as_size(rank)]; ++iteration) {
      if (rank == script.thrower && iteration == script.throws_at) throw Thrown();
      for (const auto& part : parts)
        if (part->group().is_member()) part->run(iteration);
    }
  };
  if (script.by_hooks) {
    std::vector<Joinable*> joinables;
    for (const auto& part : parts) joinables.push_back(part.get());
    Join(joinables, {.divisor = script.divisor}).run(body);
  } else {
    std::vector<ProcessGroup> groups;
    for (const auto& part : parts) groups.push_back(part->group());
    Join::shadow_all(groups, body, {.fill = script.fill});
  }
}

/// Everybody has what the one has that ran longest, as far as it ran itself.
void expect_same_bits(World& world, const Script& script, const std::vector<std::uint64_t>& mine) {
  const auto longest = std::ranges::max_element(script.inputs);
  const auto root = static_cast<int>(longest - script.inputs.begin());
  std::uint64_t count = mine.size();
  world.group().broadcast(view_of(count), root);
  std::vector<std::uint64_t> all = mine;
  all.resize(count);
  world.group().broadcast(all, root);
  ASSERT_LE(mine.size(), all.size());
  EXPECT_TRUE(std::ranges::equal(mine, std::span(all).first(mine.size())));
}

void expect_the_others_freed(const Script& script, int rank, const std::function<void()>& run) {
  if (rank == script.thrower) {
    EXPECT_THROW(run(), Thrown);
    return;
  }
  const Error error = failure_of(run, {"thrown by the test"});
  EXPECT_EQ(std::ranges::count(error.context().missing, script.thrower), 1) << error.what();
}

void run_case(World& world, std::uint64_t seed) {
  const Script script(seed, world.size());
  SCOPED_TRACE(script.told());
  Parts parts;
  for (std::size_t which = 0; which < script.groups.size(); ++which)
    parts.push_back(
        std::make_unique<Part>(script, which, world.new_group(script.groups[which]), world.rank()));
  const auto run = [&] { run_parts(script, parts, world.rank()); };
  if (script.thrower >= 0) {
    expect_the_others_freed(script, world.rank(), run);
  } else {
    try {
      run();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();  // with what SCOPED_TRACE tells
      throw;
    }
    expect_same_bits(world, script, parts.front()->bits());
  }
  expect_world_works(world);
}

RANK_TEST(JoinCases, AtRandom) {
  const std::uint64_t first = number_in("TEST_FIRST_CASE", 1);
  const std::uint64_t cases = number_in("TEST_CASES", 4);
  for (std::uint64_t seed = first; seed < first + cases; ++seed) run_case(world, seed);
}

}  // namespace
}  // namespace hymn::test
