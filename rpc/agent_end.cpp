// How an agent ends, and what becomes of calls when workers do.
#include <fmt/format.h>

#include <utility>

#include "hymn/error.hpp"
#include "rpc/agent_state.hpp"

namespace hymn::rpc::detail {
namespace {

constexpr Duration farewell_limit = std::chrono::milliseconds(500);

std::string remedy_for(Departure::Kind kind) {
  switch (kind) {
    case Departure::Kind::left:
      return "let all workers call shutdown(), which waits for calls that are in flight";
    case Departure::Kind::aborted:
      return "look for the reason at that worker";
    case Departure::Kind::none:
    case Departure::Kind::lost:
      break;
  }
  return "look for the end of that process, and call other workers or start the job again";
}

}  // namespace

Departure AgentState::departure_of(int rank) const {
  const std::lock_guard lock(mutex_);
  return departures_[static_cast<std::size_t>(rank)];
}

std::exception_ptr AgentState::gone_error(int rank, const std::string& what) const {
  const Departure gone = departure_of(rank);
  const std::string& name = workers_[static_cast<std::size_t>(rank)].name;
  const ErrorContext context{.rank = rank_,
                             .operation = fmt::format("{} at {}", what, name),
                             .remedy = remedy_for(gone.kind),
                             .missing = {rank}};
  switch (gone.kind) {
    case Departure::Kind::left:
      return std::make_exception_ptr(
          PeerError(fmt::format("{} (rank {}) has shut down", name, rank), context));
    case Departure::Kind::aborted:
      return std::make_exception_ptr(AbortedError(
          fmt::format("{} (rank {}) has aborted its agent: {}", name, rank, gone.why), context));
    case Departure::Kind::none:
    case Departure::Kind::lost:
      break;
  }
  return std::make_exception_ptr(
      PeerError(fmt::format("{} (rank {}) is lost: {}", name, rank, gone.why), context));
}

void AgentState::lose(int rank, Departure departure) {
  {
    const std::lock_guard lock(mutex_);
    Departure& known = departures_[static_cast<std::size_t>(rank)];
    if (known.kind != Departure::Kind::none) return;
    known = std::move(departure);
  }
  shutdown_.lose(rank);
  refs_.lose(rank);
  contexts_.lose(rank);
  for (const Call& call : calls_.take_all_of(rank))
    report_failure(call, gone_error(rank, call.what));
  shutdown_.look();
}

/// What is chained to a call may wait for others that fail with it: each failure is told by itself.
void AgentState::report_failure(const Call& call, std::exception_ptr error) {
  engine_.report([this, pending = call.pending, error = std::move(error)] {
    pending->failed(error);
    shutdown_.look();
  });
}

/// A call that was begun while the agent ended: nobody else ends it.
bool AgentState::end_if_late(std::uint64_t number) {
  if (!has_ended()) return false;
  if (const auto late = calls_.take(number)) late->pending->failed(ended_error(*late));
  return true;
}

void AgentState::shutdown(Timeout timeout) {
  if (is_own_thread())
    throw UsageError("a call cannot shut down the agent that carries it out",
                     {.rank = rank_, .operation = "shutdown"});
  if (has_ended()) return;
  shutdown_.run(Deadline::after(timeout.or_else(Timeout::none())));
  end("it has been shut down", MessageKind::goodbye);
}

void AgentState::join() {
  if (is_own_thread()) return;
  engine_.join();
}

void AgentState::abort(const std::string& reason) { end(reason, MessageKind::abort); }

void AgentState::end(const std::string& reason, MessageKind farewell) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_.exchange(true)) return;
    end_reason_ = reason;
  }
  const TimePoint limit = std::chrono::steady_clock::now() + farewell_limit;
  say_farewell(reason, farewell);
  refs_.end(ended_error({.rank = rank_, .what = "the value of a reference"}));
  for (const Call& call : calls_.take_all()) report_failure(call, ended_error(call));
  engine_.report_all();
  shutdown_.stop();
  for (const WorkerInfo& each : workers_)
    if (Link* const link = engine_.link(each.rank)) link->drain(limit);
  engine_.stop();
  engine_.report_all();
  join();
  for (const WorkerInfo& each : workers_)
    if (Link* const link = engine_.link(each.rank)) link->close();
  refs_.clear();
  contexts_.clear();
}

void AgentState::say_farewell(const std::string& reason, MessageKind farewell) {
  for (const WorkerInfo& each : workers_) {
    if (each.rank == rank_ || departure_of(each.rank).kind != Departure::Kind::none) continue;
    Message message;
    message.head.kind = farewell;
    if (farewell == MessageKind::abort) message.name = reason.substr(0, 1024);
    post(each.rank, std::move(message));
  }
}

std::exception_ptr AgentState::ended_error(const Call& call) const {
  const std::lock_guard lock(mutex_);
  return std::make_exception_ptr(AbortedError(
      fmt::format("the agent has ended: {}", end_reason_),
      {.rank = rank_, .operation = fmt::format("{} at {}", call.what, worker(call.rank).name)}));
}

}  // namespace hymn::rpc::detail
