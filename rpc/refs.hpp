// Values that are kept for others, and references to those of others.
//
// The owner of a value knows each copy of a reference ("fork") that another worker holds, by a
// number that the worker has given it who made the copy. A fork that goes from one worker to
// another, neither of them the owner, is made known to the owner by who gets it; until that has
// happened who gave it keeps its own. Forks of a worker that dies go with it. So no message has to
// arrive for counts to stay right: links lose nothing before they end, and their end is known.
//
// A fork may be made known before the call comes that makes the value, for they take different
// ways; or when the value has gone, where a worker between has died. So who has given the value its
// number is asked: its answer comes behind the call.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "hymn/rpc_ref.hpp"
#include "rpc/message.hpp"

namespace hymn::rpc::detail {

/// The rank that has given it, and its number there.
struct RefId {
  int rank = -1;
  std::uint64_t number = 0;
  auto operator<=>(const RefId&) const = default;
};

class AgentState;
class RefTable;

/// A value that lives here, from the call that makes it on.
struct OwnedValue {
  hymn::detail::FutureState<void> made{hymn::detail::Drive{}};
  StoredValue value{};
  // Guarded by the table:
  bool is_expected = false;  ///< the call that makes it has come
  RefId id{};
  std::map<RefId, int> forks{};  ///< who holds them
  int handles = 0;               ///< of this worker
};

/// What all handles of one fork on this worker share; the last one lets it go.
class RefState {
 public:
  RefState(std::weak_ptr<AgentState> of, int kept_by, RefId number, RefId copy, std::uint64_t what)
      : agent(std::move(of)), owner(kept_by), id(number), fork(copy), type(what) {}
  RefState(const RefState&) = delete;
  RefState& operator=(const RefState&) = delete;
  ~RefState();

  const std::weak_ptr<AgentState> agent;
  const int owner;
  const RefId id;
  const RefId fork;
  const std::uint64_t type;
  std::shared_ptr<OwnedValue> value{};  ///< at its owner
};

/// Of a value that has gone with a worker: a PeerError.
std::exception_ptr gone_value();

std::uint64_t type_number(const std::type_info& type);

/// Thread-safe.
class RefTable {
 public:
  /// Sends a message about forks.
  using Post = std::function<void(int rank, Message message)>;
  RefTable(int rank, Post post) : rank_(rank), post_(std::move(post)) {}

  RefId new_id() { return {rank_, ++last_}; }

  /// A value that a call of this worker's makes here, with a handle.
  RefPtr make_own(const std::weak_ptr<AgentState>& agent, RefId id, std::uint64_t type);
  /// One that others may know already, with a handle.
  RefPtr own(const std::weak_ptr<AgentState>& agent, RefId id, std::uint64_t type);
  /// One that `holder` has asked for.
  std::shared_ptr<OwnedValue> expect(RefId id, int holder);
  /// Null where it is not kept (any more).
  std::shared_ptr<OwnedValue> find(RefId id) const;
  /// The same with a handle, for who waits until it is made: others may let it go meanwhile, and
  /// who makes it would not find who waits.
  RefPtr hold(const std::weak_ptr<AgentState>& agent, RefId id);
  RefPtr user(const std::weak_ptr<AgentState>& agent, int owner, RefId id, RefId fork,
              std::uint64_t type);

  /// Forks of these for another worker.
  std::vector<RefWire> lend(const std::vector<RefPtr>& refs, int to);
  std::vector<RefPtr> accept(const std::weak_ptr<AgentState>& agent,
                             const std::vector<RefWire>& wires, int from);
  void release(const RefState& ref);

  /// One of the kinds fork_… and creation_…
  void take(int from, const Message& message);
  void lose(int rank);
  /// Nothing is made any more: what waits for values gets this error.
  void end(const std::exception_ptr& error);
  /// All forks are void.
  void clear();

  std::size_t owned() const;
  std::size_t held() const { return held_.load(); }

 private:
  struct Loan {
    int to;
    RefPtr kept;
  };
  using Value = std::shared_ptr<OwnedValue>;
  using Owned = std::map<RefId, Value>;
  using Lock = std::unique_lock<std::mutex>;

  RefPtr handle(const std::weak_ptr<AgentState>& agent, const Value& value, std::uint64_t type);
  Value& place(RefId id);
  Value reach(RefId id, const std::function<void(OwnedValue&)>& use);
  void confirm(RefId id);
  void add_fork(int holder, const Message& message);
  void drop_fork(const Message& message);
  void settle(RefId fork);
  Value erase_if_unused(Owned::iterator place);

  const int rank_;
  const Post post_;
  std::atomic<std::uint64_t> last_{0};
  std::atomic<std::size_t> held_{0};
  mutable std::mutex mutex_;
  Owned owned_;
  std::map<RefId, Loan> lent_;
  std::set<int> lost_;  ///< workers
  std::exception_ptr ended_;
};

}  // namespace hymn::rpc::detail
