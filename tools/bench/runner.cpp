// Blocks of timed iterations, their verification, and the figures made of them.
#include "tools/bench/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "hymn/settings.hpp"
#include "tools/bench/vs_mpi.hpp"

namespace hymn {

namespace {

constexpr std::size_t most_blocks = 15;
// Without --iters: what a block should last.
constexpr double block_us = 2000;

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
      group_(world.new_group(world.group().membership().ranks,
                             {.description = "bench",
                              .timeout = options.timeout,
                              .reproducibility = options.reproducible})),
      options_(options),
      case_(*options.bench_case),
      reports_(std::move(reports)),
      progress_(!reports_.empty()),
      counts_(bench_counts(options, world.size())),
      timer_(world, case_, options.dtype, options.op,
             size_in_bytes(options, counts_.back(), world.size())) {
  check_arguments();
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
    const BenchCall call = timer_.call(shape(counts_.front(), options_.places.front()));
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
  if (options_.reproducible)
    what += fmt::format(", reproducible '{}'", to_string(*options_.reproducible));
  return {
      what,
      fmt::format("time: median over blocks of iterations of the slowest rank's mean, less {:.3f} "
                  "us for the clock",
                  timer_.clock_us())};
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
  const BenchCall call = timer_.call(place);
  BenchRow row = describe(place, call);
  const auto rival = options_.versus_mpi ? plain_mpi(case_, place, call, options_.op) : nullptr;
  const auto by_hymn = [&] { call.run(group_); };
  const auto by_rival = [&] { rival->run(); };

  timer_.time_block(call, options_.warmup, 0, by_hymn);
  if (rival) timer_.time_block(call, options_.warmup, 0, by_rival);
  const std::size_t all = options_.iterations > 0
                              ? options_.iterations
                              : most_blocks * timer_.enough_iterations(call, block_us, by_hymn);
  const std::size_t blocks = std::min(all, most_blocks);
  const std::size_t all_measurements = counts_.size() * options_.places.size();
  std::vector<double> means(blocks);
  std::vector<double> rival_means(rival ? blocks : 0);
  for (std::size_t block = 0; block < blocks; ++block) {
    progress_.show(row, measured_, all_measurements);
    const std::size_t iterations = all * (block + 1) / blocks - all * block / blocks;
    // Whoever comes second might find caches and clocks in another state: take turns.
    const bool rival_first = block % 2 == 1;
    if (rival && rival_first) rival_means[block] = timer_.time_block(call, iterations, 0, by_rival);
    means[block] = timer_.time_block(call, iterations, options_.check, by_hymn);
    if (rival && !rival_first)
      rival_means[block] = timer_.time_block(call, iterations, 0, by_rival);
  }
  ++measured_;
  row.time = timer_.slowest(std::move(means));
  if (rival) row.rival_time = timer_.slowest(std::move(rival_means));
  if (options_.check > 0) row.wrong = timer_.take_wrong();
  return row;
}

}  // namespace hymn
