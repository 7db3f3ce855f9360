// Ranks as threads: run_ranks, and the mechanism by which they reach each other's memory.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "collectives/inprocess/inprocess.hpp"
#include "hymn/threads.hpp"
#include "p2p/thread_board.hpp"
#include "p2p/thread_hub.hpp"
#include "runtime/world_state.hpp"

namespace hymn {
namespace {

class ThreadMechanism final : public Mechanism {
 public:
  explicit ThreadMechanism(std::shared_ptr<ThreadHub> hub) : hub_(std::move(hub)) {}

  void open(Algorithms& algorithms, const Membership& membership, GroupShape shape,
            std::span<const Bytes>) override {
    add_inprocess_algorithms(algorithms, hub_->board(membership.uid, shape.size), shape);
  }

 private:
  std::shared_ptr<ThreadHub> hub_;
};

/// How one rank's function ended.
struct Ending {
  std::exception_ptr error;
  std::string text;
  bool skipped = false;
  bool released = false;  ///< it failed only because another rank did
};

Ending run_one(const std::shared_ptr<ThreadHub>& hub, int rank, const Config& config,
               const WorldOptions& options, const std::function<void(World&)>& rank_main) {
  Ending ending;
  auto failed = [&](const char* text) {
    ending.error = std::current_exception();
    ending.text = text;
    hub->abort(fmt::format("rank {} has failed: {}", rank, text));
  };
  try {
    detail::WorldParts parts;
    parts.exchange = std::make_shared<ThreadExchange>(hub, rank);
    parts.mechanisms.push_back(std::make_unique<ThreadMechanism>(hub));
    parts.config = config;
    parts.options = options;
    World world(detail::WorldState::make(std::move(parts)));
    rank_main(world);
  } catch (const RankSkipped& skip) {
    ending.error = std::current_exception();
    ending.text = skip.what();
    ending.skipped = true;
    hub->abort(fmt::format("rank {} skips: {}", rank, skip.what()));
  } catch (const AbortedError& error) {
    ending.released = hub->is_aborted();
    failed(error.what());
  } catch (const std::exception& error) {
    failed(error.what());
  } catch (...) {
    failed("something that is no std::exception");
  }
  return ending;
}

std::string describe(const std::vector<RankFailure>& failures) {
  std::vector<std::string> lines;
  for (const RankFailure& failure : failures)
    lines.push_back(fmt::format("rank {}: {}", failure.rank, failure.text));
  return fmt::format("{} rank(s) failed: {}", failures.size(), fmt::join(lines, "; "));
}

}  // namespace

RankSkipped::~RankSkipped() = default;

RanksFailed::RanksFailed(std::vector<RankFailure> failures)
    : Error(ErrorKind::peer, describe(failures),
            {.rank = failures.empty() ? -1 : failures.front().rank}),
      failures_(std::move(failures)) {}

RanksFailed::~RanksFailed() = default;

void RanksFailed::rethrow_first() const { std::rethrow_exception(failures_.front().error); }

void run_ranks(int ranks, const std::function<void(World&)>& rank_main,
               const WorldOptions& options) {
  if (ranks < 1)
    throw UsageError(fmt::format("run_ranks was asked for {} ranks", ranks),
                     {.remedy = "ask for at least one"});
  const Config config = Config::from_environment();
  auto hub = std::make_shared<ThreadHub>(ranks);
  std::vector<Ending> endings(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      endings[static_cast<std::size_t>(rank)] = run_one(hub, rank, config, options, rank_main);
    });
  }
  for (std::thread& thread : threads) thread.join();

  std::vector<RankFailure> failures;
  std::vector<RankFailure> released;
  std::exception_ptr skip;
  for (int rank = 0; rank < ranks; ++rank) {
    const Ending& ending = endings[static_cast<std::size_t>(rank)];
    if (!ending.error) continue;
    if (ending.skipped) skip = skip ? skip : ending.error;
    else (ending.released ? released : failures).push_back({rank, ending.error, ending.text});
  }
  if (!failures.empty()) throw RanksFailed(std::move(failures));
  if (skip) std::rethrow_exception(skip);
  if (!released.empty()) throw RanksFailed(std::move(released));
}

}  // namespace hymn
