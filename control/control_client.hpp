// A rank's place in the control plane over TCP: the thread that carries its agent's messages to the
// coordinator, and, on some ranks, a coordinator of its own.
#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/meeting.hpp"
#include "control/agent.hpp"
#include "control/coordinator.hpp"
#include "control/link_client.hpp"
#include "control/link_server.hpp"
#include "control/process_watch.hpp"

namespace hymn::control {

/// Another rank whose process can be seen from here.
struct Neighbour {
  int rank = -1;
  int pid = 0;
  /// What can be read in its memory when it has ended: whether it has left, how, and how far it had
  /// come. Empty: nothing can be read.
  std::function<PeerNews()> look{};
  /// Whether it has ended its world, by the same memory: it may have told a coordinator that this
  /// rank has never reached. Empty: not known.
  std::function<bool()> has_left{};
};

/// Where a rank runs a coordinator.
struct CoordinatorEndpoint {
  int rank = -1;
  Endpoint endpoint{};
};

struct ControlClientOptions {
  int rank = 0;
  int size = 1;
  Endpoint listen{};  ///< of the own coordinator
  Duration beat_every = std::chrono::milliseconds(250);
  Duration move_every = std::chrono::milliseconds(2);
  /// A coordinator that gives no sign of life for so long is left for the next. Counted in own
  /// beats: who was stopped itself has not waited.
  Duration coordinator_silence = std::chrono::seconds(5);
  CoordinatorOptions coordinator{};
  LinkLog log{};
};

/// First the coordinator is opened, whose endpoint the others must learn; then run() starts the
/// thread.
class ControlClient {
 public:
  explicit ControlClient(ControlClientOptions options);
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  /// Opens the own coordinator for those who know the token; it is one of those that run() gets.
  /// Throws NetworkError.
  Endpoint open_coordinator(const Token& token);
  /// From now on messages come and go. `coordinators` are the same, in the same order, on all
  /// ranks.
  void run(const Token& token, std::vector<CoordinatorEndpoint> coordinators,
           std::shared_ptr<Agent> agent, std::function<std::vector<GroupMark>()> marks,
           std::vector<Neighbour> neighbours);
  /// Waits, for so long at most, until a coordinator knows that this rank is there: it will hear of
  /// its end from then on.
  void await_coordinator(Duration limit) const;
  /// Thread-safe; never blocks. Throws UsageError for what is too large to be said.
  void post(Message message);
  /// Waits, for half a second at most, until what was posted has been passed on to all ranks that
  /// are alive. On the control client's thread it does nothing.
  void flush();
  /// This rank ends: who cannot be reached from now on may have ended well, and is not told of as
  /// lost.
  void expect_ends() { expects_ends_ = true; }
  /// What was posted goes out for up to half a second; then the thread ends.
  void close();
  /// Called on the control client's thread with every beat. To be set before run().
  void set_on_beat(std::function<void()> on_beat) { on_beat_ = std::move(on_beat); }
  /// The same; while it returns true it is called again soon, too.
  void set_on_move(std::function<bool()> on_move) { on_move_ = std::move(on_move); }

 private:
  void joined(int rank);
  void connected(std::size_t coordinator);
  void flushed(std::uint64_t number);
  void received(std::span<const std::byte> bytes);
  void lost_coordinator(const std::string& why);
  void leave_coordinator(const std::string& why);
  void tell_passed_coordinators();
  std::unique_ptr<LinkClient> make_client(std::span<const CoordinatorEndpoint> coordinators,
                                          LinkLog log, LinkClient::Handlers handlers);
  static std::vector<Bytes> packed(Message message);
  void send(Bytes message);
  void send_to(int rank, const Message& message);
  void beat();
  void arm_beat();
  void move();
  std::vector<GroupMark> changed_marks();
  /// Null: its process cannot be seen from here.
  const Neighbour* find_neighbour(int rank) const;
  void watch();
  void look_for_goodbyes();
  void look_for_ends();
  bool is_seen_alive(int rank) const;
  void neighbour_ended(int rank, const std::string& how);
  void give_up(const std::string& why);

  ControlClientOptions options_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> stay_;
  std::unique_ptr<LinkServer> server_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<LinkClient> client_;
  std::unique_ptr<LinkClient> messenger_;  ///< to a passed coordinator
  bool is_telling_ = false;
  std::unique_ptr<ProcessWatch> watch_;
  std::vector<Neighbour> neighbours_;
  /// Those that are looked at with each beat, as the kernel does not tell of their end, or nothing
  /// tells how they have ended their world; and whether they had ended at the last beat.
  std::map<int, bool> looked_at_;
  std::set<int> left_;  ///< those whose memory said at the last beat that they have left
  std::shared_ptr<Agent> agent_;
  std::function<std::vector<GroupMark>()> marks_;
  Token token_{};
  std::vector<CoordinatorEndpoint> coordinators_;
  std::size_t current_ = 0;             ///< the coordinator that is spoken with, or tried
  std::vector<std::size_t> passed_;     ///< coordinators that gave no answer, and were not told so
  std::atomic<bool> connected_{false};  // read by await_coordinator(), too
  std::atomic<bool> expects_ends_{false};
  bool ever_connected_ = false;
  bool closing_ = false;
  bool has_left_ = false;
  std::vector<Bytes> waiting_;  ///< for a coordinator
  /// Those of flush() that wait, by their number. The coordinator that was asked may go before it
  /// has answered: the next one is asked again.
  std::map<std::uint64_t, std::shared_ptr<std::promise<void>>> flushes_;
  std::uint64_t next_flush_ = 0;
  std::int64_t silent_beats_ = 0;      ///< since the coordinator was heard
  std::vector<GroupMark> sent_marks_;  ///< by group
  std::function<void()> on_beat_;
  std::function<bool()> on_move_;
  std::unique_ptr<asio::steady_timer> timer_;
  std::unique_ptr<asio::steady_timer> soon_;
  std::thread thread_;
};

}  // namespace hymn::control
