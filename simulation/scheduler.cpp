#include "simulation/scheduler.hpp"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include "simulation/real_calls.hpp"
#include "simulation/simulated_time.hpp"
#include "simulation/thread_start.hpp"

namespace hymn::sim {
namespace {

// Nothing of this is seen by the functions that others call: not errno either.
void await_word(std::atomic<std::uint32_t>& word, std::uint32_t from) {
  const int before = errno;
  real().syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, from, nullptr, nullptr, 0);
  errno = before;
}
void tell_word(std::atomic<std::uint32_t>& word) {
  const int before = errno;
  real().syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  errno = before;
}

}  // namespace

SimulatedThread*& this_thread() noexcept {
  thread_local SimulatedThread* thread = nullptr;
  return thread;
}

RankDied::~RankDied() = default;

Scheduler::Scheduler(const SimulationOptions& options)
    : ranks_(options.ranks),
      most_steps_(options.most_steps),
      keeps_story_(options.story),
      tells_changes_(options.replay && options.replay->size() <= few_changes),
      strategy_(make_strategy(options)) {}

// --- The thread that simulates

Scheduler::End Scheduler::run(std::function<void()> first) {
  const pthread_t root = start_first_thread(*this, std::move(first));
  hand_baton_to(*threads_.front());
  while (end_.load(std::memory_order_acquire) == static_cast<std::uint32_t>(End::running))
    await_word(end_, static_cast<std::uint32_t>(End::running));
  const End how{static_cast<std::uint8_t>(end_.load(std::memory_order_acquire))};
  if (how != End::stuck) real().join(root, nullptr);
  return how;
}

void Scheduler::end(End how) {
  end_.store(static_cast<std::uint32_t>(how), std::memory_order_release);
  tell_word(end_);
}

void Scheduler::stop_here(const std::string& problem) {
  // Where all have looked again and again since, that is when anything happened last.
  const TimePoint when = moves_without_news_ > 0 ? quiet_since_ : now_;
  problem_ = fmt::format("{} after {:.3f} ms and {} steps: {}", problem,
                         milliseconds(when - beginning), steps_, describe_threads());
  end_of_ranks_ = when;
  end(End::stuck);
  std::atomic<std::uint32_t> nothing{0};
  while (true) await_word(nothing, 0);
}

std::string Scheduler::describe_threads() const {
  std::string all;
  const auto add = [&](const SimulatedThread& thread, std::string_view what) {
    const std::string whose = thread.rank < 0 ? "" : fmt::format(" (rank {})", thread.rank);
    all += fmt::format("{}thread {}{} {}", all.empty() ? "" : "; ", thread.id, whose, what);
  };
  for (const auto& thread : threads_) {
    const bool is_dead = thread->rank >= 0 && this->is_dead(thread->rank);
    switch (thread->state) {
      case State::able:
        add(*thread, is_dead ? "has died" : "could go on");
        break;
      case State::looking:
        add(*thread, is_dead ? "has died" : "waits for other ranks");
        break;
      case State::asleep:
        add(*thread, is_dead ? "has died" : "sleeps");
        break;
      case State::blocked:
        add(*thread, is_dead ? "has died" : "waits for a lock, a condition or another thread");
        break;
      case State::ended:
        break;
    }
  }
  return all;
}

// --- Threads

SimulatedThread& Scheduler::add_thread(int rank) {
  auto thread = std::make_unique<SimulatedThread>();
  thread->scheduler = this;
  thread->id = static_cast<int>(threads_.size());
  thread->rank = rank;
  return *threads_.emplace_back(std::move(thread));
}

SimulatedThread* Scheduler::find_thread(pthread_t handle) {
  // The last of that number: the system gives those of threads that were joined out again.
  for (auto thread = threads_.rbegin(); thread != threads_.rend(); ++thread)
    if (pthread_equal((*thread)->handle, handle) != 0) return thread->get();
  return nullptr;
}

void Scheduler::enter(SimulatedThread& thread) {
  this_thread() = &thread;
  await_baton(thread);
}

