// The threads of one simulation, of which one runs at a time, and its time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/schedule_point.hpp"
#include "hymn/simulation.hpp"
#include "simulation/simulated_thread.hpp"
#include "simulation/strategy.hpp"

namespace hymn::sim {

/// Thrown on the thread of a rank that has died, once all others have ended: to take its stack
/// down. What catches hymn's errors catches it.
class RankDied : public AbortedError {
 public:
  RankDied() : AbortedError("the rank has died in a simulation") {}
  ~RankDied() override;
};

/// What hymn tells the scheduler of the calling thread, if it has one. Threads that have none may
/// ask at any time: it is there for as long as the process.
class ThreadSchedule final : public Schedule {
 public:
  void shown() noexcept override;
  bool waits(long nanoseconds) override;
  void serves_all() noexcept override;
};

/// Called by the thread that runs, but for where something else is said. Whoever is handed the
/// baton sees all that was done before, so nothing is locked.
class Scheduler {
 public:
  enum class End : std::uint8_t {
    running,
    done,
    left_over,  ///< the first thread has ended, others will never go on
    stuck,      ///< nobody will
  };

  explicit Scheduler(const SimulationOptions& options);

  // --- The thread that simulates, which is none of the simulation's

  /// Runs `first` to its end. But for End::done there are threads that stay where they are.
  End run(std::function<void()> first);
  /// Why it is stuck.
  const std::string& problem() const { return problem_; }

  // --- Threads

  SimulatedThread& add_thread(int rank);
  /// It could not be started.
  void forget_thread(SimulatedThread& thread) { thread.state = SimulatedThread::State::ended; }
  /// It waits until it is its turn for the first time.
  void enter(SimulatedThread& thread);
  /// The calling thread has come to its end.
  void leave();
  SimulatedThread* find_thread(pthread_t handle);

  // --- Turns

  /// The calling thread could go on, as could others.
  void give_turn(Point point);
  /// Until others have shown something, or so long at most.
  void look_for_news(Duration at_most);
  void sleep_until(TimePoint when);
  /// Until faults count, or there will be none.
  void await_faults();
  /// As Fault has it; once they count.
  void sleep_until_fault(Duration at, std::uint64_t step);
  /// Until wake(on), or until then: false.
  bool block(const void* on, TimePoint until = never);
  /// Whoever is blocked on it, or one of them, can go on. How many those are.
  int wake(const void* on, bool all);
  void note_locks(int more);
  /// What is initialised once, and who is at it.
  std::map<const void*, const SimulatedThread*>& initialising() { return initialising_; }

  // For Schedule.
  void note_shown();
  void wait_for_others(Duration at_most);
  void serve_all();

  // --- Time

  /// A look at the clock takes some.
  TimePoint read_clock() { return now_ += look; }
  TimePoint now() const { return now_; }
  /// Something will be there then: who looks for news looks again.
  void expect_news(TimePoint when) { expected_.insert(when); }

  // --- Ranks

  /// The calling thread is this rank's own, whose end is that of the rank.
  void begin_rank(int rank);
  /// False: it has returned, or died before.
  bool kill(int rank);
  void stall(int rank, TimePoint until);
  void slow_down(int rank, Duration each_step) { slowness_[rank] = each_step; }
  bool is_dead(int rank) const { return dead_.contains(rank); }

  /// All ranks that are not dead have returned.
  bool are_ranks_done() const { return begun_ranks_ == ranks_ && living_ranks_.empty(); }
  /// When the last of them has returned.
  TimePoint end_of_ranks() const { return end_of_ranks_; }

  // --- What is told of it

  std::uint64_t steps() const { return steps_; }
  const std::vector<ScheduleChange>& changes() const { return changes_; }
  /// Before it runs: here all that could have been are added.
  void tell_possible_changes(std::vector<ScheduleChange>* here) { possible_ = here; }
  void tell(std::string line);
  const std::vector<std::string>& lines() const { return lines_; }

  /// Faults count time and steps from now on.
  void begin_faults();
  /// `never`: not yet.
  TimePoint faults_begin() const { return faults_begin_; }

  static constexpr TimePoint beginning = TimePoint{} + std::chrono::hours(1);

 private:
  using State = SimulatedThread::State;
  static constexpr Duration look = std::chrono::nanoseconds(20);
  static constexpr int most_in_a_row = 2000;

  /// So many fit into a story.
  static constexpr std::size_t few_changes = 20;
  static constexpr Duration step_takes = std::chrono::nanoseconds(100);

  /// The calling thread is in its state: somebody else goes on, or it does.
  void pass_on(Point point);
  /// Who goes on; null: nobody ever will.
  SimulatedThread* choose(SimulatedThread& current, Point point);
  int choose_of_several(const SimulatedThread& current, Point point);
  void find_able();
  void note_expected();
  bool is_able(const SimulatedThread& thread) const;
  bool is_frozen(const SimulatedThread& thread) const;
  bool is_stalled(int rank) const;
  bool move_time();
  Duration leap();
  void hand_baton_to(SimulatedThread& thread);
  void await_baton(SimulatedThread& thread);
  void end(End how);
  [[noreturn]] void stop_here(const std::string& problem);
  std::string describe_threads() const;
  std::string name_of(int thread) const;
  void tell_change(int usual, int next);
  void slow_step(SimulatedThread& thread);
  static void count_point(SimulatedThread& thread, Point point);

  int ranks_;
  std::uint64_t most_steps_;
  bool keeps_story_;
  bool tells_changes_;
  std::unique_ptr<Strategy> strategy_;
  std::vector<std::unique_ptr<SimulatedThread>> threads_;
  std::vector<int> able_;
  int turns_in_a_row_ = 0;  ///< of the thread that runs, where others could
  TimePoint now_ = beginning;
  std::uint64_t steps_ = 0;
  TimePoint faults_begin_ = never;
  std::uint64_t first_fault_step_ = 0;
  std::uint64_t news_ = 0;
  std::multiset<TimePoint> expected_;
  std::uint64_t news_when_moved_ = 0;
  int moves_without_news_ = 0;
  TimePoint quiet_since_ = beginning;

  std::set<int> dead_;
  std::set<int> living_ranks_;
  std::map<int, const SimulatedThread*> own_thread_;  ///< of each rank
  int begun_ranks_ = 0;
  TimePoint end_of_ranks_ = beginning;
  std::map<int, TimePoint> stalled_until_;
  std::map<int, Duration> slowness_;
  std::map<const void*, const SimulatedThread*> initialising_;

  std::vector<ScheduleChange> changes_;
  std::vector<ScheduleChange>* possible_ = nullptr;
  std::vector<std::string> lines_;
  std::string problem_;
  std::atomic<std::uint32_t> end_{0};  ///< an End, for the thread that simulates
};

}  // namespace hymn::sim
