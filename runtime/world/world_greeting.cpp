#include "runtime/world/world_greeting.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "hymn/settings.hpp"

namespace hymn::detail {
namespace {

constexpr std::size_t largest_bytes = std::size_t{1} << 30;

std::string size_text(std::size_t bytes) {
  std::size_t unit = 0;
  while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, std::array{" B", "K", "M", "G"}[unit]);
}

/// Where no buffer is: explain() looks at no data.
void* nowhere(std::uintptr_t place) { return reinterpret_cast<void*>(place << 44); }

struct Probe {
  OpType type;
  /// Of buffers of `count` elements; `all` has as many for each rank.
  Request (*request)(ConstBufferView in, BufferView out, ConstBufferView all_in,
                     BufferView all_out);
};

constexpr std::array probes = {
    Probe{OpType::all_reduce, [](ConstBufferView in, BufferView out, ConstBufferView,
                                 BufferView) { return Request::all_reduce(in, out); }},
    Probe{OpType::broadcast, [](ConstBufferView, BufferView out, ConstBufferView,
                                BufferView) { return Request::broadcast(out, 0); }},
    Probe{OpType::all_gather,
          [](ConstBufferView in, BufferView, ConstBufferView, BufferView all_out) {
            return Request::all_gather(in, OutputBlocks::equal(all_out));
          }},
    Probe{OpType::reduce_scatter,
          [](ConstBufferView, BufferView out, ConstBufferView all_in, BufferView) {
            return Request::reduce_scatter(InputBlocks::equal(all_in), out);
          }},
    Probe{OpType::all_to_all,
          [](ConstBufferView, BufferView, ConstBufferView all_in, BufferView all_out) {
            return Request::all_to_all(InputBlocks::equal(all_in), OutputBlocks::equal(all_out));
          }}};

Request request_of(const Probe& probe, std::size_t count, int ranks) {
  const std::size_t all = count * static_cast<std::size_t>(ranks);
  return probe.request(ConstBufferView(nowhere(1), count, DataType::float32),
                       BufferView(nowhere(2), count, DataType::float32),
                       ConstBufferView(nowhere(3), all, DataType::float32),
                       BufferView(nowhere(4), all, DataType::float32));
}

}  // namespace

void WorldGreeting::tell() const {
  if (!world_.logger.enabled(LogLevel::info)) return;
  if (met_.job.places.empty() || met_.job.places.front().rank == world_.rank()) tell_of_host();
  if (world_.rank() != 0) return;
  std::vector<std::string> libraries;
  for (const auto& mechanism : mechanisms_)
    if (const std::string text = mechanism->description(); !text.empty()) libraries.push_back(text);
  world_.logger.info(fmt::format("hymn {}: {} rank{} on {} host{}{}{}", version(),
                                 world_.settings.size, world_.settings.size == 1 ? "" : "s",
                                 met_.job.host_names.size(),
                                 met_.job.host_names.size() == 1 ? "" : "s",
                                 libraries.empty() ? "" : "; ", fmt::join(libraries, "; ")));
  std::vector<std::string> settings;
  for (const Setting& setting : world_.settings.config.describe())
    if (setting.value != setting.default_value)
      settings.push_back(setting.name + "=" + setting.value);
  world_.logger.info(
      fmt::format("settings that are not at their defaults: {}",
                  settings.empty() ? "none" : fmt::format("{}", fmt::join(settings, ", "))));
  world_.logger.info("tuning: " +
                     (met_.tuning ? std::string("a table of this machine") : "default table"));
  tell_of_paths();
}

void WorldGreeting::tell_of_host() const {
  std::vector<std::string> ranks;
  for (const RankPlace& place : met_.job.places) {
    const std::string gpu = place.gpu < 0 ? "" : fmt::format(", GPU {}", place.gpu);
    ranks.push_back(fmt::format("rank {}: CPUs {}{}", place.rank, place.cpus.to_string(), gpu));
  }
  world_.logger.info(fmt::format("host {}: {}; {}", met_.job.host_name,
                                 met_.job.machine().gpus.empty()
                                     ? "no GPU"
                                     : fmt::format("{} GPU(s)", met_.job.machine().gpus.size()),
                                 fmt::join(ranks, "; ")));
}

// One line for each collective: "all_reduce: shm (all_reduce_slots) to 32K, …".
void WorldGreeting::tell_of_paths() const {
  std::set<std::string> available;
  for (const Probe& probe : probes) {
    std::vector<std::string> ranges;
    std::string chosen;
    std::string before;
    for (std::size_t bytes = sizeof(float); bytes <= largest_bytes; bytes *= 2) {
      const Explanation told =
          everybody_.explain(request_of(probe, bytes / sizeof(float), world_.settings.size));
      for (const Candidate& candidate : told.candidates)
        if (candidate.can_run) available.insert(candidate.path);
      const std::string here = fmt::format("{} ({})", told.path, told.algorithm);
      if (here != chosen) {
        if (!chosen.empty()) ranges.push_back(fmt::format("{} to {}", chosen, before));
        chosen = here;
      }
      before = size_text(bytes);
    }
    ranges.push_back(fmt::format("{} {}", chosen, ranges.empty() ? "at all sizes" : "above"));
    world_.logger.info(
        fmt::format("{} of float32: {}", to_string(probe.type), fmt::join(ranges, ", ")));
  }
  world_.logger.info(fmt::format("paths that are there: {}", fmt::join(available, ", ")));
}

}  // namespace hymn::detail
