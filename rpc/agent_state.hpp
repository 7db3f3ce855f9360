// What an agent is made of, and what it does about messages.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/own_process.hpp"
#include "hymn/rpc.hpp"
#include "rpc/calls.hpp"
#include "rpc/contexts.hpp"
#include "rpc/engine.hpp"
#include "rpc/refs.hpp"
#include "rpc/registry.hpp"
#include "rpc/shutdown.hpp"

namespace hymn::rpc::detail {

/// What has become of a worker.
struct Departure {
  enum class Kind : unsigned char { none, left, aborted, lost };
  Kind kind = Kind::none;
  std::string why{};
};

/// What messages go by, by rank.
struct Links {
  std::vector<Descriptor> sockets{};
  std::vector<int> pids{};                 ///< of processes of this host; 0 for others
  std::unique_ptr<ByteStreams> streams{};  ///< null: none of this host share memory
  std::vector<int> streamers{};            ///< the number of each among those; -1: it has no stream
  std::string why_no_streams{};
};

/// How this process finds the others: what rpc/meeting.hpp has arranged.
struct Acquaintance {
  int rank = 0;
  std::vector<WorkerInfo> workers{};
  std::vector<std::size_t> most_bytes{};  ///< that each takes in a message
  Links links{};
};

/// Made by make_shared_here(): a child made by fork() does not end it.
class AgentState : public std::enable_shared_from_this<AgentState> {
 public:
  AgentState(Acquaintance known, const AgentOptions& options);
  ~AgentState();
  AgentState(const AgentState&) = delete;
  AgentState& operator=(const AgentState&) = delete;

  /// Begins to serve.
  void start(Links links);

  int rank() const { return rank_; }
  const std::vector<WorkerInfo>& workers() const { return workers_; }
  const WorkerInfo& worker(const Worker& who) const;
  const AgentOptions& options() const { return options_; }
  AgentUse use() const;
  std::string explain(int rank);
  RefTable& refs() { return refs_; }
  Contexts& contexts() { return contexts_; }
  Engine& engine() { return engine_; }

  /// `message`: of a kind that is answered, to that rank; `what`: what is called, for errors.
  void call(int rank, std::string what, Message message, const PendingPtr& pending,
            Timeout timeout);
  RefPtr call_and_keep(int rank, const Target& target, Packed arguments, Timeout timeout);
  RefPtr keep(StoredValue value);

  void shutdown(Timeout timeout);
  void abort(const std::string& reason);
  /// After either: waits for the threads, unless this is one of them.
  void join();
  bool has_ended() const { return ended_.load(); }
  /// This process was made by fork(), and the agent by the one before: threads, locks and shared
  /// memory are not here, and links are the parent's.
  bool is_of_parent() const { return !process_.is_this(); }
  /// Throws UsageError in a child made by fork().
  void require_own_process() const;
  bool is_own_thread() const { return Engine::of_this_thread() == &engine_; }

  // For calls that are served:
  bool post(int rank, Message message);
  /// What both it and this worker take in a message.
  std::size_t most_bytes(int rank) const;
  /// Throws ResourceError where more waits to be sent to it than may.
  void require_reading(int rank);
  void answer(int rank, Message message);

 private:
  void take(int from, Message message);
  void require_known_ranks(const Message& message) const;
  void note_context(Message& message);
  std::exception_ptr reach_context(const MessageHead& head);
  /// `refused`: the error that it fails with, if any.
  void serve(int from, Message message, const std::exception_ptr& refused);
  void serve_value(int from, const Message& message, const std::exception_ptr& refused);
  void finish_call(int from, Message& message);
  void lose(int rank, Departure departure);
  TimePoint end_overdue(TimePoint now);
  Departure departure_of(int rank) const;
  std::exception_ptr gone_error(int rank, const std::string& what) const;
  void require_open() const;
  void require_room(int rank, const Message& message);
  void begin(int rank, std::string what, Message message, const PendingPtr& pending,
             Timeout timeout);
  void end(const std::string& reason, MessageKind farewell);
  void say_farewell(const std::string& reason, MessageKind farewell);
  void report_failure(const Call& call, std::exception_ptr error);
  std::exception_ptr ended_error(const Call& call) const;
  bool end_if_late(std::uint64_t number);

  const int rank_;
  const OwnProcess process_;
  const std::vector<WorkerInfo> workers_;
  const AgentOptions options_;
  const std::vector<std::size_t> most_bytes_;
  CallTable calls_;
  RefTable refs_;
  Contexts contexts_;
  Shutdown shutdown_;
  std::atomic<bool> ended_{false};
  mutable std::mutex mutex_;  // of the next two
  std::vector<Departure> departures_;
  std::string end_reason_;
  std::string why_no_streams_;
  std::atomic<std::size_t> waiting_bytes_{0};  ///< of calls that have come and not begun
  Engine engine_;                              // last: its threads use the others
};

using AgentPtr = std::shared_ptr<AgentState>;

/// While it lives this thread works for that agent.
class AgentScope {
 public:
  explicit AgentScope(AgentPtr agent);
  ~AgentScope();
  AgentScope(const AgentScope&) = delete;
  AgentScope& operator=(const AgentScope&) = delete;

  /// Null where this thread works for none, and has made none that lives.
  static AgentPtr current();
  static void set_made(const AgentPtr& agent);

 private:
  AgentPtr before_;
};

}  // namespace hymn::rpc::detail