void Scheduler::leave() {
  SimulatedThread& thread = *this_thread();
  if (const auto own = own_thread_.find(thread.rank);
      own != own_thread_.end() && own->second == &thread) {
    if (living_ranks_.contains(thread.rank)) {
      tell("returns");
      end_of_ranks_ = now_;
      living_ranks_.erase(thread.rank);
      if (are_ranks_done()) wake(&faults_begin_, true);  // there was none to have any
    }
  }
  thread.state = State::ended;
  count_point(thread, Point::waits);
  wake(&thread, true);
  this_thread() = nullptr;
  const bool was_last =
      std::ranges::all_of(threads_, [](const auto& other) { return other->state == State::ended; });
  if (was_last) return end(End::done);
  if (thread.id == 0) return end(End::left_over);
  hand_baton_to(*choose(thread, Point::waits));
}

void Scheduler::hand_baton_to(SimulatedThread& thread) {
  thread.baton.store(1, std::memory_order_release);
  tell_word(thread.baton);
}

void Scheduler::await_baton(SimulatedThread& thread) {
  while (thread.baton.exchange(0, std::memory_order_acquire) == 0) await_word(thread.baton, 0);
}

// --- Turns

void Scheduler::give_turn(Point point) {
  SimulatedThread& thread = *this_thread();
  pass_on(point);
  slow_step(thread);
}

void Scheduler::look_for_news(Duration at_most) {
  SimulatedThread& thread = *this_thread();
  thread.state = State::looking;
  thread.seen_news = news_;
  thread.wakes = now_ + at_most;
  thread.waits_for = at_most;
  pass_on(Point::waits);
  slow_step(thread);
}

void Scheduler::sleep_until(TimePoint when) {
  SimulatedThread& thread = *this_thread();
  thread.state = State::asleep;
  thread.wakes = when;
  thread.waits_for = when - now_;
  pass_on(Point::waits);
}

void Scheduler::await_faults() {
  while (faults_begin_ == never && !are_ranks_done()) block(&faults_begin_);
}

void Scheduler::sleep_until_fault(Duration at, std::uint64_t step) {
  this_thread()->goes_first = true;
  await_faults();
  if (step == 0) return sleep_until(faults_begin_ + at);
  SimulatedThread& thread = *this_thread();
  thread.state = State::asleep;
  thread.wakes_at_step = first_fault_step_ + step;
  pass_on(Point::waits);
}

void Scheduler::begin_faults() {
  faults_begin_ = now_;
  first_fault_step_ = steps_;
  wake(&faults_begin_, true);
}

void Scheduler::slow_step(SimulatedThread& thread) {
  const auto slowness = slowness_.find(thread.rank);
  if (slowness != slowness_.end()) sleep_until(now_ + slowness->second);
}

bool Scheduler::block(const void* on, TimePoint until) {
  SimulatedThread& thread = *this_thread();
  thread.state = State::blocked;
  thread.blocked_on = on;
  thread.was_woken = false;
  thread.wakes = until;
  thread.waits_for = until == never ? Duration::max() : until - now_;
  pass_on(Point::waits);
  thread.blocked_on = nullptr;
  return thread.was_woken;
}

int Scheduler::wake(const void* on, bool all) {
  int woken = 0;
  for (const auto& thread : threads_) {
    if (thread->state != State::blocked || thread->blocked_on != on || thread->was_woken) continue;
    thread->was_woken = true;
    ++news_;
    ++woken;
    if (!all) break;
  }
  return woken;
}

void Scheduler::note_locks(int more) {
  SimulatedThread& thread = *this_thread();
  thread.locks += more;
  // It was let go on for others to get the lock.
  if (more < 0 && is_frozen(thread)) give_turn(Point::lock);
}

void ThreadSchedule::shown() noexcept {
  if (SimulatedThread* const thread = this_thread()) thread->scheduler->note_shown();
}

bool ThreadSchedule::waits(long nanoseconds) {
  SimulatedThread* const thread = this_thread();
  if (thread != nullptr) thread->scheduler->wait_for_others(std::chrono::nanoseconds(nanoseconds));
  return thread != nullptr;
}

