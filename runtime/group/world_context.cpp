#include "runtime/group/world_context.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/rank/some_names.hpp"

namespace hymn::detail {

namespace {

CallRing::Writers writers_under(const std::vector<std::unique_ptr<Mechanism>>& mechanisms) {
  const bool overlap = std::all_of(mechanisms.begin(), mechanisms.end(), [](const auto& mechanism) {
    return mechanism->calls_may_overlap();
  });
  return overlap ? CallRing::Writers::many : CallRing::Writers::one_at_a_time;
}

/// No call has more blocks than ranks, on either side; but coalesced ones any number of buffers.
std::size_t counts_kept(const Config& config, int ranks) {
  constexpr std::size_t for_coalesced = 32;
  return std::min(config.recorder_counts,
                  std::max(for_coalesced, 2 * static_cast<std::size_t>(ranks)));
}

}  // namespace

WorldContext::WorldContext(WorldSettings chosen, Means means)
    : settings(std::move(chosen)),
      logger(settings.config.log_level, settings.rank),
      recorder({.rank = settings.rank,
                .world_size = settings.size,
                .ring = {.entries = settings.config.recorder_size,
                         .frames = settings.config.recorder_frames,
                         .counts = counts_kept(settings.config, settings.size)},
                .writers = writers_under(means.mechanisms),
                .timing = settings.config.recorder_timing,
                .for_peers = !settings.in_one_process && !settings.is_hidden}),
      life(settings.rank, std::move(means.exchange), means.mechanisms),
      metrics(means.counts ? std::make_unique<CallMetrics>() : nullptr),
      peers(settings.size, std::move(means.early)),
      records(settings, peers, means.control),
      inquiry(settings, logger, registry, peers, records),
      failures(recorder),
      incidents(settings, logger, registry, peers, records, recorder),
      groups(means.groups),
      mechanisms_(means.mechanisms) {}

WorldContext::~WorldContext() = default;

GroupFailure WorldContext::cause_of_leaving() const {
  GroupFailure failure = failures.cause();
  if (!failure.missing.empty()) return failure;
  return {"an exception has come out of the scope of its World", {rank()}};
}

std::string WorldContext::trouble_with(std::span<const int> ranks) const {
  std::vector<std::string> troubles;
  for (const int rank : ranks)
    for (const auto& mechanism : mechanisms_)
      if (std::string told = mechanism->trouble_with(rank); !told.empty())
        troubles.push_back(std::move(told));
  return some_of(std::move(troubles));
}

Patience WorldContext::patience(std::string purpose, Timeout timeout) const {
  Patience patience;
  patience.deadline = Deadline::after(timeout, clock().now());
  patience.clock = settings.clock;
  patience.oversubscribed = oversubscribed;
  patience.purpose = std::move(purpose);
  patience.alone = settings.fake != nullptr;
  patience.is_hopeless = [this](int rank) { return peers.is_hopeless(rank); };
  patience.meanwhile = [this, purpose = patience.purpose] {
    // What is made by another thread must not keep a rank that leaves.
    if (life.is_leaving())
      throw AbortedError("this rank leaves: " + purpose, {.rank = settings.rank});
    if (!life.is_open())
      throw UsageError(fmt::format("{} was finalized: {}", life.name(), purpose),
                       {.rank = settings.rank});
    if (engine != nullptr)
      engine->step_all();
    else
      WorksInFlight::step_all_here();
  };
  patience.context.rank = settings.rank;
  return patience;
}

Patience WorldContext::making_patience(std::string purpose, Timeout timeout,
                                       std::vector<int> ranks) const {
  return watching_patience(std::move(purpose), timeout, peers.company(std::move(ranks)));
}

Patience WorldContext::completing_patience(std::string purpose, Timeout timeout,
                                           std::vector<int> ranks) const {
  Company company = peers.company(std::move(ranks));
  company.has_left = [](int) { return false; };
  return watching_patience(std::move(purpose), timeout, std::move(company));
}

Patience WorldContext::watching_patience(std::string purpose, Timeout timeout,
                                         Company company) const {
  Patience patience = this->patience(std::move(purpose), timeout);
  patience.long_wait = inquiry.long_wait(patience.purpose);
  patience.is_hopeless = nullptr;  // the watch looks at all of them
  patience.watch = CompanyWatch(std::move(company), patience.purpose, patience.context);
  return patience;
}

}  // namespace hymn::detail
