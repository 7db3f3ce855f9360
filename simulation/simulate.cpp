#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>

#include "hymn/simulation.hpp"
#include "hymn/threads.hpp"
#include "runtime/world/rank_seams.hpp"
#include "simulation/faults.hpp"
#include "simulation/network.hpp"
#include "simulation/run.hpp"
#include "simulation/scheduler.hpp"

namespace hymn {

SimulationStuck::SimulationStuck(const std::string& text)
    : Error(ErrorKind::timeout, text,
            {.remedy = "look for locks and conditions that nobody wakes, and for loops that wait "
                       "without asking hymn"}) {}
SimulationStuck::~SimulationStuck() = default;

namespace sim {
namespace {

/// All of one simulation. It outlives a stuck one, whose threads stay where they are.
class Simulation final : public RankSeams {
 public:
  Simulation(const SimulationOptions& options, std::function<void(World&)> rank_main)
      : options_(options),
        rank_main_(std::move(rank_main)),
        faults_(all_faults(options)),
        scheduler_(options),
        network_(scheduler_, options_, faults_),
        fault_threads_(scheduler_, faults_, options.death_notice) {}

  Scheduler::End run() {
    return scheduler_.run([this] { run_ranks(); });
  }
  SimulationResult result(bool is_stuck) const;

  Scheduler& scheduler() { return scheduler_; }

  void begin(SightDeath sight_death) override {
    fault_threads_.start(std::move(sight_death));
    has_begun_ = true;
  }
  void begin_rank(int rank) override { scheduler_.begin_rank(rank); }
  bool let_share_memory() const override {
    // Threads do not die, and wait for each other where processes would not.
    const bool is_deadly = std::ranges::any_of(
        faults_, [](const Fault& fault) { return fault.kind == Fault::Kind::death; });
    return !is_deadly && std::ranges::all_of(options_.hosts, [this](int host) {
      return host == options_.hosts.front();
    });
  }
  std::shared_ptr<Exchange> between(int, std::shared_ptr<Exchange> plain) override {
    return std::make_shared<SimulatedExchange>(network_, std::move(plain));
  }

 private:
  void run_ranks();
  void begin_one(World& world);
  void keep_failures(const RanksFailed& failed);

  const SimulationOptions options_;
  const std::function<void(World&)> rank_main_;
  const std::vector<Fault> faults_;
  Scheduler scheduler_;
  Network network_;
  FaultThreads fault_threads_;
  bool has_begun_ = false;
  int have_worlds_ = 0;
  std::exception_ptr error_;
  std::string text_;
};

// Those that were to die have died.
void Simulation::keep_failures(const RanksFailed& failed) {
  std::vector<RankFailure> others;
  std::ranges::copy_if(failed.failures(), std::back_inserter(others),
                       [this](const auto& failure) { return !scheduler_.is_dead(failure.rank); });
  if (others.empty()) return;
  const RanksFailed left(std::move(others));
  error_ = std::make_exception_ptr(left);
  text_ = left.what();
}

void Simulation::begin_one(World& world) {
  // Where something goes wrong, nobody is through before it can.
  if (!faults_.empty() && !options_.faults_from_start) {
    if (++have_worlds_ == options_.ranks) scheduler_.begin_faults();
    scheduler_.await_faults();
  }
  rank_main_(world);
}

void Simulation::run_ranks() {
  try {
    if (options_.faults_from_start) scheduler_.begin_faults();
    run_simulated_ranks(
        options_.hosts, [this](World& world) { begin_one(world); }, options_.world, *this);
  } catch (const RanksFailed& failed) {
    keep_failures(failed);
  } catch (const std::exception& error) {
    error_ = std::current_exception();
    text_ = error.what();
  }
  if (has_begun_) fault_threads_.join();
}

SimulationResult Simulation::result(bool is_stuck) const {
  SimulationResult result{.seed = options_.seed,
                          .error = error_,
                          .text = text_,
                          .time = scheduler_.end_of_ranks() - Scheduler::beginning,
                          .steps = scheduler_.steps(),
                          .faults = faults_,
                          .changes = scheduler_.changes(),
                          .lines = scheduler_.lines()};
  if (is_stuck) {
    const SimulationStuck stuck(scheduler_.problem());
    result.error = std::make_exception_ptr(stuck);
    result.text = stuck.what();
  }
  return result;
}

/// Between threads that take turns a core is handed over faster than from one core to another.
class OnOneCore {
 public:
  OnOneCore() {
    if (sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(std::max(0, sched_getcpu())), &one);
    is_set_ = sched_setaffinity(0, sizeof(one), &one) == 0;
  }
  OnOneCore(const OnOneCore&) = delete;
  OnOneCore& operator=(const OnOneCore&) = delete;
  ~OnOneCore() {
    if (is_set_) sched_setaffinity(0, sizeof(before_), &before_);
  }

 private:
  cpu_set_t before_{};
  bool is_set_ = false;
};

class OneAtATime {
 public:
  OneAtATime() {
    if (is_running.exchange(true))
      throw UsageError("a simulation is running already in this process",
                       {.remedy = "run one after the other"});
    static ThreadSchedule schedule;
    set_simulated_schedule(&schedule);
  }
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;
  ~OneAtATime() {
    set_simulated_schedule(nullptr);
    is_running = false;
  }

