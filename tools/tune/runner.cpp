#include "tools/tune/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace hymn {

namespace {

constexpr std::size_t warm_up = 5;

std::string name_of(std::string_view path, std::string_view algorithm) {
  return fmt::format("{} ({})", path, algorithm);
}

BenchOptions sizes_of(const BenchCase& bench_case, const TuneOptions& options) {
  BenchOptions sizes;
  sizes.bench_case = &bench_case;
  sizes.min_bytes = options.min_bytes;
  sizes.max_bytes = options.max_bytes;
  sizes.factor = options.factor;
  sizes.dtype = options.dtype;
  return sizes;
}

}  // namespace

TuneRunner::TuneRunner(World& world, const BenchCase& bench_case, const TuneOptions& options)
    : world_(world),
      case_(bench_case),
      options_(options),
      sizes_(sizes_of(bench_case, options)),
      timer_(world, bench_case, options.dtype, options.op,
             size_in_bytes(sizes_, bench_counts(sizes_, world.size()).back(), world.size())) {}

TuneResult TuneRunner::run(const std::function<void(std::size_t bytes)>& progress) {
  TuneResult result;
  for (const std::size_t count : bench_counts(sizes_, world_.size())) {
    const std::size_t bytes = case_.has_data() ? size_in_bytes(sizes_, count, world_.size()) : 0;
    progress(bytes);
    const BenchCall call = timer_.call(
        {world_.rank(), world_.size(), /*root=*/0, count, /*in_place=*/!case_.out_of_place});
    const std::vector<Contender*> contenders = contenders_for(call);
    measure(call, contenders);
    // A time of 0 is one that the clock cannot tell.
    for (Contender* contender : contenders)
      contender->row.points.push_back(
          {bytes, std::max(timer_.slowest(std::move(contender->means)).median, 1e-3) * 1e-6});
    if (!contenders.empty()) result.changes.push_back(change_at(bytes, call, contenders));
  }
  for (const auto& contender : contenders_) {
    result.rows.push_back(contender->row);
    contender->group.destroy();
  }
  return result;
}

TuneRunner::Contender& TuneRunner::contender_for(const Candidate& candidate) {
  for (const auto& known : contenders_)
    if (known->row.path == candidate.path && known->row.algorithm == candidate.algorithm)
      return *known;
  auto made = std::make_unique<Contender>();
  made->row.path = candidate.path;
  made->row.algorithm = candidate.algorithm;
  made->row.type = case_.type;
  made->row.dtype = options_.dtype;
  made->row.ranks = world_.size();
  made->row.hosts = world_.host_count();
  made->group = world_.new_group(world_.group().membership().ranks,
                                 {.description = "tune " + candidate.algorithm,
                                  .timeout = options_.timeout,
                                  .path = candidate.path,
                                  .algo = candidate.algorithm});
  contenders_.push_back(std::move(made));
  return *contenders_.back();
}

std::vector<TuneRunner::Contender*> TuneRunner::contenders_for(const BenchCall& call) {
  std::vector<Contender*> contenders;
  for (const Candidate& candidate : world_.group().explain(call.request()).candidates)
    if (candidate.can_run) contenders.push_back(&contender_for(candidate));
  return contenders;
}

void TuneRunner::measure(const BenchCall& call, const std::vector<Contender*>& contenders) {
  for (Contender* contender : contenders) {
    const auto once = [&] { call.run(contender->group); };
    timer_.time_block(call, warm_up, 0, once);
    contender->iterations = timer_.enough_iterations(options_.block_us, [&](std::size_t count) {
      return timer_.time_block(call, count, 0, once);
    });
    contender->means.clear();
  }
  for (std::size_t block = 0; block < options_.blocks; ++block)
    for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
      Contender& contender = *contenders[(block + turn) % contenders.size()];
      const auto once = [&] { call.run(contender.group); };
      contender.means.push_back(timer_.time_block(call, contender.iterations, 1, once));
    }
  if (const std::uint64_t wrong = timer_.take_wrong(); wrong > 0)
    throw std::runtime_error(
        fmt::format("{}: {} values of the results are wrong; run `hymn bench {}` with each "
                    "HYMN_PATH to find out which path computes them",
                    case_.name, wrong, case_.name));
}

TuneChange TuneRunner::change_at(std::size_t bytes, const BenchCall& call,
                                 const std::vector<Contender*>& contenders) const {
  const Explanation now = world_.group().explain(call.request());
  TuneChange change;
  change.bytes = bytes;
  change.before = name_of(now.path, now.algorithm);
  for (const Contender* contender : contenders) {
    const double us = contender->row.points.back().seconds * 1e6;
    const std::string name = name_of(contender->row.path, contender->row.algorithm);
    if (name == change.before) change.before_us = us;
    if (change.after.empty() || us < change.after_us) {
      change.after = name;
      change.after_us = us;
    }
  }
  return change;
}

}  // namespace hymn
