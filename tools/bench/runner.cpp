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
constexpr double usual_block_us = 2000;

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
      counts_(bench_counts(options, world.size())) {
  check_root_and_ranks();
  make_timer();
  check_support();
}

void BenchRunner::make_timer() {
  const std::size_t bytes = size_in_bytes(options_, counts_.back(), world_.size());
  if (!options_.on_gpu) {
    host_.emplace(world_, case_, options_.dtype, options_.op, bytes);
    if (options_.rival == BenchRival::mpi) mpi_.emplace(world_, options_);
    return;
  }
  try {
    device_.emplace(world_, require_gpus(world_), case_, options_.dtype, options_.op, bytes,
                    options_.timeout, options_.in_graphs);
    if (world_.rank() == 0) copy_rate_ = device_->copy_rate();
    if (options_.rival == BenchRival::nccl) nccl_.emplace(world_, options_.timeout);
  } catch (const UnsupportedError& error) {
    throw BadArguments(error.what());  // all ranks have found it
  }
}

void BenchRunner::check_root_and_ranks() const {
  const int ranks = world_.size();
  if (case_.is_rooted() && (options_.root < 0 || options_.root >= ranks))
    throw BadArguments(fmt::format("--root {} is not one of the {} ranks", options_.root, ranks));
  if (case_.type == OpType::batch && ranks < 2)
    throw BadArguments("send_recv needs 2 ranks or more");
  if (case_.reduces && options_.op.kind() == ReduceKind::product && options_.check > 0 &&
      ranks > max_product_ranks)
    throw BadArguments(fmt::format("products are verified for at most {} ranks; use --check 0",
                                   max_product_ranks));
}

