#include "rpc/agent_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "hymn/error.hpp"
#include "rpc/errors.hpp"
#include "rpc/served_call.hpp"

namespace hymn::rpc::detail {
namespace {

thread_local AgentPtr served_agent;
thread_local std::weak_ptr<AgentState> made_agent;

std::int64_t left_ns(TimePoint now, TimePoint limit) {
  if (limit == TimePoint::max()) return -1;
  return std::max<std::int64_t>(Duration(limit - now).count(), 0);
}

bool is_about_value_kind(MessageKind kind) {
  return kind == MessageKind::fetch || kind == MessageKind::made ||
         (kind >= MessageKind::fork_added && kind <= MessageKind::creation_tell);
}

/// About what a call that waits takes beside its payload.
constexpr std::size_t bytes_beside_payload = 1024;

bool is_answered_kind(MessageKind kind) {
  return kind == MessageKind::request || kind == MessageKind::fetch || kind == MessageKind::made;
}

}  // namespace

AgentScope::AgentScope(AgentPtr agent) : before_(std::exchange(served_agent, std::move(agent))) {}
AgentScope::~AgentScope() { served_agent = std::move(before_); }
AgentPtr AgentScope::current() { return served_agent ? served_agent : made_agent.lock(); }
void AgentScope::set_made(const AgentPtr& agent) { made_agent = agent; }

AgentState::AgentState(Acquaintance known, const AgentOptions& options)
    : rank_(known.rank),
      workers_(std::move(known.workers)),
      options_(options),
      most_bytes_(std::move(known.most_bytes)),
      refs_(rank_, [this](int rank, Message message) { post(rank, std::move(message)); }),
      contexts_(rank_, static_cast<int>(workers_.size()),
                [this](int rank, Message message) { post(rank, std::move(message)); }),
      shutdown_(
          rank_, static_cast<int>(workers_.size()),
          [this](int rank, Message message) { return post(rank, std::move(message)); },
          [this] { return calls_.size() == 0; }),
      departures_(workers_.size()),
      engine_(options.threads,
              {.message = [this](int rank, Message message) { take(rank, std::move(message)); },
               .lost = [this](int rank,
                              const std::string& why) { lose(rank, {Departure::Kind::lost, why}); },
               .overdue = [this](TimePoint now) { return end_overdue(now); },
               .failed =
                   [this](const std::string& why) {
                     abort("a thread of the agent cannot go on: " + why);
                   }}) {}

AgentState::~AgentState() {
  engine_.stop();
  engine_.join();
}

void AgentState::start(Links links) {
  why_no_streams_ = std::move(links.why_no_streams);
  if (links.streams) engine_.use_streams(std::move(links.streams));
  for (std::size_t rank = 0; rank < links.sockets.size(); ++rank)
    if (links.sockets[rank])
      engine_.add_link(
          static_cast<int>(rank), std::move(links.sockets[rank]), links.pids[rank],
          {.most_bytes = options_.max_message_bytes, .most_queued = options_.max_queued_bytes},
          links.streamers[rank]);
  engine_.start();
}

std::string AgentState::explain(int rank) {
  if (rank == rank_) return "nothing: it is this worker";
  if (engine_.link(rank)->has_stream()) return "shared memory";
  if (!engine_.is_on_this_host(rank)) return "a TCP connection: it is on another host";
  return fmt::format("a socket, not shared memory: {}", why_no_streams_);
}

const WorkerInfo& AgentState::worker(const Worker& who) const {
  const auto is_meant = [&](const WorkerInfo& each) {
    if (const int* rank = std::get_if<int>(&who.who())) return each.rank == *rank;
    return each.name == std::get<std::string>(who.who());
  };
  const auto found = std::find_if(workers_.begin(), workers_.end(), is_meant);
  if (found != workers_.end()) return *found;
  const std::string wanted = std::holds_alternative<int>(who.who())
                                 ? fmt::format("rank {}", std::get<int>(who.who()))
                                 : "\"" + std::get<std::string>(who.who()) + "\"";
  throw UsageError(fmt::format("there is no worker {} among {}", wanted, workers_.size()),
                   {.rank = rank_, .operation = "rpc"});
}

AgentUse AgentState::use() const {
  return {.calls = calls_.size(),
          .served = shutdown_.serving(),
          .owned_values = refs_.owned(),
          .held_refs = refs_.held(),
          .threads = engine_.threads()};
}

void AgentState::require_own_process() const {
  if (!is_of_parent()) return;
  throw UsageError(
      fmt::format("this process is a child made by fork(): the agent {} belongs to its parent",
                  workers_[static_cast<std::size_t>(rank_)].name),
      {.rank = rank_,
       .operation = "rpc",
       .remedy = "call in the parent, or make an agent of its own in the child"});
}

void AgentState::require_open() const {
  require_own_process();
  if (!has_ended()) return;
  const std::lock_guard lock(mutex_);
  throw AbortedError(fmt::format("the agent of {} has ended: {}",
                                 workers_[static_cast<std::size_t>(rank_)].name, end_reason_),
                     {.rank = rank_, .operation = "rpc"});
}

std::size_t AgentState::most_bytes(int rank) const {
  return std::min(options_.max_message_bytes, most_bytes_[static_cast<std::size_t>(rank)]);
}

void AgentState::require_room(int rank, const Message& message) {
  require_sendable(message, most_bytes(rank));
  require_reading(rank);
}

void AgentState::require_reading(int rank) {
  Link* const link = engine_.link(rank);
  if (link != nullptr && link->queued_bytes() > options_.max_queued_bytes)
    throw ResourceError(fmt::format("{} bytes wait to be sent to {}, which does not read them",
                                    link->queued_bytes(), worker(rank).name),
                        {.rank = rank_,
                         .remedy = "wait for calls before making more, or raise "
                                   "AgentOptions::max_queued_bytes",
                         .missing = {rank}});
}

/// What is sent in a context makes that known to the other end.
void AgentState::note_context(Message& message) {
  Packed& packed = message.packed;
  const bool is_call = is_answered_kind(message.head.kind) || !packed.values.empty();
  if (!is_call) return;
  const ContextPtr context = ContextScope::current();
  if (!context || context->is_released()) return;
  message.head.context = context->id();
  if (packed.values.empty() || packed.context != context->id()) return;
  packed.message = message.head.record = contexts_.new_number();
  context->add_send(packed.message, std::exchange(packed.values, {}));
}

bool AgentState::post(int rank, Message message) {
  if (is_of_parent()) return false;
  note_context(message);
  if (rank == rank_) {
    if (has_ended()) return false;
    take(rank, std::move(message));
    return true;
  }
  Link* const link = engine_.link(rank);
  if (link == nullptr) return false;
  // Values that go to this worker itself take their references as they are.
  // Here they live until the link is done with the message: their end sends messages itself.
  const auto lent = std::exchange(message.packed.refs, {});
  if (!lent.empty()) message.refs = refs_.lend(lent, rank);
  return link->send(std::move(message));
}

void AgentState::call(int rank, std::string what, Message message, const PendingPtr& pending,
                      Timeout timeout) {
  require_open();
  require_room(rank, message);
  begin(rank, std::move(what), std::move(message), pending, timeout);
}

void AgentState::begin(int rank, std::string what, Message message, const PendingPtr& pending,
                       Timeout timeout) {
  const TimePoint now = std::chrono::steady_clock::now();
  const Deadline deadline = Deadline::after(timeout.or_else(options_.timeout), now);
  const TimePoint limit = deadline.when();
  pending->wait()->set_target(what, workers_[static_cast<std::size_t>(rank)].name, rank,
                              weak_from_this());
  const std::uint64_t number =
      calls_.add({.pending = pending, .rank = rank, .what = what, .started = now, .limit = limit});
  if (end_if_late(number)) return;
  engine_.note_deadline(limit);
  message.head.call = number;
  message.head.limit_ns = left_ns(now, limit);
  const bool is_there = departure_of(rank).kind == Departure::Kind::none;
  // Counted before it can be served, and only where it can.
  if (is_there) shutdown_.note_made(rank);
  if (is_there && post(rank, std::move(message))) return;
  // A link that has just ended is told of in a moment, with the reason, to all calls over it.
  if (is_there && !has_ended() && departure_of(rank).kind == Departure::Kind::none) return;
  // Its loss may have ended the call already; else nobody else will.
  const auto lost = calls_.take(number);
  if (lost) lost->pending->failed(has_ended() ? ended_error(*lost) : gone_error(rank, what));
}

RefPtr AgentState::call_and_keep(int rank, const Target& target, Packed arguments,
                                 Timeout timeout) {
  Message message;
  message.head.kind = MessageKind::request;
  message.head.flags = keeps_value;
  message.head.type = target.signature.number();
  const RefId id = refs_.new_id();
  message.head.ref = id.number;
  message.head.creator = id.rank;
  message.name = target.name;
  message.packed = std::move(arguments);
  require_open();
  require_room(rank, message);
  const std::uint64_t type = type_number(*target.signature.types.front());
  const std::weak_ptr<AgentState> self = weak_from_this();
  RefPtr ref =
      rank == rank_ ? refs_.make_own(self, id, type) : refs_.user(self, rank, id, id, type);
  // What goes wrong is told by the reference.
  begin(rank, std::string(target.name), std::move(message),
        std::make_shared<PendingValue<Nothing>>(), timeout);
  return ref;
}

RefPtr AgentState::keep(StoredValue value) {
  require_open();
  RefPtr ref = refs_.make_own(weak_from_this(), refs_.new_id(), type_number(*value.type));
  ref->value->value = std::move(value);
  ref->value->made.set_value({});
  return ref;
}

void AgentState::require_known_ranks(const Message& message) const {
  const auto is_rank = [&](int rank) {
    return rank >= 0 && rank < static_cast<int>(workers_.size());
  };
  const bool is_about_value = is_about_value_kind(message.head.kind);
  const bool are_known =
      (!is_about_value || is_rank(message.head.creator)) &&
      std::all_of(message.refs.begin(), message.refs.end(), [&](const RefWire& wire) {
        return is_rank(wire.owner) && is_rank(wire.creator);
      });
  if (!are_known || !contexts_.is_possible(message.head.context))
    throw NetworkError("it speaks of values or contexts of a worker that there is not",
                       {.rank = rank_, .remedy = "let all ranks run the same version of hymn"});
}

void AgentState::take(int from, Message message) {
  const MessageKind kind = message.head.kind;
  require_known_ranks(message);
  if (from != rank_) message.packed.refs = refs_.accept(weak_from_this(), message.refs, from);
  message.packed.context = message.head.context;
  message.packed.message = message.head.record;
  message.packed.from = from;
  if (message.head.record != 0) message.packed.agent = weak_from_this();
  const std::exception_ptr refused = reach_context(message.head);
  if (is_answered_kind(kind)) shutdown_.note_arrived();
  switch (kind) {
    case MessageKind::request:
      serve(from, std::move(message), refused);
      return;
    case MessageKind::fetch:
    case MessageKind::made:
      serve_value(from, message, refused);
      return;
    case MessageKind::response:
    case MessageKind::failure:
      finish_call(from, message);
      return;
    case MessageKind::fork_added:
    case MessageKind::fork_known:
    case MessageKind::fork_settled:
    case MessageKind::fork_dropped:
    case MessageKind::creation_ask:
    case MessageKind::creation_tell:
      refs_.take(from, message);
      return;
    case MessageKind::shutdown_come:
    case MessageKind::shutdown_ask:
    case MessageKind::shutdown_tell:
    case MessageKind::shutdown_done:
      shutdown_.take(from, message);
      return;
    case MessageKind::context_released:
      contexts_.release(message.head.context);
      return;
    case MessageKind::abort:
      lose(from, {Departure::Kind::aborted, message.name});
      return;
    case MessageKind::goodbye:
      lose(from, {Departure::Kind::left, {}});
      return;
  }
}

/// What is sent in a context makes it known here. The error, where there are too many.
std::exception_ptr AgentState::reach_context(const MessageHead& head) {
  if (head.kind == MessageKind::context_released) return nullptr;
  try {
    (void)contexts_.reach(head.context);
    return nullptr;
  } catch (const ResourceError&) {
    return std::current_exception();
  }
}

void AgentState::serve(int from, Message message, const std::exception_ptr& refused) {
  const auto call =
      std::make_shared<ServedCall>(shared_from_this(), from, message.head, std::move(message.name));
  if (refused) return call->fail(refused);
  const std::size_t bytes = message.payload_bytes() + bytes_beside_payload;
  if (waiting_bytes_ > options_.max_queued_bytes) {
    call->fail(std::make_exception_ptr(ResourceError(
        fmt::format("{} bytes of calls wait at {} to be carried out", waiting_bytes_.load(),
                    worker(rank_).name),
        {.rank = rank_,
         .remedy = "wait for calls before making more, or raise AgentOptions::max_queued_bytes"})));
    return;
  }
  waiting_bytes_ += bytes;
  auto packed = std::make_shared<Packed>(std::move(message.packed));
  engine_.submit([this, bytes, call, packed, type = message.head.type,
                  context = contexts_.find(message.head.context)] {
    waiting_bytes_ -= bytes;
    const ContextScope scope(context);
    call->run(*packed, type);
  });
}

void AgentState::serve_value(int from, const Message& message, const std::exception_ptr& refused) {
  const auto call = std::make_shared<ServedCall>(shared_from_this(), from, message.head, "a value");
  if (refused) return call->fail(refused);
  if (const auto kept = refs_.hold(weak_from_this(), {message.head.creator, message.head.ref}))
    call->give_when_made(kept, message.head.kind == MessageKind::fetch);
  else
    call->fail(gone_value());
}

void AgentState::finish_call(int from, Message& message) {
  const auto call = calls_.take(message.head.call, from);
  if (!call) return;  // its time has passed, or it was made to another worker
  if (message.head.kind == MessageKind::response)
    call->pending->answered(message.packed);
  else
    call->pending->failed(unpack_error(message.packed));
  shutdown_.look();
}

void AgentState::answer(int rank, Message message) {
  post(rank, std::move(message));
  shutdown_.note_served(rank);
}

TimePoint AgentState::end_overdue(TimePoint now) {
  for (const Call& call : calls_.take_overdue(now)) {
    const std::string& name = worker(call.rank).name;
    const Duration waited = now - call.started;
    const ErrorContext context{.rank = rank_,
                               .operation = fmt::format("{} at {}", call.what, name),
                               .remedy =
                                   "raise CallOptions::timeout or AgentOptions::timeout if "
                                   "the call needs longer",
                               .missing = {call.rank}};
    report_failure(
        call, std::make_exception_ptr(TimeoutError(
                  fmt::format("{} (rank {}) has not answered {} within {:.3f} s", name, call.rank,
                              call.what, std::chrono::duration<double>(waited).count()),
                  waited, context)));
  }
  return calls_.next_limit();
}

}  // namespace hymn::rpc::detail
