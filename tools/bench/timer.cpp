#include "tools/bench/timer.hpp"

#include <cstring>
#include <new>
#include <utility>

namespace hymn {

namespace {

constexpr std::size_t most_block_iterations = 20000;

// The least of several tries: whatever interrupts one of them is not the clock's.
double cost_of_clock() {
  using Clock = std::chrono::steady_clock;
  constexpr int calls = 200;
  double least = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto begin = Clock::now();
    for (int i = 1; i < calls; ++i) static_cast<void>(Clock::now());
    const std::chrono::duration<double, std::micro> spent = Clock::now() - begin;
    least = attempt == 0 ? spent.count() / calls : std::min(least, spent.count() / calls);
  }
  return least;
}

}  // namespace

BenchTally::BenchTally(World& world, const BenchCase& bench_case, DataType dtype, ReduceOp op)
    : world_(world),
      all_(world.group()),
      case_(bench_case),
      dtype_(dtype),
      op_(op),
      input_(bench_input(dtype, op.kind(), world.size())),
      clock_us_(cost_of_clock()) {
  const int reduced = bench_case.reduced_ranks(world.rank(), world.size());
  if (bench_case.reduces) result_ = bench_result(dtype, op, world.size(), reduced);
}

BenchTimer::BenchTimer(World& world, const BenchCase& bench_case, DataType dtype, ReduceOp op,
                       std::size_t bytes)
    : BenchTally(world, bench_case, dtype, op),
      first_(page_aligned(bytes)),
      second_(page_aligned(bytes)) {}

BenchTimer::Memory BenchTimer::page_aligned(std::size_t bytes) {
  constexpr std::size_t page = 4096;
  const std::size_t rounded = (bytes / page + 1) * page;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(page, rounded));
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, rounded);
  return Memory(memory);
}

std::size_t BenchTally::enough_iterations(double block_us,
                                          const std::function<double(std::size_t)>& mean) {
  return hymn::enough_iterations(
      block_us, most_block_iterations, mean,
      [this](std::vector<double> means) { return on_slowest(std::move(means)); });
}

std::vector<double> BenchTally::on_slowest(std::vector<double> means) {
  all_.all_reduce(BufferView(means), ReduceOp::max);
  return means;
}

BenchTimes BenchTally::slowest(std::vector<double> block_means) {
  return figures_of(on_slowest(std::move(block_means)));
}

std::uint64_t BenchTally::take_wrong() {
  std::uint64_t wrong = std::exchange(wrong_, 0);
  all_.all_reduce(view_of(wrong));
  return wrong;
}

void BenchTally::verify(const BenchCall& call, std::size_t phase, const void* found) {
  const PeriodicData& expected = result_ ? *result_ : input_;
  const auto* const begin = static_cast<const std::byte*>(call.output().data);
  for (const BenchCall::Expected& part : call.expected()) {
    ConstBufferView got = part.where;
    got.data =
        static_cast<const std::byte*>(found) + (static_cast<const std::byte*>(got.data) - begin);
    wrong_ += expected.count_wrong(got, part.phase + phase);
  }
}

double BenchTally::mean_us(Clock::duration spent, std::size_t iterations) const {
  const double us = std::chrono::duration<double, std::micro>(spent).count();
  return std::max(us / static_cast<double>(iterations) - clock_us_, 0.0);
}

}  // namespace hymn