void ThreadSchedule::serves_all() noexcept {
  if (SimulatedThread* const thread = this_thread()) thread->scheduler->serve_all();
}

void Scheduler::note_shown() {
  ++news_;
  give_turn(Point::shown);
}

void Scheduler::serve_all() {
  this_thread()->rank = -1;
  this_thread()->looks_after_all = true;
}

void Scheduler::wait_for_others(Duration at_most) {
  SimulatedThread& thread = *this_thread();
  const auto is_to_end = [&] {
    return !thread.has_died && thread.rank >= 0 && is_dead(thread.rank) && are_ranks_done() &&
           std::uncaught_exceptions() == 0;
  };
  if (!is_to_end()) look_for_news(at_most);
  if (!is_to_end()) return;
  thread.has_died = true;
  throw RankDied();
}

void Scheduler::pass_on(Point point) {
  SimulatedThread& thread = *this_thread();
  count_point(thread, point);
  SimulatedThread& next = *choose(thread, point);
  if (&next != &thread) {
    hand_baton_to(next);
    await_baton(thread);
  }
  thread.state = State::able;
  thread.wakes = never;
  thread.wakes_at_step = 0;
}

// How often it waits depends on others; what it does between does so less.
void Scheduler::count_point(SimulatedThread& thread, Point point) {
  if (point == Point::waits) {
    ++thread.waits;
  } else {
    ++thread.points;
    thread.waits = 0;
  }
}

bool Scheduler::is_frozen(const SimulatedThread& thread) const {
  if (thread.rank < 0 || thread.locks > 0) return false;
  if (is_dead(thread.rank)) return !are_ranks_done();
  return is_stalled(thread.rank);
}

// For ever is until all others have returned.
bool Scheduler::is_stalled(int rank) const {
  const auto end_of = [this](int one) {
    const auto stalled = stalled_until_.find(one);
    return stalled == stalled_until_.end() ? now_ : stalled->second;
  };
  if (end_of(rank) != never) return now_ < end_of(rank);
  return !std::ranges::all_of(living_ranks_, [&](int one) { return end_of(one) == never; });
}

bool Scheduler::is_able(const SimulatedThread& thread) const {
  const auto could = [&] {
    switch (thread.state) {
      case State::able:
        return true;
      case State::looking:
        return thread.seen_news != news_ || thread.wakes <= now_;
      case State::asleep:
        if (thread.wakes_at_step == 0) return thread.wakes <= now_;
        return thread.wakes_at_step <= steps_ || are_ranks_done();
      case State::blocked:
        return thread.was_woken || thread.wakes <= now_;
      case State::ended:
        return false;
    }
    return false;
  };
  return could() && !is_frozen(thread);
}

void Scheduler::find_able() {
  able_.clear();
  for (const auto& thread : threads_) {
    if (!is_able(*thread)) continue;
    if (thread->goes_first) {
      able_ = {thread->id};
      return;
    }
    able_.push_back(thread->id);
  }
}

int Scheduler::choose_of_several(const SimulatedThread& current, Point point) {
  const Turn turn{point, current.id, current.points, current.waits, able_};
  const int usual = usual_next(turn);
  const auto change_to = [&](int next) {
    return ScheduleChange{current.id, current.points, current.waits, next};
  };
  if (possible_ != nullptr)
    for (const int thread : able_)
      if (thread != usual) possible_->push_back(change_to(thread));
  // A loop that only asks, and waits for nothing, must not keep all others from their turns.
  const bool is_enough = ++turns_in_a_row_ > most_in_a_row;
  const int next = is_enough ? next_after(turn) : strategy_->next(turn);
  if (next != current.id) turns_in_a_row_ = 0;
  if (next == usual || is_enough) return next;
  changes_.push_back(change_to(next));
  if (keeps_story_ && tells_changes_) tell_change(usual, next);
  return next;
}

SimulatedThread* Scheduler::choose(SimulatedThread& current, Point point) {
  if (++steps_ > most_steps_) stop_here("the simulation gets nowhere");
  now_ += step_takes;
  note_expected();
  for (find_able(); able_.empty(); find_able())
    if (!move_time()) stop_here("nobody can go on");
  const int next = able_.size() == 1 ? able_.front() : choose_of_several(current, point);
  return threads_[static_cast<std::size_t>(next)].get();
}

