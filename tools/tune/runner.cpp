#include "tools/tune/runner.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "runtime/world/world_facts.hpp"

namespace hymn {

namespace {

constexpr std::size_t warm_up = 5;

std::string choice_name(std::string_view path, std::string_view algorithm) {
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

/// The paths that the job's setting allows, but for some.
std::string named_paths(const World& world, const std::vector<std::string_view>& left_out) {
  const PathPolicy& policy = config_of(world).path;
  std::vector<std::string_view> named;
  for (const std::string_view path : paths::all)
    if (policy.allows(path) && std::find(left_out.begin(), left_out.end(), path) == left_out.end())
      named.push_back(path);
  return fmt::format("{}", fmt::join(named, ","));
}

/// Of the group that takes this candidate and no other.
GroupOptions forced(const World& world, const Candidate& candidate) {
  // What is staged takes another path from there on.
  if (candidate.path == paths::staged)
    return {.path = named_paths(world, {paths::nccl, paths::cuda_p2p})};
  // Between hosts peer memory goes together with others.
  if (candidate.path == paths::cuda_p2p)
    return {.path = named_paths(world, {}), .algo = candidate.algorithm};
  return {.path = candidate.path, .algo = candidate.algorithm};
}

}  // namespace

// Beside MPI connections of hymn's own are made only where they are named.
TuneGround ground_on_host(World& world) {
  if (world.host_count() == 1) return {world.group(), nullptr};
  return {
      world.new_group(world.group().membership().ranks,
                      {.description = "tune",
                       .path = named_paths(world, {paths::cuda_p2p, paths::nccl, paths::staged})}),
      nullptr};
}

TuneGround ground_on_gpus(World& world) {
  std::shared_ptr<GpuDevice> gpu = require_gpus(world);
  return {world.new_group(world.group().membership().ranks,
                          {.description = "tune", .path = named_paths(world, {})}),
          std::move(gpu)};
}

TuneRunner::TuneRunner(World& world, const TuneGround& ground, const BenchCase& bench_case,
                       const TuneOptions& options)
    : world_(world),
      ground_(ground),
      case_(bench_case),
      options_(options),
      sizes_(sizes_of(bench_case, options)) {
  const std::size_t bytes =
      size_in_bytes(sizes_, bench_counts(sizes_, world.size()).back(), world.size());
  if (ground.is_on_gpu())
    device_.emplace(world, ground.gpu, bench_case, options.dtype, options.op, bytes,
                    options.timeout.or_else(world.group().timeout()));
  else
    host_.emplace(world, bench_case, options.dtype, options.op, bytes);
}

BenchCall TuneRunner::call_of(std::size_t count) const {
  const BenchShape shape{world_.rank(), world_.size(), /*root=*/0, count,
                         /*in_place=*/!case_.out_of_place};
  return device_ ? device_->call(shape) : host_->call(shape);
}

Request TuneRunner::request_of(const BenchCall& call) const {
  Request request = call.request();
  if (device_) request.domain = {OrderingDomain::Kind::stream, device_->stream()};
  return request;
}

double TuneRunner::time_block(const BenchCall& call, ProcessGroup& group, std::size_t iterations,
                              std::size_t check) {
  if (!device_) return host_->time_block(call, iterations, check, [&] { call.run(group); });
  const DeviceTimer::Side side{.enqueue = [&] { call.enqueue(group, device_->stream()); },
                               .look = [&] { group.wait_for_pending_works(); }};
  return device_->time_block(call, iterations, check, side).us;
}

TuneResult TuneRunner::run(const std::function<void(std::size_t bytes)>& progress) {
  TuneResult result;
  for (const std::size_t count : bench_counts(sizes_, world_.size())) {
    const std::size_t bytes = case_.has_data() ? size_in_bytes(sizes_, count, world_.size()) : 0;
    progress(bytes);
    const BenchCall call = call_of(count);
    const std::vector<Contender*> contenders = contenders_for(call);
    measure(call, contenders);
    // A time of 0 is one that the clock cannot tell.
    for (Contender* contender : contenders)
      contender->row.points.push_back(
          {bytes, std::max(tally().slowest(std::move(contender->means)).median, 1e-3) * 1e-6});
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
  made->row.memory = ground_.is_on_gpu() ? MemoryKind::device : MemoryKind::host;
  GroupOptions options = forced(world_, candidate);
  options.description = "tune " + candidate.algorithm;
  options.timeout = options_.timeout;
  made->group = world_.new_group(world_.group().membership().ranks, options);
  contenders_.push_back(std::move(made));
  return *contenders_.back();
}

std::vector<TuneRunner::Contender*> TuneRunner::contenders_for(const BenchCall& call) {
  std::vector<Contender*> contenders;
  for (const Candidate& candidate : ground_.group.explain(request_of(call)).candidates)
    if (candidate.can_run) contenders.push_back(&contender_for(candidate));
  return contenders;
}

void TuneRunner::measure(const BenchCall& call, const std::vector<Contender*>& contenders) {
  for (Contender* contender : contenders) {
    time_block(call, contender->group, warm_up, 0);
    contender->iterations = tally().enough_iterations(options_.block_us, [&](std::size_t count) {
      return time_block(call, contender->group, count, 0);
    });
    contender->means.clear();
  }
  for (std::size_t block = 0; block < options_.blocks; ++block)
    for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
      Contender& contender = *contenders[(block + turn) % contenders.size()];
      contender.means.push_back(time_block(call, contender.group, contender.iterations, 1));
    }
  if (const std::uint64_t wrong = tally().take_wrong(); wrong > 0)
    throw std::runtime_error(
        fmt::format("{}: {} values of the results are wrong; run `hymn bench {}` with each "
                    "HYMN_PATH to find out which path computes them",
                    case_.name, wrong, case_.name));
}

TuneChange TuneRunner::change_at(std::size_t bytes, const BenchCall& call,
                                 const std::vector<Contender*>& contenders) const {
  const Explanation now = world_.group().explain(request_of(call));
  TuneChange change;
  change.bytes = bytes;
  change.before = choice_name(now.path, now.algorithm);
  for (const Contender* contender : contenders) {
    const double us = contender->row.points.back().seconds * 1e6;
    const std::string name = choice_name(contender->row.path, contender->row.algorithm);
    if (name == change.before) change.before_us = us;
    if (change.after.empty() || us < change.after_us) {
      change.after = name;
      change.after_us = us;
    }
  }
  return change;
}

}  // namespace hymn
