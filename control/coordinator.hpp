// The coordinator: what the one rank does that all others speak with. It keeps who is there, passes
// on news, questions and orders, and settles what all must agree on.
//
// It knows no network and no clock of its own: whoever owns it tells it what has come, and when.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/recent_map.hpp"
#include "control/message.hpp"
#include "hymn/timeout.hpp"

namespace hymn::control {

/// Of so many groups coordinators and ranks remember that they were given up, and who was left; so
/// many are still told to who comes late.
inline constexpr std::size_t most_remembered = 4096;

struct CoordinatorOptions {
  /// Without a sign of life for so long a rank is taken for stalled.
  Duration stalled_after = std::chrono::seconds(3);
  /// A rank that has not come for so long after the first one did is taken for lost.
  Duration absent_after = std::chrono::seconds(30);
  /// Which of the coordinators of a job, one after the other, this one is: no two settle on the
  /// same numbers for new groups.
  int index = 0;
  /// Whether the process of a rank can be seen from here, and lives: then a lost connection makes
  /// it stalled, not lost. Empty: no process can be seen.
  std::function<bool(int rank)> is_seen_alive{};
};

/// Not thread-safe: one thread at a time. `send` is called during the calls of the others, and must
/// not call back.
class Coordinator {
 public:
  using Send = std::function<void(int rank, const Message& message)>;
  Coordinator(int size, CoordinatorOptions options, Send send);

  /// The rank has come, perhaps again, or for the first time after another coordinator was lost.
  void join(int rank, TimePoint now);
  void receive(int rank, Message message, TimePoint now);
  /// Its connection has ended.
  void lose(int rank, const std::string& why, TimePoint now);
  /// Now and then: several times in each of the times of CoordinatorOptions.
  void tick(TimePoint now);

  /// Ranks have gone to a later coordinator.
  bool is_deserted() const { return deserted_; }
  /// Groups that some of their members shrink, and others have not called that for.
  std::size_t unsettled() const { return shrinking_.size(); }
  PeerState state_of(int rank) const { return seats_.at(static_cast<std::size_t>(rank)).state; }

 private:
  struct Seat {
    bool present = false;  ///< connected
    bool came = false;     ///< was so once
    bool moved = false;    ///< to another coordinator
    bool said_goodbye = false;
    PeerState state = PeerState::alive;
    std::string detail{};
    std::vector<int> culprits{};
    bool broke_off = false;
    std::map<std::uint64_t, GroupMark> marks{};
    std::optional<DumpNow> early_dump{};  ///< asked of all before this one came
    TimePoint last_sign{};
  };
  /// Calls of shrink() on one group that wait for the others.
  struct Shrinking {
    std::vector<int> members;
    std::set<int> callers;
  };
  /// What was called with one sequence number of a group.
  struct Noted {
    int rank = -1;
    EnteredCall note;
  };

  void on(int rank, Beat message, TimePoint now);
  void on(int rank, Goodbye message, TimePoint now);
  void on(int rank, News message, TimePoint now);
  void on(int rank, AbortGroup message, TimePoint now);
  void on(int rank, DumpNow message, TimePoint now);
  void on(int rank, Question message, TimePoint now);
  void on(int rank, Answer message, TimePoint now);
  void on(int rank, EnteredCall message, TimePoint now);
  void on(int rank, ShrinkCall message, TimePoint now);
  void on(int rank, ShrinkVerdict message, TimePoint now);
  void on(int rank, Moved message, TimePoint now);
  void on(int rank, CallQuestion message, TimePoint now);
  void on(int rank, CallAnswer message, TimePoint now);
  void on(int rank, Flush message, TimePoint now);
  template <class AnyQuestion>
  void pass_question(int rank, AnyQuestion message);
  template <class AnyAnswer>
  void pass_answer(int rank, AnyAnswer message);