// What hymn itself refuses it refuses on every rank; better now than in the middle.
void BenchRunner::check_support() const {
  try {
    const BenchCall call = call_of(shape(counts_.front(), options_.places.front()));
    const Explanation explanation = explain(call);
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
  if (options_.on_gpu) what += ", in the memory of GPUs";
  if (options_.in_graphs) what += ", captured into graphs";
  if (options_.reproducible)
    what += fmt::format(", reproducible '{}'", to_string(*options_.reproducible));
  const double clock_us = tally().clock_us();
  if (device_) {
    std::vector<std::string> lines = {
        what, fmt::format("time: on the stream; enqueue: of the host, less {:.3f} us for the "
                          "clock; medians over blocks of the slowest rank's mean",
                          clock_us)};
    if (copy_rate_ > 0)
      lines.push_back(
          fmt::format("the GPU of rank 0 copies {:.0f} GB/s (read and written)", copy_rate_));
    return lines;
  }
  std::vector<std::string> lines = {
      what,
      fmt::format("time: median over blocks of iterations of the slowest rank's mean, less {:.3f} "
                  "us for the clock",
                  clock_us)};
  if (mpi_)
    lines.push_back(fmt::format("plain MPI, in processes of its own and in turns with hymn's: {}",
                                mpi_->description()));
  return lines;
}

Explanation BenchRunner::explain(const BenchCall& call) const {
  Request request = call.request();
  if (device_) request.domain = {OrderingDomain::Kind::stream, device_->stream()};
  return group_.explain(request);
}

BenchCall BenchRunner::call_of(const BenchShape& shape) const {
  return device_ ? device_->call(shape) : host_->call(shape);
}

BenchShape BenchRunner::shape(std::size_t count, bool in_place) const {
  return {world_.rank(), world_.size(), options_.root, count, in_place};
}

std::uint64_t BenchRunner::run() {
  const auto remark_lines = remarks();
  for (const auto& report : reports_) report->begin(remark_lines);
  WrongValues wrong;
  for (const std::size_t count : counts_) {
    std::vector<BenchRow> rows;
    for (const bool in_place : options_.places) {
      rows.push_back(measure(count, in_place));
      wrong.add(rows.back().wrong);
    }
    progress_.clear();
    for (const auto& report : reports_) report->add(rows);
  }
  for (const auto& report : reports_) report->end(wrong);
  return wrong.hymn.value_or(0) + wrong.rival.value_or(0);
}

BenchRow BenchRunner::describe(const BenchShape& shape, const BenchCall& call) const {
  const Explanation explanation = explain(call);
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
  if (copy_rate_ > 0) row.copy_rate = copy_rate_;
  if (options_.rival != BenchRival::none)
    row.rival = options_.rival == BenchRival::mpi ? "mpi" : "nccl";
  return row;
}

BenchRunner::Sides BenchRunner::on_host(const BenchShape& shape, const BenchCall& call) {
  Sides sides;
  sides.hymn = [this, &call](std::size_t iterations, std::size_t check) {
    return BlockTime{host_->time_block(call, iterations, check, [&] { call.run(group_); })};
  };
  if (options_.rival == BenchRival::none) return sides;
  if (plain_mpi(case_, shape, call, options_.op) != nullptr)
    sides.rival = [this, shape](std::size_t iterations, std::size_t check) {
      return BlockTime{mpi_->measure({shape.count, shape.in_place, iterations, check})};
    };
  return sides;
}

BenchRunner::Sides BenchRunner::on_gpu(const BenchShape& shape, const BenchCall& call) {
  Sides sides;
  const auto stream = device_->stream();
  const auto timed = [this, &call](DeviceTimer::Side side) {
    return [this, &call, side](std::size_t iterations, std::size_t check) {
      return device_->time_block(call, iterations, check, side);
    };
  };
  sides.hymn = timed({.enqueue = [this, &call, stream] { call.enqueue(group_, stream); },
                      .look = [this] { group_.wait_for_pending_works(); }});
  if (!nccl_) return sides;
  if (auto enqueue = nccl_->call_for(case_, shape, call, options_.op, stream))
    sides.rival = timed({.enqueue = std::move(enqueue), .look = [this] { nccl_->check(); }});
  return sides;
}

BenchRow BenchRunner::measure(std::size_t count, bool in_place) {
  const BenchShape place = shape(count, in_place);
  const BenchCall call = call_of(place);
  BenchRow row = describe(place, call);
  const Sides sides = device_ ? on_gpu(place, call) : on_host(place, call);
  BenchTally& tally = this->tally();

  Means rival;
  Means own = measure_blocks(sides, row, rival);
  ++measured_;
  row.time = tally.slowest(std::move(own.time));
  if (device_) row.enqueue_time = tally.slowest(std::move(own.enqueue));
  if (sides.rival) row.rival_time = tally.slowest(std::move(rival.time));
  if (sides.rival && device_) row.rival_enqueue_time = tally.slowest(std::move(rival.enqueue));
  if (options_.check > 0) {
    row.wrong.hymn = tally.take_wrong();
    if (sides.rival && mpi_) row.wrong.rival = mpi_->take_wrong();
  }
  return row;
}

void BenchRunner::Means::add(const BlockTime& block) {
  time.push_back(block.us);
  enqueue.push_back(block.enqueue_us);
}

BenchRunner::Means BenchRunner::measure_blocks(const Sides& sides, const BenchRow& row,
                                               Means& rival) {
  sides.hymn(options_.warmup, 0);
  if (sides.rival) sides.rival(options_.warmup, 0);
  const auto mean = [&sides](std::size_t count) { return sides.hymn(count, 0).us; };
  const std::size_t all = options_.iterations > 0
                              ? options_.iterations
                              : most_blocks * tally().enough_iterations(usual_block_us, mean);
  const std::size_t blocks = std::min(all, most_blocks);
  const std::size_t all_measurements = counts_.size() * options_.places.size();
  Means own;
  for (std::size_t block = 0; block < blocks; ++block) {
    progress_.show(row, measured_, all_measurements);
    const std::size_t iterations = all * (block + 1) / blocks - all * block / blocks;
    // Whoever comes second might find caches and clocks in another state: take turns.
    const bool rival_first = block % 2 == 1;
    const std::size_t check = mpi_ ? options_.check : 0;
    if (sides.rival && rival_first) rival.add(sides.rival(iterations, check));
    own.add(sides.hymn(iterations, options_.check));
    if (sides.rival && !rival_first) rival.add(sides.rival(iterations, check));
  }
  return own;
}

}  // namespace hymn
