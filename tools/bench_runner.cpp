// Blocks of timed iterations, their verification, and the figures made of them.
#include "tools/bench_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "hymn/settings.hpp"
#include "tools/vs_mpi.hpp"

namespace hymn {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_blocks = 15;
// Without --iters: what a block should last, and the most iterations it gets.
constexpr double block_us = 2000;
constexpr std::size_t most_block_iterations = 20000;

double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

// The least of several tries: whatever interrupts one of them is not the clock's.
double cost_of_clock() {
  constexpr int calls = 200;
  double least = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto begin = Clock::now();
    for (int i = 1; i < calls; ++i) static_cast<void>(Clock::now());
    const double cost = microseconds(Clock::now() - begin) / calls;
    least = attempt == 0 ? cost : std::min(least, cost);
  }
  return least;
}

std::string timeout_text(Timeout timeout) {
  if (timeout.is_none()) return "none";
  return fmt::format("{} s", std::chrono::duration<double>(timeout.duration()).count());
}

// Why nothing can run the request.
std::string refusals(const Explanation& explanation) {
  std::string text;
  for (const Candidate& candidate : explanation.candidates)
    text +=
        fmt::format("{}{}: {}", text.empty() ? "" : "; ", candidate.algorithm, candidate.reason);
  return text.empty() ? "no path serves it" : text;
}

}  // namespace

BenchRunner::BenchRunner(World& world, const BenchOptions& options, BenchReports reports)
    : world_(world),
      all_(world.group()),
      group_(world.new_group(all_.membership().ranks,
                             {.description = "bench", .timeout = options.timeout})),
      options_(options),
      case_(*options.bench_case),
      reports_(std::move(reports)),
      progress_(!reports_.empty()),
      input_(bench_input(options.dtype, options.op.kind(), world.size())),
      counts_(bench_counts(options, world.size())),
      clock_us_(cost_of_clock()) {
  const std::size_t bytes = size_in_bytes(options, counts_.back(), world.size());
  first_ = page_aligned(bytes);
  second_ = page_aligned(bytes);
  check_arguments();
  if (case_.reduces) result_ = bench_result(options.dtype, options.op, world.size());
}

BenchRunner::Memory BenchRunner::page_aligned(std::size_t bytes) {
  constexpr std::size_t page = 4096;
  const std::size_t rounded = (bytes / page + 1) * page;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(page, rounded));
  if (memory == nullptr) throw std::bad_alloc();
  std::memset(memory, 0, rounded);
  return Memory(memory);
}

void BenchRunner::check_arguments() {
  const int ranks = world_.size();
  if (case_.is_rooted() && (options_.root < 0 || options_.root >= ranks))
    throw BadArguments(fmt::format("--root {} is not one of the {} ranks", options_.root, ranks));
  if (case_.type == OpType::batch && ranks < 2)
    throw BadArguments("send_recv needs 2 ranks or more");
  if (case_.reduces && options_.op.kind() == ReduceKind::product && options_.check > 0 &&
      ranks > max_product_ranks)
    throw BadArguments(fmt::format("products are verified for at most {} ranks; use --check 0",
                                   max_product_ranks));
  // What hymn itself refuses it refuses on every rank; better now than in the middle.
  try {
    const BenchCall call(case_, shape(counts_.front(), options_.places.front()), options_.dtype,
                         options_.op, first_.get(), second_.get());
    const Explanation explanation = group_.explain(call.request());
    if (explanation.algorithm.empty()) throw BadArguments(refusals(explanation));
  } catch (const Error& error) {
    throw BadArguments(error.what());
  }
}

std::vector<std::string> BenchRunner::remarks() const {
  std::string what =
      fmt::format("hymn {} bench {}: {} {}{} on {} host{}", version(), case_.name, world_.size(),
                  options_.threads > 0 ? "thread" : "rank", world_.size() == 1 ? "" : "s",
                  world_.host_count(), world_.host_count() == 1 ? "" : "s");
  if (case_.is_rooted()) what += fmt::format(", root {}", options_.root);
  what += fmt::format(", timeout {}", timeout_text(options_.timeout));
  return {
      what,
      fmt::format("time: median over blocks of iterations of the slowest rank's mean, less {:.3f} "
                  "us for the clock",
                  clock_us_)};
}

BenchShape BenchRunner::shape(std::size_t count, bool in_place) const {
  return {world_.rank(), world_.size(), options_.root, count, in_place};
}

std::uint64_t BenchRunner::run() {
  const auto remark_lines = remarks();
  for (const auto& report : reports_) report->begin(remark_lines);
  std::uint64_t wrong = 0;
  for (const std::size_t count : counts_) {
    std::vector<BenchRow> rows;
    for (const bool in_place : options_.places) {
      rows.push_back(measure(count, in_place));
      wrong += rows.back().wrong.value_or(0);
    }
    progress_.clear();
    for (const auto& report : reports_) report->add(rows);
  }
  for (const auto& report : reports_)
    report->end(options_.check > 0 ? std::optional(wrong) : std::nullopt);
  return wrong;
}

