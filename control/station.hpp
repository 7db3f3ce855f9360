// A rank's place in the control plane over TCP: the thread that carries its agent's messages to the
// desk, and, on some ranks, a desk of its own.
#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/meeting.hpp"
#include "control/agent.hpp"
#include "control/desk.hpp"
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
  /// Whether it has ended its world, by the same memory: it may have told a desk that this rank has
  /// never reached. Empty: not known.
  std::function<bool()> has_left{};
};

/// Where a rank keeps a desk.
struct DeskPlace {
  int rank = -1;
  Endpoint endpoint{};
};

struct StationOptions {
  int rank = 0;
  int size = 1;
  Endpoint listen{};  ///< of the own desk
  Duration beat_every = std::chrono::milliseconds(250);
  /// A desk that gives no sign of life for so long is left for the next. Counted in own beats: who
  /// was stopped itself has not waited.
  Duration desk_silence = std::chrono::seconds(5);
  DeskOptions desk{};
  LinkLog log{};
};

/// First the desk is opened, whose endpoint the others must learn; then run() starts the thread.
class Station {
 public:
  explicit Station(StationOptions options);
  ~Station();
  Station(const Station&) = delete;
  Station& operator=(const Station&) = delete;

  /// Opens the own desk for those who know the token; it is one of those that run() gets. Throws
  /// NetworkError.
  Endpoint open_desk(const Token& token);
  /// From now on messages come and go. `desks` are the same, in the same order, on all ranks.
  void run(const Token& token, std::vector<DeskPlace> desks, std::shared_ptr<Agent> agent,
           std::function<std::vector<GroupMark>()> marks, std::vector<Neighbour> neighbours);
  /// Thread-safe; never blocks. Throws UsageError for what is too large to be said.
  void post(Message message);
  /// Waits, for half a second at most, until there is a connection, and what was posted has been
  /// given to it. On the station's own thread it does nothing.
  void flush();
  /// What was posted goes out for up to half a second; then the thread ends.
  void close();
  /// Called on the station's thread with every beat. To be set before run().
  void set_on_beat(std::function<void()> on_beat) { on_beat_ = std::move(on_beat); }

 private:
  void joined(int rank);
  void connected(std::size_t desk);
  void received(std::span<const std::byte> bytes);
  void lost_desk(const std::string& why);
  void leave_desk(const std::string& why);
  void tell_passed_desks();
  std::unique_ptr<LinkClient> make_client(std::span<const DeskPlace> desks, LinkLog log,
                                          LinkClient::Handlers handlers);
  static std::vector<Bytes> packed(Message message);
  void send(Bytes message);
  void send_to(int rank, const Message& message);
  void beat();
  void arm_beat();
  std::vector<GroupMark> changed_marks();
  /// Null: its process cannot be seen from here.
  const Neighbour* find_neighbour(int rank) const;
  void watch();
  void look_for_goodbyes();
  void look_for_ends();
  bool is_seen_alive(int rank) const;
  void neighbour_ended(int rank, const std::string& how);
  void give_up(const std::string& why);

  StationOptions options_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> stay_;
  std::unique_ptr<LinkServer> server_;
  std::unique_ptr<Desk> desk_;
  std::unique_ptr<LinkClient> client_;
  std::unique_ptr<LinkClient> messenger_;  ///< to a passed desk
  bool is_telling_ = false;
  std::unique_ptr<ProcessWatch> watch_;
  std::vector<Neighbour> neighbours_;
  /// Those that are looked at with each beat, as the kernel does not tell of their end, or nothing
  /// tells how they have ended their world; and whether they had ended at the last beat.
  std::map<int, bool> looked_at_;
  std::shared_ptr<Agent> agent_;
  std::function<std::vector<GroupMark>()> marks_;
  Token token_{};
  std::vector<DeskPlace> desks_;
  std::size_t current_ = 0;             ///< the desk that is spoken with, or tried
  std::vector<std::size_t> passed_;     ///< desks that gave no answer, and were not told so
  std::atomic<bool> connected_{false};  // read by flush(), too
  bool ever_connected_ = false;
  bool closing_ = false;
  bool has_left_ = false;
  std::vector<Bytes> waiting_;         ///< for a desk
  std::int64_t silent_beats_ = 0;      ///< since the desk was heard
  std::vector<GroupMark> sent_marks_;  ///< by group
  std::function<void()> on_beat_;
  std::unique_ptr<asio::steady_timer> timer_;
  std::thread thread_;
};

}  // namespace hymn::control