// --- Time

// Where nobody has shown anything for long, those in hymn who only look again and again, each for a
// short time, would keep a limit of minutes from coming for millions of steps: they miss some
// looks. Whoever sleeps, or waits for a condition, is woken when it should be.
Duration Scheduler::leap() {
  constexpr int patience = 64;
  if (news_ != news_when_moved_) {
    news_when_moved_ = news_;
    moves_without_news_ = 0;
    quiet_since_ = now_;
  }
  return ++moves_without_news_ < patience ? Duration(0) : (now_ - quiet_since_) / 16;
}

bool Scheduler::move_time() {
  const Duration leap = this->leap();
  TimePoint first = never;
  TimePoint firm = never;
  std::uint64_t first_step = 0;
  const auto add = [&](TimePoint when, bool is_firm) {
    first = std::min(first, when);
    if (is_firm) firm = std::min(firm, when);
  };
  for (const auto& thread : threads_) {
    if (thread->state == State::ended || thread->state == State::able) continue;
    if (is_frozen(*thread)) continue;
    if (const std::uint64_t step = thread->wakes_at_step; step != 0)
      first_step = first_step == 0 ? step : std::min(first_step, step);
    const bool may_miss =
        thread->state == State::looking || (thread->looks_after_all && thread->waits_for < leap);
    if (thread->wakes != never) add(thread->wakes, !may_miss);
  }
  for (const auto& [rank, until] : stalled_until_)
    if (until > now_ && until != never) add(until, true);
  if (!expected_.empty()) add(*expected_.begin(), true);
  if (first == never) {
    // What is to happen at some step happens now: there would be no more of them.
    steps_ = std::max(steps_, first_step);
    return first_step != 0;
  }
  if (now_ - beginning > longest_time) return false;
  now_ = std::max({now_, first, std::min(now_ + leap, firm)});
  note_expected();
  return true;
}

void Scheduler::note_expected() {
  while (!expected_.empty() && *expected_.begin() <= now_) {
    expected_.erase(expected_.begin());
    ++news_;
  }
}

// --- Ranks

void Scheduler::begin_rank(int rank) {
  SimulatedThread& thread = *this_thread();
  thread.rank = rank;
  own_thread_[rank] = &thread;
  if (!is_dead(rank)) living_ranks_.insert(rank);
  ++begun_ranks_;
}

bool Scheduler::kill(int rank) {
  const bool has_begun = own_thread_.contains(rank);
  if (is_dead(rank) || (has_begun && living_ranks_.erase(rank) == 0)) return false;
  dead_.insert(rank);
  return true;
}

void Scheduler::stall(int rank, TimePoint until) {
  TimePoint& stalled = stalled_until_[rank];
  stalled = std::max(stalled, until);
}

// --- What is told of it

std::string Scheduler::name_of(int thread) const {
  const int rank = threads_[static_cast<std::size_t>(thread)]->rank;
  const auto own = own_thread_.find(rank);
  if (own != own_thread_.end() && own->second->id == thread) return fmt::format("rank {}", rank);
  return rank < 0 ? fmt::format("thread {}", thread)
                  : fmt::format("thread {} of rank {}", thread, rank);
}

void Scheduler::tell_change(int usual, int next) {
  lines_.push_back(fmt::format("{:12.4f} ms  {} goes on, before {}", milliseconds(now_ - beginning),
                               name_of(next), name_of(usual)));
}

void Scheduler::tell(std::string line) {
  // A rank that has died runs on for a moment when all is over.
  if (!keeps_story_ || are_ranks_done()) return;
  const SimulatedThread* const thread = this_thread();
  const std::string who =
      thread == nullptr || thread->rank < 0 ? "" : fmt::format("rank {} ", thread->rank);
  lines_.push_back(fmt::format("{:12.4f} ms  {}{}", milliseconds(now_ - beginning), who, line));
}

}  // namespace hymn::sim
