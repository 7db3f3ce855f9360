// Remote procedure calls between the ranks of a job, by the names of workers. Link with hymn::rpc.
//
//     const auto add = rpc::register_function("add", [](double a, double b) { return a + b; });
//     …
//     rpc::Agent agent(world, "worker" + std::to_string(world.rank()));
//     double sum = agent.rpc_sync("worker1", add, 1.0, 2.0);
//     agent.shutdown();
//
// docs/rpc.md tells what happens when a worker fails, and what all of it costs.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hymn/rpc_call.hpp"
#include "hymn/rpc_function.hpp"
#include "hymn/rpc_ref.hpp"
#include "hymn/standard_parts.hpp"
#include "hymn/store.hpp"
#include "hymn/timeout.hpp"
#include "hymn/world.hpp"

namespace hymn::rpc {

struct AgentOptions {
  /// Of calls that say nothing else.
  Timeout timeout = std::chrono::seconds(60);
  /// Until all workers have found each other.
  Timeout init_timeout = std::chrono::minutes(5);
  /// Calls that are carried out at the same time. Those that wait for calls of their own do not
  /// count.
  int threads = 16;
  /// In one message, 64 KB at least; a larger one is refused where it is sent.
  std::size_t max_message_bytes = std::size_t{4} << 30;
  /// That wait to be sent to one worker: further calls of it throw ResourceError, and so end calls
  /// of its own whose results would wait. Of calls that wait to be carried out as many: further
  /// ones are answered by ResourceError.
  std::size_t max_queued_bytes = std::size_t{1} << 30;
};

/// Whom to call.
class Worker {
 public:
  Worker(std::string name) : who_(std::move(name)) {}      // NOLINT: it is one
  Worker(const char* name) : who_(std::string(name)) {}    // NOLINT
  Worker(int rank) : who_(rank) {}                         // NOLINT
  Worker(const WorkerInfo& worker) : who_(worker.rank) {}  // NOLINT

  const std::variant<std::string, int>& who() const { return who_; }

 private:
  std::variant<std::string, int> who_;
};

/// What an agent holds at the moment: all but `threads` is 0 when nothing is in flight or kept.
struct AgentUse {
  std::size_t calls = 0;         ///< made here, and not answered
  std::size_t served = 0;        ///< of others, and not answered
  std::size_t owned_values = 0;  ///< kept here for references
  std::size_t held_refs = 0;     ///< references of this worker to values of others
  std::size_t threads = 0;
};

namespace detail {

class AgentState;

/// What is sent for an argument.
template <class T>
struct SentAs {
  using type = std::decay_t<T>;
};
template <>
struct SentAs<const char*> {
  using type = std::string;
};
template <>
struct SentAs<std::string_view> {
  using type = std::string;
};
template <class T>
using Sent = typename SentAs<std::decay_t<T>>::type;

/// By reference where it is of the type already.
template <class Wanted, class Given>
decltype(auto) as_sent(const Given& given) {
  if constexpr (std::is_same_v<Wanted, Given>)
    return (given);
  else
    return Wanted(given);
}

struct Target {
  std::string_view name;
  Signature signature;
};

}  // namespace detail

/// One worker. All ranks make theirs at the same point, each with a name of its own. It has threads
/// of its own, and links to all other workers that need no MPI. Thread-safe, but for its end. In a
/// child made by fork() its calls, and those of its references and contexts, throw UsageError; what
/// is let go there stays with the parent.
class HYMN_API Agent {
 public:
  /// Of a world, which may end before. Every rank has called it when it returns. Throws UsageError
  /// where two workers have one name, TimeoutError naming who has not come, NetworkError.
  Agent(World& world, std::string name, const AgentOptions& options = {});
  /// Of processes that have a store in common, and nothing else. Two agents of one process over one
  /// store need a PrefixStore each.
  static Agent over(const std::shared_ptr<Store>& store, std::string name, int rank, int size,
                    const AgentOptions& options = {});
  Agent(Agent&&) noexcept;
  Agent& operator=(Agent&&) noexcept;
  /// As abort(), unless shutdown() has been called.
  ~Agent();

  /// The agent for which this thread carries a call out; else the one that this thread has made
  /// last and that lives. Throws UsageError where there is none.
  static Agent current();

