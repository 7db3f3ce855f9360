#include <utility>

#include "base/own_process.hpp"
#include "hymn/error.hpp"
#include "hymn/rpc.hpp"
#include "rpc/agent_state.hpp"
#include "rpc/meeting.hpp"

namespace hymn::rpc {
namespace {

detail::AgentPtr make_agent(const std::shared_ptr<Store>& store, const std::string& name, int rank,
                            int size, const AgentOptions& options) {
  detail::Acquaintance known = detail::meet(store, name, rank, size, options);
  detail::Links links = std::move(known.links);
  auto state = make_shared_here<detail::AgentState>(std::move(known), options);
  state->start(std::move(links));
  detail::AgentScope::set_made(state);
  return state;
}

const detail::AgentPtr& need(const detail::AgentPtr& state) {
  if (!state) throw UsageError("this Agent is empty: it was moved from");
  return state;
}

/// For what takes locks, or reaches others: before anything else is done.
const detail::AgentPtr& need_own(const detail::AgentPtr& state) {
  need(state)->require_own_process();
  return state;
}

}  // namespace

Agent::Agent(World& world, std::string name, const AgentOptions& options)
    : Agent(make_agent(world.store(), name, world.rank(), world.size(), options), true) {}

Agent Agent::over(const std::shared_ptr<Store>& store, std::string name, int rank, int size,
                  const AgentOptions& options) {
  return Agent(make_agent(store, name, rank, size, options), true);
}

Agent::Agent(std::shared_ptr<detail::AgentState> state, bool is_owner)
    : state_(std::move(state)), is_owner_(is_owner) {}
Agent::Agent(Agent&& other) noexcept
    : state_(std::move(other.state_)), is_owner_(std::exchange(other.is_owner_, false)) {}
Agent& Agent::operator=(Agent&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(is_owner_, other.is_owner_);
  return *this;
}

Agent::~Agent() {
  if (!is_owner_ || !state_ || state_->is_of_parent()) return;
  state_->abort("it was destroyed before shutdown()");
  state_->join();
}

Agent Agent::current() {
  auto state = detail::AgentScope::current();
  if (!state)
    throw UsageError("this thread has no agent", {.remedy = "pass the agent to where it is used"});
  return Agent(std::move(state));
}

const WorkerInfo& Agent::self() const { return need(state_)->worker(state_->rank()); }
const std::vector<WorkerInfo>& Agent::workers() const { return need(state_)->workers(); }
WorkerInfo Agent::worker(const Worker& who) const { return need(state_)->worker(who); }
const AgentOptions& Agent::options() const { return need(state_)->options(); }
AgentUse Agent::use() const { return need_own(state_)->use(); }
std::string Agent::explain(const Worker& to) const {
  return need_own(state_)->explain(state_->worker(to).rank);
}

void Agent::start(const Worker& to, const detail::Target& target, detail::Packed arguments,
                  const CallOptions& options, const detail::PendingPtr& pending) {
  const detail::AgentPtr& state = need_own(state_);
  detail::check_function(target.name, target.signature);
  detail::Message message;
  message.head.kind = detail::MessageKind::request;
  message.head.type = target.signature.number();
  message.name = target.name;
  message.packed = std::move(arguments);
  const int rank = state->worker(to).rank;
  state->call(rank, std::string(target.name), std::move(message), pending, options.timeout);
}

detail::RefPtr Agent::start_remote(const Worker& to, const detail::Target& target,
                                   detail::Packed arguments, const CallOptions& options) {
  const detail::AgentPtr& state = need_own(state_);
  detail::check_function(target.name, target.signature);
  return state->call_and_keep(state->worker(to).rank, target, std::move(arguments),
                              options.timeout);
}

detail::RefPtr Agent::keep(detail::StoredValue value) {
  return need_own(state_)->keep(std::move(value));
}

void Agent::shutdown(Timeout timeout) { need_own(state_)->shutdown(timeout); }
void Agent::abort(const std::string& reason) { need_own(state_)->abort(reason); }

}  // namespace hymn::rpc