BenchRow BenchRunner::describe(const BenchShape& shape, const BenchCall& call) const {
  const Explanation explanation = group_.explain(call.request());
  BenchRow row;
  row.collective = case_.name;
  row.size_bytes = case_.has_data() ? size_in_bytes(options_, shape.count, shape.ranks) : 0;
  row.count = shape.count;
  row.dtype = case_.has_data() ? to_string(options_.dtype) : "none";
  row.op = case_.reduces ? to_string(options_.op.kind()) : "none";
  row.in_place = shape.in_place;
  row.ranks = shape.ranks;
  row.bus_factor = case_.bus_factor(shape.ranks);
  row.path = explanation.path;
  row.algorithm = explanation.algorithm;
  if (options_.versus_mpi) row.rival = "mpi";
  return row;
}

BenchRow BenchRunner::measure(std::size_t count, bool in_place) {
  const BenchShape place = shape(count, in_place);
  const BenchCall call(case_, place, options_.dtype, options_.op, first_.get(), second_.get());
  BenchRow row = describe(place, call);
  const auto rival = options_.versus_mpi ? plain_mpi(case_, place, call, options_.op) : nullptr;
  const auto by_hymn = [&] { call.run(group_); };
  const auto by_rival = [&] { rival->run(); };

  time_block(call, options_.warmup, 0, by_hymn);
  if (rival) time_block(call, options_.warmup, 0, by_rival);
  const std::size_t all = options_.iterations > 0 ? options_.iterations
                                                  : most_blocks * enough_iterations(call, by_hymn);
  const std::size_t blocks = std::min(all, most_blocks);
  const std::size_t all_measurements = counts_.size() * options_.places.size();
  std::vector<double> means(blocks);
  std::vector<double> rival_means(rival ? blocks : 0);
  wrong_ = 0;
  for (std::size_t block = 0; block < blocks; ++block) {
    progress_.show(row, measured_, all_measurements);
    const std::size_t iterations = all * (block + 1) / blocks - all * block / blocks;
    // Whoever comes second might find caches and clocks in another state: take turns.
    const bool rival_first = block % 2 == 1;
    if (rival && rival_first) rival_means[block] = time_block(call, iterations, 0, by_rival);
    means[block] = time_block(call, iterations, options_.check, by_hymn);
    if (rival && !rival_first) rival_means[block] = time_block(call, iterations, 0, by_rival);
  }
  ++measured_;
  row.time = slowest(std::move(means));
  if (rival) row.rival_time = slowest(std::move(rival_means));
  if (options_.check > 0) {
    all_.all_reduce(view_of(wrong_));
    row.wrong = wrong_;
  }
  return row;
}

template <class Once>
double BenchRunner::time_block(const BenchCall& call, std::size_t iterations, std::size_t check,
                               Once&& once) {
  if (iterations == 0) return 0;
  all_.barrier();
  Clock::duration spent{0};
  for (std::size_t i = 0; i < iterations; ++i) {
    const std::size_t phase = phase_of_iteration(iteration_++);
    input_.fill(call.input(), phase + phase_of_rank(world_.rank()));
    const auto begin = Clock::now();
    once();
    spent += Clock::now() - begin;
    if (iterations - i <= check) wrong_ += count_wrong(call, phase);
  }
  return std::max(microseconds(spent) / static_cast<double>(iterations) - clock_us_, 0.0);
}

std::size_t BenchRunner::enough_iterations(const BenchCall& call,
                                           const std::function<void()>& once) {
  // The first guesses are of few iterations and far too high: approach the length step by step. The
  // best of five tries: an interruption must not pass for a slow operation.
  for (std::size_t iterations = 1;; iterations *= 8) {
    std::vector<double> tries(5);
    for (double& mean : tries) mean = time_block(call, iterations, 0, once);
    const double us = slowest(std::move(tries)).min;
    const bool long_enough = us * static_cast<double>(iterations) >= block_us / 8;
    if (!long_enough && iterations < most_block_iterations) continue;
    const double wanted = block_us / std::max(us, 1e-3);
    return static_cast<std::size_t>(
        std::clamp(wanted, 1.0, static_cast<double>(most_block_iterations)));
  }
}

std::uint64_t BenchRunner::count_wrong(const BenchCall& call, std::size_t phase) const {
  const PeriodicData& expected = result_ ? *result_ : input_;
  std::uint64_t wrong = 0;
  for (const BenchCall::Expected& part : call.expected())
    wrong += expected.count_wrong(part.where, part.phase + phase);
  return wrong;
}

BenchTimes BenchRunner::slowest(std::vector<double> block_means) {
  all_.all_reduce(BufferView(block_means), ReduceOp::max);
  std::sort(block_means.begin(), block_means.end());
  const std::size_t last = block_means.size() - 1;
  const double median = (block_means[last / 2] + block_means[last - last / 2]) / 2;
  return {median, block_means.front(), block_means.back()};
}

}  // namespace hymn
