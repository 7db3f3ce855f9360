#include "examples/uneven_training/trial.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <numeric>

namespace uneven {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

hymn::ProcessGroup group_of_all(hymn::World& world, const hymn::GroupOptions& options) {
  return world.new_group(world.group().membership().ranks, options);
}

Curve curve_of(Way way) {
  switch (way) {
    case Way::drop:
      return {.name = "what is uneven dropped", .colour = "#d95f02"};
    case Way::steal:
      return {.name = "work stealing", .colour = "#7570b3"};
    case Way::joinables:
      return {.name = "join, by hooks", .colour = "#66a61e"};
    case Way::alone:
    case Way::shadow:
      break;
  }
  return {.name = "join", .colour = "#1b9e77"};
}

/// FNV-1a over the bits.
std::int64_t fingerprint(std::span<const float> values) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const float value : values)
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3u;
  return static_cast<std::int64_t>(hash);
}

template <class T>
T reduced(hymn::ProcessGroup& group, T value, hymn::ReduceOp op) {
  group.all_reduce(hymn::view_of(value), op);
  return value;
}

/// Over epochs, of what the ranks' values come to in each.
double median_of(hymn::ProcessGroup& group, std::vector<double> values, hymn::ReduceOp op) {
  group.all_reduce(values, op);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

Trial::Trial(hymn::World& world, Way way, const Split& data, const Deal& deal,
             const Settings& settings, hymn::Reproducibility level,
             std::shared_ptr<hymn::Store> store)
    : group_(group_of_all(world,
                          {.description = std::string(to_string(way)), .reproducibility = level})),
      way_(way),
      data_(data),
      worker_(group_, data.training, deal, settings, std::move(store)),
      curve_(curve_of(way)) {}

void Trial::run_epoch(int epoch) {
  group_.barrier();
  const auto waited = worker_.waited();
  const auto asked = worker_.asked();
  const auto begin = Clock::now();
  worker_.run_epoch(way_, epoch);
  took_.push_back(Milliseconds(Clock::now() - begin).count());
  waited_.push_back(Milliseconds(worker_.waited() - waited).count());
  asked_.push_back(Milliseconds(worker_.asked() - asked).count());
  curve_.loss.push_back(model().mean_loss());
  // Only rank 0 shows it.
  curve_.accuracy.push_back(group_.rank() == 0 ? model().accuracy(data_.test) : 0);
}

Outcome Trial::outcome(int epochs) {
  using Op = hymn::ReduceOp;
  Outcome outcome;
  const std::int64_t bits = fingerprint(model().weights());
  outcome.same_bits = reduced(group_, bits, Op::min) == reduced(group_, bits, Op::max);
  std::vector<std::int32_t> uses(worker_.uses().begin(), worker_.uses().end());
  group_.all_reduce(uses);
  outcome.used_all_alike =
      std::ranges::all_of(uses, [&](std::int32_t times) { return times == epochs; });
  outcome.used =
      std::accumulate(uses.begin(), uses.end(), std::size_t{0}) / static_cast<std::size_t>(epochs);
  outcome.ms = median_of(group_, took_, Op::max);
  outcome.waited_ms = median_of(group_, waited_, Op::avg);
  outcome.asked_ms = median_of(group_, asked_, Op::avg);
  const std::size_t computed = worker_.computed() / static_cast<std::size_t>(epochs);
  outcome.least_computed = reduced(group_, computed, Op::min);
  outcome.most_computed = reduced(group_, computed, Op::max);
  return outcome;
}

std::string verdict_without_join(hymn::World& world, const Split& data, const Deal& deal,
                                 const Settings& settings, hymn::Duration limit) {
  std::string words;
  int speaker = 2 * world.size();
  {
    Worker worker(group_of_all(world, {.description = "without join", .timeout = limit}),
                  data.training, deal, settings, nullptr);
    try {
      worker.run_epoch(Way::alone, 0);
    } catch (const hymn::Error& error) {
      words = error.what();
      // Who has noticed it speaks before those that have been told.
      speaker = world.rank() + (error.kind() == hymn::ErrorKind::timeout ? 0 : world.size());
    }
  }
  hymn::ProcessGroup& all = world.group();
  const int first = reduced(all, speaker, hymn::ReduceOp::min);
  if (first == 2 * world.size()) return {};
  std::size_t length = words.size();
  all.broadcast(hymn::view_of(length), first % world.size());
  words.resize(length);
  all.broadcast(words, first % world.size());
  return words;
}

std::shared_ptr<hymn::Store> common_store(hymn::World& world) {
  if (world.host_count() > 1) return nullptr;
  std::shared_ptr<hymn::TcpStore> server;
  std::string token(64, ' ');
  int port = 0;
  if (world.rank() == 0) {
    token = hymn::TcpStore::make_token();
    server =
        std::make_shared<hymn::TcpStore>(hymn::TcpStoreOptions{.is_server = true, .token = token});
    port = server->port();
  }
  world.group().broadcast(token, 0);
  world.group().broadcast(hymn::view_of(port), 0);
  if (server) return server;
  return std::make_shared<hymn::TcpStore>(hymn::TcpStoreOptions{.port = port, .token = token});
}

}  // namespace uneven
