// What a join costs ranks that still have input: all_reduces as they are, and the same in the scope
// of a join, of each kind.
//
//   scripts/mpirun -n 2 build/bin/bench_join
//
// The ways take turns in blocks of calls; each block's mean is that of the slowest rank, of those
// that still have input. The input changes with every call, and every result is looked at.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "bench/turns.hpp"
#include "hymn/hymn.hpp"

namespace hymn {
namespace {

using namespace bench;

constexpr std::size_t blocks = 101;
constexpr std::size_t largest_bytes = std::size_t{4} << 20;
constexpr std::size_t scopes = 200;

class Job {
 public:
  explicit Job(World& world)
      : rank_(world.rank()),
        size_(world.size()),
        beside_(world.new_group(world.group().membership().ranks)) {}
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// On a group of their own: what a join watches is not touched.
  void meet() const { ProcessGroup(beside_).barrier(); }
  std::vector<double> slowest(std::vector<double> values) const {
    ProcessGroup(beside_).all_reduce(values, ReduceOp::max);
    return values;
  }
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) const {
    if (rank_ == 0) fmt::print(format, std::forward<Args>(args)...);
  }

 private:
  int rank_;
  int size_;
  ProcessGroup beside_;
};

/// Something to be joined whose hook is never needed here: all ranks have as many inputs.
class EvenJoinable final : public Joinable {
 public:
  explicit EvenJoinable(ProcessGroup group) : group_(std::move(group)) {}
  std::unique_ptr<JoinHook> join_hook(const JoinArguments&) override {
    return std::make_unique<JoinHook>();
  }
  ProcessGroup join_group() const override { return group_; }

 private:
  ProcessGroup group_;
};

/// Microseconds of one call, in a block of so many.
using Way = std::function<double(Data& data, std::size_t iterations)>;

class Bench {
 public:
  explicit Bench(World& world) : job_(world), group_(world.group()), joinable_(world.group()) {}

  void even_table();
  void uneven_table();
  void scope_costs();
  /// On any rank.
  bool had_wrong_results() const { return job_.slowest({static_cast<double>(wrong_)}).front() > 0; }

 private:
  /// The all_reduce that all ways make. `ranks`: how many give more than zeros.
  void call(Data& data, int ranks) {
    group_.all_reduce(data.in, data.out);
    const float expected = data.in.front() * static_cast<float>(ranks);
    if (data.out.front() != expected || (data.out.size() > 1 && data.out.back() != 0)) ++wrong_;
  }
  double plain(Data& data, std::size_t iterations) {
    return time_block(job_, data, iterations, [&] { call(data, job_.size()); });
  }
  /// With a small all_reduce before each: what joinables cannot do without.
  double with_small(Data& data, std::size_t iterations) {
    std::array<std::int32_t, 3> small{};
    return time_block(job_, data, iterations, [&] {
      small = {1, 0, 0};
      group_.all_reduce(small);
      call(data, job_.size());
    });
  }
  double joined(Data& data, std::size_t iterations, bool enable) {
    double us = 0;
    Join join({&joinable_}, {.enable = enable});
    join.run([&] {
      us = time_block(job_, data, iterations, [&] {
        Join::notify(joinable_);
        call(data, job_.size());
      });
    });
    return us;
  }
  double shadowed(Data& data, std::size_t iterations, bool last_rank_runs) {
    double us = 0;
    const int running = job_.size() - (last_rank_runs ? 0 : 1);
    Join::shadow_all({group_}, [&] {
      if (job_.rank() < running)
        us = time_block(job_, data, iterations, [&] { call(data, running); });
      else
        job_.meet();
    });
    return us;
  }
  struct Side {
    std::string_view name;
    Way run;
  };
  void table(std::string_view title, const std::vector<Side>& sides);
  void row(Data& data, const std::vector<Side>& sides);

  Job job_;
  ProcessGroup group_;
  EvenJoinable joinable_;
  std::size_t wrong_ = 0;
};

/// The first side is what the others are compared with, turn by turn.
void Bench::row(Data& data, const std::vector<Side>& sides) {
  const std::size_t iterations = enough_iterations(job_, data, [&] { call(data, job_.size()); });
  std::vector<std::vector<double>> means(sides.size(), std::vector<double>(blocks));
  for (const Side& side : sides) side.run(data, iterations);
  for (std::size_t block = 0; block < blocks; ++block)
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const std::size_t side = (block + i) % sides.size();
      means[side][block] = sides[side].run(data, iterations);
    }
  for (std::vector<double>& side : means) side = job_.slowest(std::move(side));
  for (std::size_t side = 0; side < sides.size(); ++side) {
    std::vector<double> added(blocks);
    std::vector<double> ratios(blocks);
    for (std::size_t block = 0; block < blocks; ++block) {
      added[block] = 1000 * (means[side][block] - means[0][block]);
      ratios[block] = means[side][block] / means[0][block];
    }
    const BenchTimes us = figures_of(means[side]);
    job_.print("{:>9}  {:<28}{:>10.3f}{:>10.3f}{:>10.3f}{:>12.1f}{:>9.3f}\n",
               side == 0 ? fmt::format("{}", data.in.size() * sizeof(float)) : "", sides[side].name,
               us.median, us.min, us.max, figures_of(added).median, figures_of(ratios).median);
  }
}

void Bench::table(std::string_view title, const std::vector<Side>& sides) {
  job_.print("\n{}\n{:>9}  {:<28}{:>10}{:>10}{:>10}{:>12}{:>9}\n", title, "bytes", "microseconds",
             "median", "min", "max", "added, ns", "ratio");
  for (std::size_t bytes = sizeof(float); bytes <= largest_bytes; bytes *= 4) {
    Data data(bytes);
    row(data, sides);
  }
}

void Bench::even_table() {
  table("all ranks have as many inputs",
        {{"no join", [&](Data& data, std::size_t n) { return plain(data, n); }},
         {"shadow_all", [&](Data& data, std::size_t n) { return shadowed(data, n, true); }},
         {"joinables, not enabled",
          [&](Data& data, std::size_t n) { return joined(data, n, false); }},
         {"joinables", [&](Data& data, std::size_t n) { return joined(data, n, true); }},
         {"no join, all_reduce of 12 B",
          [&](Data& data, std::size_t n) { return with_small(data, n); }}});
}

void Bench::uneven_table() {
  table("the last rank has run out: the others' calls",
        {{"no join, nobody has run out", [&](Data& data, std::size_t n) { return plain(data, n); }},
         {"shadow_all", [&](Data& data, std::size_t n) { return shadowed(data, n, false); }}});
}

void Bench::scope_costs() {
  Data nothing(sizeof(float));
  const double shadow =
      time_block(job_, nothing, scopes, [&] { Join::shadow_all({group_}, [] {}); });
  const double run = time_block(job_, nothing, scopes, [&] { Join({&joinable_}).run([] {}); });
  const std::vector<double> us = job_.slowest({shadow, run});
  job_.print("\na scope around nothing: shadow_all {:.2f} us, joinables {:.2f} us\n", us[0], us[1]);
}

int run() {
  World world;
  Bench bench(world);
  if (world.rank() == 0)
    fmt::print("# hymn {}, {} ranks; float32 sum, out of place; {} turns\n", version(),
               world.size(), blocks);
  bench.scope_costs();
  bench.even_table();
  if (world.size() > 1) bench.uneven_table();
  if (!bench.had_wrong_results()) return 0;
  if (world.rank() == 0) fmt::print(stderr, "bench_join: wrong results\n");
  return 1;
}

}  // namespace
}  // namespace hymn

int main() { return hymn::run(); }
