// Which of the threads reads the links, which run handlers, and which wait.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/helper_thread.hpp"
#include "hymn/error.hpp"
#include "rpc/calls.hpp"
#include "rpc/contexts.hpp"
#include "rpc/engine.hpp"
#include "rpc/engine_role.hpp"

namespace hymn::rpc::detail {
namespace {

constexpr std::size_t most_threads = 2048;
/// How often who stands by looks whether it is to lead: from the first to the second, the longer
/// nothing happens.
constexpr Duration shortest_look = std::chrono::microseconds(500);
constexpr Duration longest_look = std::chrono::milliseconds(100);
constexpr Duration drowsy_look = std::chrono::milliseconds(2);
/// To wake a thread for a job that takes less costs more than the job.
constexpr Duration quick_job = std::chrono::microseconds(20);

/// Who leads reads so often between jobs, too.
constexpr Duration longest_unread = std::chrono::microseconds(500);

std::atomic<std::uint64_t> last_term{0};

}  // namespace

Engine* Engine::of_this_thread() noexcept {
  return role.engine != nullptr && role.engine->process_.is_this() ? role.engine : nullptr;
}

void Engine::submit(Job job) {
  Lock lock(mutex_);
  if (stopping_) return;
  jobs_.push_back(std::move(job));
  // The leader runs what it has passed on itself.
  if ((!leads() || leading.awaits) && running_ < limit_) (void)call_helper(lock);
}

/// There is work for one more thread. False: none can be had.
bool Engine::call_helper(Lock& /*held*/) {
  if (stopping_) return true;
  if (idle_ > 0) {
    changed_.notify_one();
    return true;
  }
  if (threads_.size() < most_threads) {
    try {
      threads_.push_back(start_helper_thread(
          "hymn rpc", [this] { serve(); },
          [this](std::string_view why) { events_.failed(std::string(why)); }));
      return true;
    } catch (const ResourceError&) {
    }
  }
  if (stands_by_) look_.notify_one();
  return stands_by_;
}

/// Somebody leads soon. False: nobody can be had.
bool Engine::call_leader(Lock& lock) {
  is_urgent_ = true;
  if (!stands_by_) return call_helper(lock);
  look_.notify_one();
  return true;
}

/// Somebody looks soon whether it is to lead.
bool Engine::keep_standby(Lock& lock) {
  if (!stands_by_) return call_helper(lock);
  if (is_drowsy_) look_.notify_one();
  return true;
}

bool Engine::leads() const {
  return lead_ != Lead::nobody && leading.engine == this && leading.term == term_;
}

void Engine::take_lead() {
  lead_ = Lead::polls;
  term_ = ++last_term;
  ++turns_;
  is_urgent_ = false;
  leading = {.engine = this, .term = term_};
}

void Engine::leave_lead(Lock& lock) {
  lead_ = Lead::nobody;
  leading = {};
  ++turns_;
  if (waiting_ > 0 || has_news())
    (void)call_leader(lock);
  else
    (void)keep_standby(lock);
}

void Engine::serve() {
  role = {.engine = this};
  Lock lock(mutex_);
  while (!stopping_) {
    if (has_job()) {
      (void)run_job(lock);
    } else if (!stands_by_) {
      stand_by(lock);
    } else {
      ++idle_;
      changed_.wait(lock);
      --idle_;
    }
  }
  role = {};
}

/// When it has ended.
TimePoint Engine::run_job(Lock& lock) {
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  ++running_;
  role.runs = true;
  // Where one was quick the others probably are, too; if not, who stands by takes the next.
  if (has_job() && !(leads() && are_quick_)) (void)call_helper(lock);
  if (!stands_by_ && !leads()) (void)keep_standby(lock);
  lock.unlock();
  const TimePoint began = std::chrono::steady_clock::now();
  job();
  job = nullptr;
  const TimePoint ended = std::chrono::steady_clock::now();
  lock.lock();
  are_quick_ = ended - began < quick_job;
  role.runs = false;
  --running_;
  return ended;
}

/// `turns_before`: when it looked last.
bool Engine::should_lead(std::uint64_t turns_before) const {
  if (lead_ == Lead::polls) return false;
  if (is_urgent_ && lead_ == Lead::nobody) return true;
  return turns_ == turns_before;
}

void Engine::stand_by(Lock& lock) {
  stands_by_ = true;
  Duration interval = shortest_look;
  std::uint64_t turns = turns_ - 1;
  while (!stopping_ && !has_job() && !should_lead(turns)) {
    interval = turns == turns_ ? std::min(2 * interval, longest_look) : shortest_look;
    is_drowsy_ = interval >= drowsy_look;
    turns = turns_;
    look_.wait_for(lock, interval);
  }
  stands_by_ = is_drowsy_ = false;
  if (!stopping_ && !has_job()) lead(lock);
}

void Engine::lead(Lock& lock) {
  take_lead();
  while (!stopping_ && leads()) {
    pass_on(lock);
    if (!leads()) break;
    if (has_job()) {
      work_as_leader(lock);
    } else if (is_wanted_ && waiting_ <= 1) {
      // Who waits one call after the other leads itself from the next on.
      is_wanted_ = false;
      lead_ = Lead::nobody;
      ++turns_;
    } else {
      take_in(lock, TimePoint::max(), nullptr);
    }
  }
  if (leads()) lead_ = Lead::nobody;
  leading = {};
}

void Engine::work_as_leader(Lock& lock) {
  lead_ = Lead::works;
  ++turns_;
  if (!stands_by_ || is_drowsy_) (void)keep_standby(lock);
  const TimePoint ended = run_job(lock);
  if (!leads()) return;
  lead_ = Lead::polls;
  // Else answers, limits and the ends of others would wait for all jobs that do.
  if (has_job() && ended - sockets_seen_ >= longest_unread) take_in(lock, TimePoint{}, nullptr);
}

/// Waits for what comes next, or what is to be done by then, or until `awaited` has ended.
void Engine::take_in(Lock& lock, TimePoint until, const CallWait* awaited) {
  lock.unlock();
  std::vector<Arrival> arrivals;
  std::string failed;
  try {
    arrivals = look_around(until, awaited);
  } catch (const std::exception& error) {
    failed = error.what();
  }
  if (!failed.empty()) events_.failed(failed);
  lock.lock();
  std::move(arrivals.begin(), arrivals.end(), std::back_inserter(inbox_));
}

std::vector<Engine::Arrival> Engine::look_around(TimePoint until, const CallWait* awaited) {
  const TimePoint now = std::chrono::steady_clock::now();
  wakes_at_ = (now + longest_sleep).time_since_epoch().count();
  const TimePoint next = events_.overdue(now);
  {
    // A continuation may have waited: somebody else may read then.
    const std::lock_guard lock(mutex_);
    if (!leads() || stopping_ || has_news()) return {};
  }
  if (awaited != nullptr && awaited->is_done()) return {};
  return poll(std::min(next, until));
}

/// What an event does must not end the thread that reads: it costs the link to that rank.
void Engine::tell(const Job& event, int rank) {
  // Who waits leads in the context of its own calls; what comes belongs to other ones.
  const ContextScope none(nullptr);
  std::string why;
  try {
    event();
    return;
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
    why = "something that is no std::exception was thrown";
  }
  if (rank < 0) return events_.failed(why);
  std::vector<Arrival> losses;
  lose(rank, fmt::format("what it sends cannot be taken: {}", why), losses);
  const std::lock_guard lock(mutex_);
  std::move(losses.begin(), losses.end(), std::back_inserter(inbox_));
}

/// All that has come, in order, as long as this thread leads.
void Engine::pass_on(Lock& lock) {
  while (leads() && has_news() && !stopping_) {
    if (!news_.empty()) {
      do_news(lock);
      continue;
    }
    Arrival arrival = std::move(inbox_.front());
    inbox_.pop_front();
    lock.unlock();
    if (arrival.is_loss)
      tell([&] { events_.lost(arrival.rank, arrival.why); }, -1);
    else
      tell([&] { events_.message(arrival.rank, std::move(arrival.message)); }, arrival.rank);
    lock.lock();
  }
}

void Engine::do_news(Lock& lock) {
  Job news = std::move(news_.front());
  news_.pop_front();
  lock.unlock();
  tell(news, -1);
  news = nullptr;
  lock.lock();
}

void Engine::report(Job news) {
  Lock lock(mutex_);
  const bool is_late = stopping_;  // no thread takes it up any more
  if (!is_late) news_.push_back(std::move(news));
  lock.unlock();
  if (is_late)
    tell(news, -1);
  else
    wake_other_leader();
}

void Engine::report_all() {
  Lock lock(mutex_);
  while (!news_.empty()) do_news(lock);
}

void Engine::await(CallWait& call, Deadline deadline) {
  hand_over_other(this);
  const bool runs = role.engine == this && role.runs;
  Lock lock(mutex_);
  if (runs) --running_;
  if (has_job() && !call_helper(lock)) {
    if (runs) ++running_;
    refuse_wait();
  }
  const bool may_lead = waits_here < most_waits_here || !give_up_lead(lock);
  while (!call.is_done() && !stopping_ && !deadline.expired(std::chrono::steady_clock::now())) {
    if (may_lead && (leads() || lead_ == Lead::nobody))
      await_leading(lock, call, deadline);
    else
      follow(lock, call, deadline, may_lead);
  }
  if (runs) ++running_;
  lock.unlock();
  if (!call.is_done()) call.block(deadline);
}

void Engine::follow(Lock& lock, CallWait& call, Deadline deadline, bool may_lead) {
  if (may_lead) is_wanted_ = true;
  ++waiting_;
  lock.unlock();
  call.block(deadline);
  lock.lock();
  --waiting_;
}

/// Somebody else leads soon. False: nobody can be had.
bool Engine::give_up_lead(Lock& lock) {
  if (leads()) {
    lead_ = Lead::nobody;
    leading = {};
    ++turns_;
  }
  return lead_ != Lead::nobody || call_leader(lock);
}

void Engine::await_leading(Lock& lock, CallWait& call, Deadline deadline) {
  const bool works = leads() && role.engine == this && role.runs;
  if (leads())
    lead_ = Lead::polls;
  else
    take_lead();
  const bool awaited = std::exchange(leading.awaits, true);
  call.set_polled(true);
  ++waits_here;
  while (leads() && !stopping_ && !call.is_done() &&
         !deadline.expired(std::chrono::steady_clock::now())) {
    pass_on(lock);
    if (leads() && !call.is_done()) take_in(lock, deadline.when(), &call);
  }
  --waits_here;
  call.set_polled(false);
  leading.awaits = awaited;
  if (awaited && leads()) return;  // to a wait around this one
  if (!leads()) {
    leading = {};
  } else if (works && !has_news()) {
    lead_ = Lead::works;
    (void)keep_standby(lock);
  } else {
    leave_lead(lock);
  }
}

void Engine::wake_other_leader() {
  if (leading.engine != this) wake_poll();
}

void Engine::hand_over() {
  Lock lock(mutex_);
  if (leads()) {
    lead_ = Lead::nobody;
    (void)call_leader(lock);
  }
  leading = {};
}

void Engine::hand_over_other(const Engine* but) {
  if (leading.engine == nullptr || leading.engine == but) return;
  if (leading.engine->process_.is_this()) leading.engine->hand_over();
}

void Engine::begin_wait() {
  Lock lock(mutex_);
  if (role.runs) --running_;
  const bool can_run = !has_job() || call_helper(lock);
  const bool can_lead = lead_ != Lead::nobody || call_leader(lock);
  if ((can_run && can_lead) || stopping_) return;
  if (role.runs) ++running_;
  refuse_wait();
}

void Engine::refuse_wait() const {
  throw ResourceError(fmt::format("{} threads of an agent wait for calls, and there is no other to "
                                  "read their answers",
                                  threads_.size()),
                      {.remedy = "nest calls less deeply, or return futures from handlers"});
}

void Engine::end_wait() {
  const std::lock_guard lock(mutex_);
  if (role.runs) ++running_;
}

}  // namespace hymn::rpc::detail
