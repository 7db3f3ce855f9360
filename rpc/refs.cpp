#include "rpc/refs.hpp"

#include <utility>

#include "hymn/error.hpp"

namespace hymn::rpc::detail {
namespace {

Message about_fork(MessageKind kind, RefId id, RefId fork) {
  Message message;
  message.head.kind = kind;
  message.head.creator = id.rank;
  message.head.ref = id.number;
  message.head.forker = fork.rank;
  message.head.call = fork.number;
  return message;
}

RefId id_of(const Message& message) { return {message.head.creator, message.head.ref}; }
RefId fork_of(const Message& message) { return {message.head.forker, message.head.call}; }

}  // namespace

std::exception_ptr gone_value() {
  return std::make_exception_ptr(PeerError(
      "the value is not kept any more: the worker that has asked for it, or has passed the "
      "reference on, has died",
      {.operation = "the value of a reference", .remedy = "make the value again"}));
}

std::uint64_t type_number(const std::type_info& type) { return Signature{{&type}}.number(); }

RefPtr RefTable::handle(const std::weak_ptr<AgentState>& agent, const Value& value,
                        std::uint64_t type) {
  auto ref = std::make_shared<RefState>(agent, rank_, value->id, RefId{}, type);
  ref->value = value;
  return ref;
}

/// With the lock.
RefTable::Value& RefTable::place(RefId id) {
  Value& value = owned_[id];
  if (!value) {
    value = std::make_shared<OwnedValue>();
    value->id = id;
  }
  return value;
}

RefPtr RefTable::make_own(const std::weak_ptr<AgentState>& agent, RefId id, std::uint64_t type) {
  Lock lock(mutex_);
  const Value value = place(id);
  value->is_expected = true;
  ++value->handles;
  const std::exception_ptr ended = ended_;
  lock.unlock();
  if (ended) value->made.set_error(ended);
  return handle(agent, value, type);
}

RefPtr RefTable::own(const std::weak_ptr<AgentState>& agent, RefId id, std::uint64_t type) {
  return handle(agent, reach(id, [](OwnedValue& value) { ++value.handles; }), type);
}

RefTable::Value RefTable::expect(RefId id, int holder) {
  Lock lock(mutex_);
  const Value value = place(id);
  value->is_expected = true;
  if (holder != rank_) value->forks.emplace(id, holder);
  const std::exception_ptr ended = ended_;
  lock.unlock();
  if (ended) value->made.set_error(ended);
  return value;
}

/// A value that another worker knows; it is kept where `use` makes it used. Where the call that
/// makes it has not come, it may still come.
RefTable::Value RefTable::reach(RefId id, const std::function<void(OwnedValue&)>& use) {
  Lock lock(mutex_);
  const bool is_new = !owned_.contains(id);
  const Value value = place(id);
  use(*value);
  const std::exception_ptr ended = ended_;
  const bool can_come = id.rank != rank_ && !lost_.contains(id.rank);
  lock.unlock();
  if (!is_new) return value;
  if (ended)
    value->made.set_error(ended);
  else if (!can_come)
    value->made.set_error(gone_value());
  else
    post_(id.rank, about_fork(MessageKind::creation_ask, id, {}));
  return value;
}

/// What was to come before this has come.
void RefTable::confirm(RefId id) {
  const Value value = find(id);
  Lock lock(mutex_);
  const bool is_gone = value && !value->is_expected;
  lock.unlock();
  if (is_gone) value->made.set_error(gone_value());
}

std::shared_ptr<OwnedValue> RefTable::find(RefId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = owned_.find(id);
  return found == owned_.end() ? nullptr : found->second;
}

RefPtr RefTable::hold(const std::weak_ptr<AgentState>& agent, RefId id) {
  Lock lock(mutex_);
  const auto found = owned_.find(id);
  if (found == owned_.end()) return nullptr;
  const Value value = found->second;
  ++value->handles;
  lock.unlock();
  return handle(agent, value, 0);
}

RefPtr RefTable::user(const std::weak_ptr<AgentState>& agent, int owner, RefId id, RefId fork,
                      std::uint64_t type) {
  ++held_;
  return std::make_shared<RefState>(agent, owner, id, fork, type);
}

std::vector<RefWire> RefTable::lend(const std::vector<RefPtr>& refs, int to) {
  std::vector<RefWire> wires;
  const std::lock_guard lock(mutex_);
  for (const RefPtr& ref : refs) {
    const RefId fork = new_id();
    wires.push_back({.owner = ref->owner,
                     .creator = ref->id.rank,
                     .number = ref->id.number,
                     .fork = fork.number,
                     .type = ref->type});
    if (lost_.contains(to)) continue;  // nobody will give it back
    if (ref->owner == rank_)
      ref->value->forks.emplace(fork, to);
    else if (!lost_.contains(ref->owner))
      lent_.emplace(fork, Loan{to, ref});
  }
  return wires;
}

std::vector<RefPtr> RefTable::accept(const std::weak_ptr<AgentState>& agent,
                                     const std::vector<RefWire>& wires, int from) {
  std::vector<RefPtr> refs;
  for (const RefWire& wire : wires) {
    const RefId id{wire.creator, wire.number};
    const RefId fork{from, wire.fork};
    if (wire.owner == rank_) {
      refs.push_back(own(agent, id, wire.type));
      post_(from, about_fork(MessageKind::fork_settled, id, fork));
    } else {
      refs.push_back(user(agent, wire.owner, id, fork, wire.type));
      if (wire.owner != from) post_(wire.owner, about_fork(MessageKind::fork_added, id, fork));
    }
  }
  return refs;
}

void RefTable::release(const RefState& ref) {
  if (ref.owner != rank_) {
    --held_;
    post_(ref.owner, about_fork(MessageKind::fork_dropped, ref.id, ref.fork));
    return;
  }
  std::shared_ptr<OwnedValue> unused;  // goes without the lock
  const std::lock_guard lock(mutex_);
  --ref.value->handles;
  if (const auto found = owned_.find(ref.id); found != owned_.end())
    unused = erase_if_unused(found);
}

std::shared_ptr<OwnedValue> RefTable::erase_if_unused(Owned::iterator place) {
  std::shared_ptr<OwnedValue> value = place->second;
  if (value->handles == 0 && value->forks.empty()) owned_.erase(place);
  return value;
}

void RefTable::take(int from, const Message& message) {
  switch (message.head.kind) {
    case MessageKind::fork_added:
      add_fork(from, message);
      return;
    case MessageKind::fork_dropped:
      drop_fork(message);
      return;
    case MessageKind::fork_known:
      post_(message.head.forker,
            about_fork(MessageKind::fork_settled, id_of(message), fork_of(message)));
      return;
    case MessageKind::fork_settled:
      settle(fork_of(message));
      return;
    case MessageKind::creation_ask:
      post_(from, about_fork(MessageKind::creation_tell, id_of(message), {}));
      return;
    case MessageKind::creation_tell:
      confirm(id_of(message));
      return;
    case MessageKind::request:
    case MessageKind::fetch:
    case MessageKind::made:
    case MessageKind::response:
    case MessageKind::failure:
    case MessageKind::shutdown_come:
    case MessageKind::shutdown_ask:
    case MessageKind::shutdown_tell:
    case MessageKind::shutdown_done:
    case MessageKind::context_released:
    case MessageKind::abort:
    case MessageKind::goodbye:
      return;
  }
}

void RefTable::add_fork(int holder, const Message& message) {
  const RefId fork = fork_of(message);
  reach(id_of(message), [&](OwnedValue& value) { value.forks.emplace(fork, holder); });
  post_(holder, about_fork(MessageKind::fork_known, id_of(message), fork));
}

void RefTable::drop_fork(const Message& message) {
  std::shared_ptr<OwnedValue> unused;
  const std::lock_guard lock(mutex_);
  const auto found = owned_.find(id_of(message));
  if (found == owned_.end()) return;
  found->second->forks.erase(fork_of(message));
  unused = erase_if_unused(found);
}

void RefTable::settle(RefId fork) {
  RefPtr kept;
  const std::lock_guard lock(mutex_);
  const auto found = lent_.find(fork);
  if (found == lent_.end()) return;
  kept = std::move(found->second.kept);
  lent_.erase(found);
}

void RefTable::lose(int rank) {
  std::vector<Value> unused;
  std::vector<Value> never_made;
  std::vector<RefPtr> kept;
  Lock lock(mutex_);
  lost_.insert(rank);
  for (auto value = owned_.begin(); value != owned_.end();) {
    const auto place = value++;
    std::erase_if(place->second->forks, [&](const auto& fork) { return fork.second == rank; });
    if (place->first.rank == rank && !place->second->is_expected)
      never_made.push_back(place->second);
    unused.push_back(erase_if_unused(place));
  }
  std::erase_if(lent_, [&](auto& loan) {
    // Of a dead owner nothing is kept any longer that could be lost.
    const bool is_void = loan.second.to == rank || loan.second.kept->owner == rank;
    if (is_void) kept.push_back(std::move(loan.second.kept));
    return is_void;
  });
  lock.unlock();
  for (const Value& value : never_made) value->made.set_error(gone_value());
}

void RefTable::end(const std::exception_ptr& error) {
  Lock lock(mutex_);
  ended_ = error;
  const Owned owned = owned_;
  lock.unlock();
  // The first outcome stays.
  for (const auto& [id, value] : owned) value->made.set_error(error);
}

void RefTable::clear() {
  Owned owned;
  std::map<RefId, Loan> lent;
  const std::lock_guard lock(mutex_);
  owned.swap(owned_);
  lent.swap(lent_);
}

std::size_t RefTable::owned() const {
  const std::lock_guard lock(mutex_);
  return owned_.size();
}

}  // namespace hymn::rpc::detail