  const WorkerInfo& self() const;
  /// In the order of ranks.
  const std::vector<WorkerInfo>& workers() const;
  /// Throws UsageError where there is none of that name.
  WorkerInfo worker(const Worker& who) const;
  const AgentOptions& options() const;
  AgentUse use() const;
  /// What messages to that worker go by, and why: "shared memory".
  std::string explain(const Worker& to) const;

  /// Calls a function that `to` has registered, and gives its result. The future fails with what
  /// the function has thrown there, as an object of the same type that is a RemoteOrigin, too;
  /// UsageError where there is no function of that name and type; TimeoutError; PeerError, at once,
  /// naming the worker, when it dies; AbortedError. What is wrong with the call itself is thrown.
  /// What is chained to the future must not wait for anything but calls.
  template <class R, class... Args, class... Given>
  Future<R> rpc_async(const Worker& to, const Function<R(Args...)>& function,
                      const Given&... arguments) {
    return rpc_async(CallOptions{}, to, function, arguments...);
  }
  template <class R, class... Args, class... Given>
  Future<R> rpc_async(const CallOptions& options, const Worker& to,
                      const Function<R(Args...)>& function, const Given&... arguments) {
    static_assert(sizeof...(Args) == sizeof...(Given), "the function has other arguments");
    auto pending = std::make_shared<detail::PendingValue<R>>();
    start(to, {function.name(), function.signature()},
          detail::pack(detail::as_sent<Args>(arguments)...), options, pending);
    return pending->future();
  }
  /// By name alone: the arguments must have the function's own types.
  template <class R, class... Given>
  Future<R> rpc_async(const Worker& to, std::string_view name, const Given&... arguments) {
    return rpc_async(to, Function<R(detail::Sent<Given>...)>(std::string(name)), arguments...);
  }

  template <class R, class... Args, class... Given>
  R rpc_sync(const Worker& to, const Function<R(Args...)>& function, const Given&... arguments) {
    return rpc_async(to, function, arguments...).get();
  }
  template <class R, class... Args, class... Given>
  R rpc_sync(const CallOptions& options, const Worker& to, const Function<R(Args...)>& function,
             const Given&... arguments) {
    return rpc_async(options, to, function, arguments...).get();
  }
  template <class R, class... Given>
  R rpc_sync(const Worker& to, std::string_view name, const Given&... arguments) {
    return rpc_async<R>(to, name, arguments...).get();
  }

  /// Calls a function whose result stays where it is made. Returns at once; what goes wrong is told
  /// by the reference.
  template <class R, class... Args, class... Given>
  RemoteRef<R> remote(const Worker& to, const Function<R(Args...)>& function,
                      const Given&... arguments) {
    return remote(CallOptions{}, to, function, arguments...);
  }
  template <class R, class... Args, class... Given>
  RemoteRef<R> remote(const CallOptions& options, const Worker& to,
                      const Function<R(Args...)>& function, const Given&... arguments) {
    static_assert(sizeof...(Args) == sizeof...(Given), "the function has other arguments");
    return RemoteRef<R>(start_remote(to, {function.name(), function.signature()},
                                     detail::pack(detail::as_sent<Args>(arguments)...), options));
  }
  /// A reference to a value that this worker keeps.
  template <class T>
  RemoteRef<T> make_ref(T value) {
    return RemoteRef<T>(keep(detail::stored(std::move(value))));
  }

  /// Ends the agent when all workers have called this and nothing is in flight any more, calls that
  /// calls have made included. References are void then. Workers that have died are not waited for.
  /// Until then this worker serves the others. Throws TimeoutError naming who has not come in time
  /// (unset: there is no limit), after which it may be called again.
  void shutdown(Timeout timeout = {});
  /// Ends it without the others. All calls in flight, those of other workers to this one too, fail
  /// with AbortedError and this reason at once; returns when functions that run here have ended.
  void abort(const std::string& reason = "the program has aborted it");

  explicit Agent(std::shared_ptr<detail::AgentState> state, bool is_owner = false);
  const std::shared_ptr<detail::AgentState>& state() const { return state_; }

 private:
  void start(const Worker& to, const detail::Target& target, detail::Packed arguments,
             const CallOptions& options, const detail::PendingPtr& pending);
  detail::RefPtr start_remote(const Worker& to, const detail::Target& target,
                              detail::Packed arguments, const CallOptions& options);
  detail::RefPtr keep(detail::StoredValue value);

  std::shared_ptr<detail::AgentState> state_;
  bool is_owner_ = false;
};

}  // namespace hymn::rpc
