#include "rpc/calls.hpp"

#include <fmt/format.h>

#include "hymn/error.hpp"
#include "rpc/agent_state.hpp"

namespace hymn::rpc::detail {

Pending::Pending() : wait_(std::make_shared<CallWait>()) {}
Pending::~Pending() = default;

void Pending::answered(Packed& result) {
  try {
    take(result);
  } catch (...) {
    take_error(std::current_exception());
  }
  wait_->done();
}

void Pending::failed(std::exception_ptr error) {
  take_error(std::move(error));
  wait_->done();
}

hymn::detail::Drive Pending::drive() const {
  return [wait = wait_](Timeout timeout) { wait->until(timeout); };
}

void CallWait::set_target(std::string what, std::string worker, int rank,
                          std::weak_ptr<AgentState> agent) {
  what_ = std::move(what);
  worker_ = std::move(worker);
  rank_ = rank;
  agent_ = std::move(agent);
}

void CallWait::done() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  // Who waits for it may read the links meanwhile, where another thread has ended the call.
  if (!is_polled_) return;
  if (const AgentPtr agent = agent_.lock()) agent->engine().wake_other_leader();
}

void CallWait::block(Deadline deadline) {
  std::unique_lock lock(mutex_);
  const auto done = [this] { return is_done(); };
  if (deadline.is_never())
    changed_.wait(lock, done);
  else
    changed_.wait_until(lock, deadline.when(), done);
}

void CallWait::until(Timeout timeout) {
  if (is_done()) return;
  const Deadline deadline = Deadline::after(timeout);
  const AgentPtr agent = agent_.lock();
  if (agent) agent->require_own_process();
  Engine* const own = Engine::of_this_thread();
  if (agent && (own == nullptr || own == &agent->engine())) {
    agent->engine().await(*this, deadline);
  } else {
    const WaitScope scope;
    block(deadline);
  }
  if (is_done()) return;
  const std::string target = fmt::format("{} at {}", what_, worker_);
  throw TimeoutError(fmt::format("{} has not answered after {:.3f} s", target,
                                 std::chrono::duration<double>(timeout.duration()).count()),
                     timeout.duration(),
                     {.operation = target,
                      .remedy = "wait longer, or look for what holds that worker up",
                      .missing = {rank_}});
}

std::uint64_t CallTable::add(Call call) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = ++last_;
  if (call.limit != TimePoint::max()) limits_.emplace(call.limit, number);
  calls_.emplace(number, std::move(call));
  return number;
}

Call CallTable::extract(Calls::iterator place) {
  Call call = std::move(place->second);
  limits_.erase({call.limit, place->first});
  calls_.erase(place);
  return call;
}

std::optional<Call> CallTable::take(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(number);
  if (found == calls_.end()) return std::nullopt;
  return extract(found);
}

std::optional<Call> CallTable::take(std::uint64_t number, int rank) {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(number);
  if (found == calls_.end() || found->second.rank != rank) return std::nullopt;
  return extract(found);
}

std::vector<Call> CallTable::take_all_of(int rank) {
  const std::lock_guard lock(mutex_);
  std::vector<Call> taken;
  for (auto call = calls_.begin(); call != calls_.end();) {
    const auto place = call++;
    if (place->second.rank == rank) taken.push_back(extract(place));
  }
  return taken;
}

std::vector<Call> CallTable::take_all() {
  const std::lock_guard lock(mutex_);
  std::vector<Call> taken;
  while (!calls_.empty()) taken.push_back(extract(calls_.begin()));
  return taken;
}

std::vector<Call> CallTable::take_overdue(TimePoint now) {
  const std::lock_guard lock(mutex_);
  std::vector<Call> taken;
  while (!limits_.empty() && limits_.begin()->first <= now)
    taken.push_back(extract(calls_.find(limits_.begin()->second)));
  return taken;
}

TimePoint CallTable::next_limit() const {
  const std::lock_guard lock(mutex_);
  return limits_.empty() ? TimePoint::max() : limits_.begin()->first;
}

std::size_t CallTable::size() const {
  const std::lock_guard lock(mutex_);
  return calls_.size();
}

}  // namespace hymn::rpc::detail
