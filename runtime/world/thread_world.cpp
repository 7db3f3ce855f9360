// Ranks as threads: run_ranks, and the mechanism by which they reach each other's memory.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <system_error>
#include <thread>

#include "base/helper_thread.hpp"
#include "collectives/inprocess/inprocess.hpp"
#include "hymn/threads.hpp"
#include "p2p/shm/heap_region.hpp"
#include "p2p/threads/thread_board.hpp"
#include "p2p/threads/thread_hub.hpp"
#include "runtime/mechanisms/hierarchical_mechanism.hpp"
#include "runtime/mechanisms/peer_mechanism.hpp"
#include "runtime/mechanisms/shm_mechanism.hpp"
#include "runtime/world/thread_control.hpp"
#include "runtime/world/thread_world.hpp"
#include "runtime/world/world_state.hpp"

namespace hymn {
namespace {

class ThreadMechanism final : public Mechanism {
 public:
  explicit ThreadMechanism(std::shared_ptr<ThreadHub> hub) : hub_(std::move(hub)) {}

  void open(NewGroup& group, std::span<const Word>, std::span<const Word>) override {
    add_inprocess_algorithms(group.algorithms, hub_->board(group.membership.uid, group.shape.size),
                             group.shape);
  }

 private:
  std::shared_ptr<ThreadHub> hub_;
};

/// Memory that threads share is just there.
class ThreadRegions final : public RegionSource {
 public:
  explicit ThreadRegions(std::shared_ptr<ThreadHub> hub, int rank)
      : hub_(std::move(hub)), rank_(rank) {}
  // The name by which the others ask for it.
  Bytes make(std::uint64_t uid, const RegionPlan&, int) override {
    Packer packer;
    packer.text(fmt::format("group {} of rank {}", uid, rank_));
    return packer.packed();
  }
  std::unique_ptr<SharedRegion> join(std::uint64_t, std::span<const std::byte> ticket,
                                     const RegionPlan& plan, int members, int me,
                                     Duration) override {
    return HeapMemory::view(hub_->memory(Unpacker(ticket).text(), plan, members), me);
  }
  void opened(const std::shared_ptr<ShmChannel>& channel) override {
    hub_->at_abort(channel,
                   [open = channel.get()](const std::string& reason) { open->abort(reason); });
  }

 private:
  std::shared_ptr<ThreadHub> hub_;
  int rank_;
};

thread_local World* world_of_thread = nullptr;

/// While a rank's world stands: hooks run at its end, too.
class Inside {
 public:
  Inside() = default;
  ~Inside() { world_of_thread = nullptr; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  void enter(World& world) { world_of_thread = &world; }
};

/// How one rank's function ended.
struct Ending {
  std::exception_ptr error;
  std::string text;
  bool skipped = false;
  bool released = false;  ///< by the failure of another rank
};

/// Runs `body` and notes how it ended; the first failure stays. The other ranks are released at
/// once, while the world of this one still stands.
template <class Body>
void guard(ThreadHub& hub, int rank, Ending& ending, Body&& body) {
  auto note = [&](const char* text, const char* verb) {
    if (ending.error) return;
    ending.error = std::current_exception();
    ending.text = text;
    hub.abort(fmt::format("rank {} {}: {}", rank, verb, text));
  };
  try {
    body();
  } catch (const RankSkipped& skip) {
    ending.skipped = !ending.error;
    note(skip.what(), "skips");
  } catch (const AbortedError& error) {
    ending.released = !ending.error;
    note(error.what(), "has failed");
  } catch (const std::exception& error) {
    note(error.what(), "has failed");
  } catch (...) {
    note("something that is not a std::exception", "has failed");
  }
}

using MakeParts = std::function<detail::WorldParts(int rank)>;

/// What all ranks of a run share.
struct Common {
  Common(int ranks, RankSeams* seams_)
      : seams(seams_),
        hub(std::make_shared<ThreadHub>(ranks)),
        in_process_coordinator(std::make_shared<control::InProcessCoordinator>(ranks)),
        pulse(std::make_shared<Pulse>()),
        records(std::make_shared<RecordTable>(ranks)) {
    if (seams == nullptr) return;
    seams->begin(
        [coordinator = in_process_coordinator, all = records](int rank, const std::string& how) {
          PeerNews news{.rank = rank, .state = PeerState::dead, .detail = how};
          if (const auto view = all->view_of(rank)) news.marks = view->marks();
          coordinator->bury(news);
        });
  }
  std::shared_ptr<Exchange> exchange_of(int rank) const {
    auto plain = std::make_shared<ThreadExchange>(hub, rank);
    if (seams == nullptr) return plain;
    return seams->between(rank, std::move(plain));
  }