 private:
  static inline std::atomic<bool> is_running{false};
};

/// Whether libhymn.so comes to this library, and not to libc, when it takes a lock.
void require_stand_ins() {
  Dl_info found{};
  Dl_info own{};
  void* const lock = dlsym(RTLD_DEFAULT, "pthread_mutex_lock");
  dladdr(lock, &found);
  dladdr(reinterpret_cast<void*>(&note_in_story), &own);
  if (found.dli_fbase != own.dli_fbase)
    throw UsageError(
        "libhymn-simulation.so does not stand in for the locks of this process",
        {.remedy = "link the program to it before all other libraries, or preload it"});
}

/// The first simulation of a process would take other steps than later ones: what is made once in a
/// process is made in a simulation of nothing.
void warm_up() {
  static const bool is_warm = [] {
    const auto use_all = [](World& world) {
      ProcessGroup group = world.new_group({0, 1});
      std::int32_t value = 1;
      group.all_reduce(value);
      group.barrier();
      if (group.rank() == 0)
        group.send(value, 1);
      else
        group.recv(value, 0);
      (void)world.flight_record();  // what call sites are called is looked up once, too
    };
    for (const int other_host : {0, 1}) {
      SimulationOptions options;
      options.hosts = {0, other_host};
      run(options, use_all);
    }
    return true;
  }();
  (void)is_warm;
}

}  // namespace

namespace {

void check_link(const SimulatedLink& link) {
  if (link.bytes_per_second > 0 && link.latency >= Duration(0) && link.latency <= longest_time)
    return;
  throw UsageError("a link that carries nothing, or with a latency below 0 or of many years");
}

void check_links(const SimulationOptions& options) {
  check_link(options.link);
  const auto is_host = [&options](int host) {
    return std::ranges::find(options.hosts, host) != options.hosts.end();
  };
  std::set<std::pair<int, int>> known;
  for (const LinkBetween& one : options.links) {
    if (!is_host(one.host) || !is_host(one.other) || one.host == one.other)
      throw UsageError(fmt::format("a link between the hosts {} and {}", one.host, one.other),
                       {.remedy = "name two of SimulationOptions::hosts"});
    check_link(one.link);
    if (!known.insert(std::minmax({one.host, one.other})).second)
      throw UsageError(fmt::format("two links between the hosts {} and {}", one.host, one.other));
  }
}

}  // namespace

SimulationOptions checked(SimulationOptions options) {
  if (options.ranks < 1) throw UsageError("a simulation needs at least one rank");
  if (options.hosts.empty()) options.hosts.assign(static_cast<std::size_t>(options.ranks), 0);
  if (static_cast<int>(options.hosts.size()) != options.ranks)
    throw UsageError(
        fmt::format("{} ranks, but the hosts of {}", options.ranks, options.hosts.size()),
        {.remedy = "give one host for each rank, or none"});
  if (std::ranges::any_of(options.hosts, [](int host) { return host < 0; }))
    throw UsageError("hosts are numbered from 0");
  check_links(options);
  if (options.death_notice < Duration(0) || options.death_notice > longest_time)
    throw UsageError("a notice of death after a time below 0, or of many years");
  const RandomFaults& drawn = options.random_faults;
  if (std::min({drawn.deaths, drawn.stalls, drawn.cuts, drawn.late}) < 0 ||
      drawn.within < Duration(0) || drawn.longest < Duration(0))
    throw UsageError("random faults of which there are less than none");
  constexpr int most_changes = 1000;
  if (options.priority_changes < 0 || options.priority_changes > most_changes)
    throw UsageError(fmt::format("{} changes of priorities", options.priority_changes),
                     {.remedy = "ask for a few: three find most of what there is"});
  if (options.policy > SchedulePolicy::priorities)
    throw UsageError("there is no such schedule policy");
  check_faults(options);
  return options;
}

SimulationResult run(const SimulationOptions& options, const std::function<void(World&)>& rank_main,
                     std::vector<ScheduleChange>* possible) {
  auto simulation = std::make_unique<Simulation>(options, rank_main);
  simulation->scheduler().tell_possible_changes(possible);
  const OneAtATime alone;
  const Scheduler::End end = simulation->run();
  SimulationResult result = simulation->result(end == Scheduler::End::stuck);
  // Threads that will never go on hold what is theirs.
  if (end != Scheduler::End::done) (void)simulation.release();
  return result;
}

}  // namespace sim

SimulationResult simulate(const SimulationOptions& options,
                          const std::function<void(World&)>& rank_main) {
  sim::require_stand_ins();
  const SimulationOptions checked = sim::checked(options);
  const sim::OnOneCore on_one_core;
  sim::warm_up();
  return sim::run(checked, rank_main);
}

void note_in_story(const std::string& line) {
  if (sim::SimulatedThread* const self = sim::this_thread()) self->scheduler->tell(line);
}

}  // namespace hymn
