// A deterministic world: all ranks of a program in one process, and every interleaving of theirs
// decided by a seed, in virtual time, with hosts, links and faults that are not there.
//
// A library of its own, libhymn-simulation.so (CMake: hymn::simulation), which comes before all
// others at link time: it stands in for the locks, sleeps and clocks of the threads that it runs,
// those of the program, too. docs/simulation.md.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hymn/export.hpp"
#include "hymn/timeout.hpp"
#include "hymn/world.hpp"

namespace hymn {

/// Who goes on where several threads could.
enum class SchedulePolicy : std::uint8_t {
  random,       ///< each as likely as any other
  round_robin,  ///< at each point the next: the same for all seeds
  /// The one with the highest priority, which is drawn for each thread; at a few points, drawn as
  /// well, that thread falls behind all others (Burckhardt and others, 2010: finds a fault that
  /// needs d such changes with a probability that can be told).
  priorities,
};

/// What goes wrong, and when: so long after all ranks have their worlds, in virtual time, or at
/// that step from then on. With SimulationOptions::faults_from_start: from the very beginning.
struct Fault {
  enum class Kind : std::uint8_t {
    death,  ///< the rank does nothing any more, and says nothing
    stall,  ///< the rank does nothing for so long
    slow,   ///< each step of the rank takes so much longer
    cut,    ///< nothing passes between two hosts for so long; then all of it does, once
    late,   ///< one message between two hosts takes so much longer, and holds up those behind it
  };
  static constexpr Duration for_ever = Duration::max();

  Kind kind = Kind::death;
  int from = -1;  ///< the rank; of a cut a host
  int to = -1;    ///< of a late message its receiver; of a cut the other host
  Duration at{0};
  std::uint64_t step = 0;     ///< not 0: then, instead of `at`
  Duration by{0};             ///< how long it lasts, or how much longer it takes
  std::uint64_t message = 0;  ///< late: which one from that rank to that other, from 0

  static Fault death(int rank, Duration at) { return {.from = rank, .at = at}; }
  static Fault death_at_step(int rank, std::uint64_t step) { return {.from = rank, .step = step}; }
  static Fault stall(int rank, Duration at, Duration lasts) {
    return {.kind = Kind::stall, .from = rank, .at = at, .by = lasts};
  }
  static Fault slow(int rank, Duration each_step) {
    return {.kind = Kind::slow, .from = rank, .by = each_step};
  }
  static Fault cut(int host, int other, Duration at, Duration lasts = for_ever) {
    return {.kind = Kind::cut, .from = host, .to = other, .at = at, .by = lasts};
  }
  static Fault late(int sender, int receiver, std::uint64_t message, Duration by) {
    return {.kind = Kind::late, .from = sender, .to = receiver, .by = by, .message = message};
  }
};

/// How many faults of each kind are drawn from the seed, and until when they happen.
struct RandomFaults {
  int deaths = 0;  ///< of different ranks, at a step up to `within_steps`
  int stalls = 0;  ///< of up to `longest`
  int cuts = 0;    ///< of up to `longest`
  int late = 0;    ///< by up to `longest`
  std::uint64_t within_steps = 2000;
  Duration within = std::chrono::milliseconds(10);
  Duration longest = std::chrono::seconds(2);
};

/// What carries messages between hosts. Those of one rank to another arrive in the order sent.
struct SimulatedLink {
  Duration latency = std::chrono::microseconds(20);
  double bytes_per_second = 1.25e9;  ///< of the sending host, which sends one message at a time
};

/// The link between two hosts, in both directions, where it is unlike the others.
struct LinkBetween {
  int host = -1;
  int other = -1;
  SimulatedLink link{};
};

/// One thread was to go on where another would have: after it had come to so many points at which
/// it could have gone on itself, and had waited so often since the last of them.
struct ScheduleChange {
  int thread = 0;
  std::uint64_t point = 0;
  std::uint64_t waits = 0;
  int next = 0;
  friend bool operator==(const ScheduleChange&, const ScheduleChange&) = default;
};

struct SimulationOptions {
  int ranks = 2;
  /// The host of each rank, from 0; empty: all are on one.
  std::vector<int> hosts{};
  std::uint64_t seed = 0;
  SchedulePolicy policy = SchedulePolicy::random;
  int priority_changes = 3;  ///< of SchedulePolicy::priorities
  std::vector<Fault> faults{};
  RandomFaults random_faults{};
  /// While worlds are made, too.
  bool faults_from_start = false;
  SimulatedLink link{};              ///< between all hosts but these
  std::vector<LinkBetween> links{};  ///< of two hosts each
  /// How long after a death the others hear of it.
  Duration death_notice = std::chrono::milliseconds(1);
  WorldOptions world{};
  /// A simulation that takes more steps than this is given up: it gets nowhere.
  std::uint64_t most_steps = 20'000'000;
  /// These changes, and no others: a schedule that was recorded. Unset: as `policy` has it.
  std::optional<std::vector<ScheduleChange>> replay{};
  /// Keep who went on when, for story().
  bool story = false;
};

/// What came of one simulation.
struct SimulationResult {
  std::uint64_t seed = 0;
  /// Null: all ranks that were not to die returned. RanksFailed of those that threw, or a
  /// SimulationStuck.
  std::exception_ptr error{};
  std::string text{};                     ///< of the error
  Duration time{0};                       ///< virtual
  std::uint64_t steps = 0;                ///< points at which it was decided who goes on
  std::vector<Fault> faults{};            ///< all of them, those that were drawn, too
  std::vector<ScheduleChange> changes{};  ///< for SimulationOptions::replay
  std::vector<std::string> lines{};       ///< what happened, with SimulationOptions::story

  bool ok() const { return error == nullptr; }
  void rethrow() const {
    if (error) std::rethrow_exception(error);
  }
  /// Lines to read: what happened, how it ended, and how to see it again.
  HYMN_API std::string story() const;
};

/// Thrown, as SimulationResult::error, where nobody can go on any more, or nobody gets anywhere.
/// The threads of such a simulation are left where they are, with all that they hold.
class HYMN_API SimulationStuck : public Error {
 public:
  explicit SimulationStuck(const std::string& text);
  ~SimulationStuck() override;
};

/// Runs `rank_main` once on each of the ranks, as run_ranks() does: real groups, algorithms and
/// control plane. The same options give the same steps, unless the program asks something that
/// differs from run to run: addresses, true random numbers, the real time, files, sockets.
///
/// One simulation at a time in a process; threads that are none of it must not share locks with
/// those that are. Throws UsageError for options that contradict each other, and for a process in
/// which this library does not stand in for the locks (it must come before libc).
HYMN_API SimulationResult simulate(const SimulationOptions& options,
                                   const std::function<void(World&)>& rank_main);

/// Simulates with so many seeds from `options.seed` on, until one fails: that one; else nothing.
HYMN_API std::optional<SimulationResult> explore(const SimulationOptions& options,
                                                 std::uint64_t seeds,
                                                 const std::function<void(World&)>& rank_main);

/// Of a simulation that has failed: the least changes of the schedule, and the least faults, that
/// were found with which it fails alike, with the same kinds of errors. Simulates again
/// and again, `tries` times at most. Its story is kept.
HYMN_API SimulationResult shorten(const SimulationOptions& options, const SimulationResult& failed,
                                  const std::function<void(World&)>& rank_main,
                                  std::size_t tries = 1000);

/// A line of the program's own in the story, with time and rank; nothing outside a simulation.
HYMN_API void note_in_story(const std::string& line);

}  // namespace hymn