  bool is_rank(int rank) const { return rank >= 0 && rank < static_cast<int>(seats_.size()); }
  Seat& seat(int rank) { return seats_[static_cast<std::size_t>(rank)]; }
  static void note_marks(Seat& seat, const std::vector<GroupMark>& marks);
  PeerNews news_of(int rank) const;
  /// Says it to all if it is more than what was known.
  void learn(int rank, PeerState state, const std::string& detail);
  void send_to_others(int rank, const Message& message);
  void withdraw(int rank, const ShrinkCall& message);
  void make_void(std::uint64_t uid, std::uint64_t new_uid);
  void settle_shrinking();
  void answer_flushes();
  /// None of those that it names has gone since.
  bool holds(const ShrinkVerdict& verdict) const;
  bool is_settled(const Shrinking& shrinking) const;

  std::vector<Seat> seats_;
  CoordinatorOptions options_;
  Send send_;
  TimePoint first_join_{};
  bool anybody_came_ = false;
  bool deserted_ = false;
  RecentMap<std::uint64_t, AbortGroup> aborted_{most_remembered};
  std::map<std::uint64_t, Shrinking> shrinking_;
  RecentMap<std::uint64_t, ShrinkVerdict> verdicts_{most_remembered};
  RecentMap<std::uint64_t, std::monostate> void_{most_remembered};  ///< verdicts, by the new group
  std::uint64_t settled_ = 0;
  std::vector<std::pair<int, Flush>> flushes_;                ///< that wait, and whose
  using NotedCall = std::pair<std::uint64_t, std::uint64_t>;  ///< group and sequence number
  std::map<NotedCall, Noted> notes_;
  std::deque<NotedCall> noted_;  ///< the oldest first
};

/// So many ranks of a job may run the coordinator, one after the other.
inline constexpr std::size_t most_coordinators = std::size_t{1} << 15;

/// Groups that their members make alone have numbers from here on, so many in all; each rank, which
/// draws them for the groups that it leads, has its share.
inline constexpr std::uint64_t first_local_uid = std::uint64_t{1} << 47;
inline constexpr std::uint64_t local_uids = std::uint64_t{1} << 47;
constexpr std::uint64_t local_uids_of_rank(int ranks) {
  return local_uids / static_cast<std::uint64_t>(ranks);
}
constexpr std::uint64_t first_local_uid_of(int rank, int ranks) {
  return first_local_uid + static_cast<std::uint64_t>(rank) * local_uids_of_rank(ranks);
}
/// What a rank never draws: instead of a number that it is still to draw.
constexpr std::uint64_t undrawn_uid(int rank, int ranks) {
  return first_local_uid_of(rank + 1, ranks) - 1;
}
constexpr bool is_local(std::uint64_t uid) {
  return uid >= first_local_uid && uid < first_local_uid + local_uids;
}
constexpr bool is_undrawn(std::uint64_t uid, int ranks) {
  return is_local(uid) && (uid - first_local_uid + 1) % local_uids_of_rank(ranks) == 0;
}

/// Groups that survivors make have numbers from here on, above all that are counted; each
/// coordinator has so many of its own. A float64, as which JSON's readers take numbers, holds them
/// all.
inline constexpr std::uint64_t first_shrunk_uid = std::uint64_t{1} << 48;
inline constexpr std::uint64_t shrunk_uids_of_coordinator = std::uint64_t{1} << 36;
/// Those of ranks that are left alone, behind those of all coordinators; each has so many of its
/// own: the groups of several such ranks are not the same.
inline constexpr std::uint64_t first_lone_uid =
    first_shrunk_uid + most_coordinators * shrunk_uids_of_coordinator;
inline constexpr std::uint64_t lone_uids_of_rank = shrunk_uids_of_coordinator;
static_assert(first_local_uid + local_uids == first_shrunk_uid);
static_assert(first_lone_uid < std::uint64_t{1} << 52);

/// What members call instead of the group's own number when they say that they have made it.
constexpr std::uint64_t confirmation_of(std::uint64_t uid) { return uid | std::uint64_t{1} << 63; }

}  // namespace hymn::control