  RankSeams* seams;
  std::shared_ptr<ThreadHub> hub;
  std::shared_ptr<control::InProcessCoordinator> in_process_coordinator;
  std::shared_ptr<Pulse> pulse;
  std::shared_ptr<RecordTable> records;
};

Ending run_one(const Common& common, int rank, const MakeParts& make_parts,
               const std::function<void(World&)>& rank_main) {
  const auto& hub = common.hub;
  Ending ending;
  guard(*hub, rank, ending, [&] {
    if (common.seams != nullptr) common.seams->begin_rank(rank);
    detail::WorldParts parts = make_parts(rank);
    parts.exchange = common.exchange_of(rank);
    parts.in_one_process = true;
    if (common.seams == nullptr || common.seams->let_share_memory())
      parts.mechanisms.push_back(std::make_unique<ThreadMechanism>(hub));
    parts.mechanisms.push_back(std::make_unique<ShmMechanism>(
        std::make_unique<ThreadRegions>(hub, rank), Logger(parts.config.log_level, rank)));
    parts.mechanisms.push_back(std::make_unique<HierarchicalMechanism>());
    add_gpu_mechanisms(parts.mechanisms, parts.gpus, parts.path, parts.config);
    parts.control = std::make_unique<ThreadControl>(common.in_process_coordinator, common.pulse,
                                                    common.records, rank);
    Inside inside;  // outlives the world
    World world(detail::WorldState::make(std::move(parts)));
    inside.enter(world);
    guard(*hub, rank, ending, [&] { rank_main(world); });
    if (!ending.error) return;
    // It is not on its way any more, by which the world would know of it.
    detail::WorldState& state = detail::WorldState::of(world);
    state.context().life.mark_unwound();
    if (!ending.skipped && !ending.released) state.control().note_exception(ending.text);
  });
  return ending;
}

/// Starts all ranks or none: a rank alone would wait for ever.
std::vector<std::thread> start_threads(ThreadHub& hub, int ranks,
                                       const std::function<void(int)>& run) {
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run, rank);
  } catch (const std::system_error& error) {
    hub.abort("not all ranks could be started");
    for (std::thread& thread : threads) thread.join();
    throw ResourceError(
        fmt::format("only {} of {} threads could be started: {}", threads.size(), ranks,
                    error.what()),
        {.remedy = "ask for fewer ranks, or raise the limit on threads (ulimit -u)"});
  }
  return threads;
}

std::string describe(const std::vector<RankFailure>& failures) {
  std::vector<std::string> lines;
  for (const RankFailure& failure : failures)
    lines.push_back(fmt::format("rank {}: {}", failure.rank, failure.text));
  return fmt::format("{} rank(s) failed: {}", failures.size(), fmt::join(lines, "; "));
}

}  // namespace

World& World::current() {
  if (world_of_thread == nullptr)
    throw UsageError("this thread is no rank's: run_ranks has not called a rank's function on it",
                     {.remedy = "ask on the rank's own thread, and hand the World on from there"});
  return *world_of_thread;
}

RankSkipped::~RankSkipped() = default;

RanksFailed::RanksFailed(std::vector<RankFailure> failures)
    : Error(ErrorKind::peer, describe(failures),
            {.rank = failures.empty() ? -1 : failures.front().rank}),
      failures_(std::move(failures)) {}

RanksFailed::~RanksFailed() = default;

void RanksFailed::rethrow_first() const { std::rethrow_exception(failures_.front().error); }

namespace {

/// Runs all ranks, and throws what they threw.
void run_all(int ranks, const MakeParts& make_parts, const std::function<void(World&)>& rank_main,
             RankSeams* seams = nullptr) {
  const Common common(ranks, seams);
  std::vector<Ending> endings(static_cast<std::size_t>(ranks));
  auto threads = start_threads(*common.hub, ranks, [&](int rank) {
    Ending& ending = endings[static_cast<std::size_t>(rank)];
    // Even to note a failure may fail, for want of memory.
    run_guarded([&] { ending = run_one(common, rank, make_parts, rank_main); },
                [&](std::string_view why) {
                  ending.error = std::make_exception_ptr(ResourceError(std::string(why)));
                  ending.text = why;
                  common.hub->abort(fmt::format("rank {} has failed: {}", rank, why));
                });
  });
  for (std::thread& thread : threads) thread.join();

  std::vector<RankFailure> failures;
  std::vector<RankFailure> released;
  std::exception_ptr skip;
  for (int rank = 0; rank < ranks; ++rank) {
    const Ending& ending = endings[static_cast<std::size_t>(rank)];
    if (!ending.error) continue;
    if (ending.skipped)
      skip = skip ? skip : ending.error;
    else
      (ending.released ? released : failures).push_back({rank, ending.error, ending.text});
  }
  if (!failures.empty()) throw RanksFailed(std::move(failures));
  if (skip) std::rethrow_exception(skip);
  if (!released.empty()) throw RanksFailed(std::move(released));
}

}  // namespace

void run_ranks(int ranks, const std::function<void(World&)>& rank_main,
               const WorldOptions& options) {
  if (ranks < 1)
    throw UsageError(fmt::format("run_ranks was asked for {} ranks", ranks),
                     {.remedy = "ask for at least one"});
  const Config config = Config::from_environment();
  const auto make_parts = [&](int) { return detail::WorldParts(config, options); };
  run_all(ranks, make_parts, rank_main);
}

void run_pretended_ranks(const std::vector<PretendedRank>& ranks,
                         const std::function<void(World&)>& rank_main, const WorldOptions& options,
                         RankSeams* seams) {
  const auto make_parts = [&](int rank) {
    const PretendedRank& pretended = ranks.at(static_cast<std::size_t>(rank));
    detail::WorldParts parts(pretended.config, options);
    parts.site = {pretended.host, pretended.machine, pretended.cpus, pretended.visible_gpus};
    if (pretended.gpus != nullptr) {
      parts.gpus = pretended.gpus->libraries;
      parts.memory = pretended.gpus->memory;
    }
    return parts;
  };
  run_all(static_cast<int>(ranks.size()), make_parts, rank_main, seams);
}

}  // namespace hymn
