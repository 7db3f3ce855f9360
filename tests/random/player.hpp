// One rank's part of a random program (script.hpp). What all ranks must do alike it draws from the
// step's seed; what is its own choice (whether it blocks, whether it works in place, how and when
// it waits) from the seed and its rank. Every result is compared with what the seed says it must
// be.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/random/script.hpp"
#include "tests/support/known_call.hpp"

namespace hymn::test {

/// What is in flight, with all that must stay until it has ended.
struct Flight {
  int step = 0;
  std::size_t group = 0;
  std::string what{};
  Work work{};
  /// Compares what it has written; receives give their statuses.
  std::function<void(std::span<const RecvStatus>)> check{};
};

/// What is asked of hymn in this program.
struct PlayerRules {
  std::string path{};     ///< the only ones that groups may take; empty: any
  std::string without{};  ///< the one that they never take, where any would do
  bool mixes_in_place = true;
  /// Makes groups, shrinks and ends them while operations of other groups are in flight.
  bool makes_in_flight = true;
  bool shrinks = true;
  /// Called before each step.
  std::function<void()> on_step{};
};

/// What is in flight needs its buffers until it ends: a Player that has thrown must stay for as
/// long as its worlds.
class Player {
 public:
  Player(std::span<World* const> worlds, const Script& script, PlayerRules rules = {});

  /// Plays the steps that are left, or so many of them, and waits for what is in flight then.
  void play(std::size_t most = std::numeric_limits<std::size_t>::max());
  /// Ends the groups that are left, in an order of its own.
  void end();
  /// Gives all groups up, so that nobody waits for this rank.
  void give_up(const std::string& reason);
  std::uint64_t calls() const { return calls_; }
  /// For what is said of an exception: "in step 17, waiting for …".
  std::string where() const;

 private:
  struct Seat {
    ProcessGroup group{};
    std::optional<Future<ProcessGroup>> making{};
  };
  using Attempt = std::function<std::vector<RecvStatus>()>;

  void play_step(const Step& step);
  void take(const Step& step);
  // player_calls.cpp
  void call(const Step& step);
  void coalesced(const Step& step);
  std::shared_ptr<KnownCall> draw_call(const Step& step, OpType type);
  /// All of them as one, in a scope.
  Work in_scope(ProcessGroup& group, std::span<const Request> requests);
  /// As the same call is on all members.
  bool is_refused(std::size_t group, const Request& request);
  // player_messages.cpp
  void message(const Step& step);
  void series(const Step& step);
  void any_source_message(const Step& step);
  void batch(const Step& step);
  struct Letter {
    int from = 0;  ///< global ranks
    int to = 0;
    std::size_t count = 0;
    int salt = 0;
  };
  Letter draw_letter(const Step& step);
  void deliver(const Step& step, const Letter& letter);
  void send(const Step& step, const Letter& letter);
  void receive(const Step& step, const Letter& letter);
  void probe(const Step& step, const Letter& letter, int source);
  void receive_any(const Step& step, const std::vector<Letter>& letters);
  void look_for_any(const Step& step, const std::vector<Letter>& letters);
  // player_groups.cpp
  void make(const Step& step);
  ProcessGroup split(const ScriptGroup& script, const GroupOptions& options);
  void end_group(const Step& step);
  void shrink(const Step& step);
  GroupOptions draw_options(const Step& step);
  void aside();
  void look_around(Seat& seat, std::size_t id);

  ProcessGroup& group(std::size_t id);
  bool is_member(std::size_t id) const;
  int rank() const { return worlds_.front()->rank(); }
  /// Either blocking by `run`, or with `start`, kept in flight.
  void run_or_start(Flight flight, const Attempt& run, const std::function<Work()>& start);
  /// False where the group has been given up, as the script says it will be.
  bool attempt(std::size_t group, const std::function<void()>& deed);
  void finish(std::size_t flight);
  void finish_all_but(std::optional<std::size_t> group);
  void settle(std::optional<std::size_t> but = {});
  void wait_somehow(Work& work);

  std::vector<World*> worlds_;
  const Script& script_;
  PlayerRules rules_;
  std::size_t next_ = 0;  ///< step
  Drawer common_{0};
  Drawer own_{0};
  std::vector<Seat> seats_;
  std::vector<ProcessGroup> left_;  ///< groups that are still to be destroyed
  std::vector<Flight> flights_;
  std::vector<Flight> lost_;  ///< given up with their groups: MPI may still use their buffers
  std::uint64_t calls_ = 0;
  int at_ = 0;
  std::string waits_for_{};  ///< while it does
};

/// How many elements, for buffers of so many parts.
std::size_t draw_count(Drawer& drawer, std::size_t element_bytes, std::size_t parts);

}  // namespace hymn::test
