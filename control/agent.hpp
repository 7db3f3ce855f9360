// A rank's own side of the control plane: what it knows of the others, and what it asks of them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <variant>

#include "base/patience.hpp"
#include "base/recent_map.hpp"
#include "control/coordinator.hpp"
#include "control/message.hpp"
#include "hymn/timeout.hpp"

namespace hymn::control {

/// What a world does about what its agent hears. Called by the thread that carries the messages,
/// and by callers of Agent::sight(); must not wait for answers of the control plane.
class Listener {
 public:
  virtual ~Listener() = default;
  /// A rank has come to be in another state.
  virtual void peer_changed(const PeerNews& news) = 0;
  virtual void group_aborted(const AbortGroup& message) = 0;
  virtual void dump_asked(const DumpNow& message) = 0;
  /// Where this rank is with this group.
  virtual ProgressReport tell(const Inquiry& about) = 0;
  /// What this rank has called in this group, from this collective on.
  virtual CallProgress tell_calls(std::uint64_t uid, std::uint64_t sequence) = 0;
  /// How far this rank is with all its groups, those that have ended too.
  virtual std::vector<GroupMark> marks() = 0;
};

/// Who is there answers in microseconds; who has been stopped never does.
inline constexpr Duration longest_question = std::chrono::milliseconds(300);

/// Thread-safe.
class Agent {
 public:
  using Send = std::function<void(const Message& message)>;
  /// `send` takes a message to the coordinator, or forgets it where there is none. It never blocks.
  Agent(int rank, int size, Listener& listener, Send send);

  int rank() const { return rank_; }
  /// Of these ranks nobody else knows more than this one, who sees their processes: the coordinator
  /// is not believed when it says that they are lost.
  void set_in_sight(std::set<int> ranks);

  // --- For the world

  void post(const Message& message);
  /// This rank has seen itself what has become of another.
  void sight(const PeerNews& news);
  PeerNews news_of(int rank) const;
  /// All that are not simply alive.
  std::vector<PeerNews> all_news() const;
  /// Asks those ranks where they are in the group; waits for at most `limit`, and not for who is
  /// gone. One report for each, in the same order; of those who have not answered it holds what is
  /// known without them. Who runs the coordinator is asked, too: without it no answer could come.
  std::vector<ProgressReport> ask(const Inquiry& about, std::span<const int> ranks, Duration limit);
  /// The same in two parts, the second of which takes what has come until then. Of this rank itself
  /// it tells nothing.
  std::uint64_t begin_asking(const Inquiry& about, std::span<const int> ranks);
  bool is_answered(std::uint64_t question) const;
  std::vector<ProgressReport> end_asking(std::uint64_t question);
  /// Asks those ranks for their collectives of the group from `sequence` on, and does not wait. The
  /// number of the question; it is kept until forget_calls().
  std::uint64_t ask_for_calls(std::uint64_t uid, std::uint64_t sequence,
                              std::span<const int> ranks);
  /// What has been answered since this was called last.
  std::vector<CallProgress> take_calls(std::uint64_t question);
  void forget_calls(std::uint64_t question);
  /// Waits for all members that are not gone to call this, too. Null when the patience ends, or no
  /// coordinator is left to settle it; what the patience throws is thrown. Called again it waits
  /// for all again.
  std::optional<ShrinkVerdict> shrink(std::uint64_t uid, std::span<const int> members,
                                      const Patience& patience);
  /// As shrink(), when a group has been made of what that gave, by each who has made it: all hear
  /// the same of who has. Null when it has been given up, too. Once for each group; that the same
  /// group is shrunk later is another matter.
  std::optional<ShrinkVerdict> confirm(std::uint64_t uid, std::span<const int> members,
                                       const Patience& patience);
  /// It has called shrink(), and nothing has been settled since.
  bool is_shrinking(std::uint64_t uid) const;
  /// What gave that group up, as it was first said here; nothing: it was not.
  std::optional<AbortGroup> abort_of(std::uint64_t uid) const;
  /// What was settled is of no use here.
  void reject_verdict(const ShrinkVerdict& verdict);

  // --- For what carries the messages

  void receive(Message message);
  /// The listener is not called any more. Waits for calls of it that other threads are in.
  void close();
  /// The coordinator of the rank `keeper` was reached, perhaps another one than before: it is told
  /// what this rank knows.
  void reached_coordinator(int keeper);
  /// No coordinator can be reached, nor will be: who is lost does not come back.
  void lost_all_coordinators();
  bool has_no_coordinator() const;

 private:
  void on(const Beat&) {}
  void on(const Goodbye&) {}
  void on(const News& message);
  void on(const AbortGroup& message);
  void on(const DumpNow& message);
  void on(const Question& message);
  void on(const Answer& message);
  void on(const EnteredCall&) {}
  void on(const ShrinkCall&) {}
  void on(const ShrinkVerdict& message);
  void on(const Moved&) {}
  void on(const CallQuestion& message);
  void on(const CallAnswer& message);
  void on(const Flush&) {}
  template <class AnyAnswer>
  void answer(AnyAnswer answer);
  /// Waits until all members have called with this group; not any more once `is_vain`, which is
  /// asked under the lock.
  std::optional<ShrinkVerdict> settle(std::uint64_t uid, std::span<const int> members,
                                      const Patience& patience,
                                      const std::function<bool()>& is_vain);
  void call_to_settle(const ShrinkCall& call);
  void withdraw(std::uint64_t uid);
  /// Within `telling_`.
  void reject(const ShrinkVerdict& verdict);
  /// None of these, of whom this rank is one, is there any more but this rank. Under the lock.
  bool is_left_alone(std::span<const int> members) const;
  ShrinkVerdict settle_alone(std::uint64_t uid);
  /// True when it is news.
  bool learn(const PeerNews& news, bool own_eyes);

  /// Calls the listener, unless this is closed.
  template <class Call>
  void tell_listener(Call&& call);

  int rank_;
  // Shared by those who are in a call of the listener.
  std::shared_mutex listener_mutex_;
  Listener* listener_;
  Send send_;

  // What is said of shrinks is said in the order in which it became so, to a new coordinator, too:
  // what was rejected before a call does not come after it. Locked before mutex_; where ranks are
  // threads it is held while others hear what is said: a Listener must not come back to shrink().
  std::mutex telling_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<PeerNews> peers_;
  std::set<int> in_sight_;
  bool has_no_coordinator_ = false;  ///< for good
  int keeper_ = -1;                  ///< of the coordinator; -1: none was reached
  std::uint64_t next_question_ = 0;
  /// A question of this rank that is under way.
  struct Asking {
    Inquiry about;
    std::vector<int> ranks;  ///< of whom it wants to know
    std::vector<int> asked;  ///< of these and the rank that runs the coordinator, who is there
    int keeper = -1;         ///< among those that were asked; -1: not
    std::map<int, ProgressReport> answers{};
  };
  bool is_asked(int rank) const {
    return rank != rank_ && !is_gone(peers_.at(static_cast<std::size_t>(rank)).state);
  }
  bool is_complete(const Asking& asking) const;
  /// What is known of a rank that has not answered.
  ProgressReport report_without_answer(const Asking& asking, int rank) const;

  std::map<std::uint64_t, Asking> askings_;
  std::map<std::uint64_t, std::vector<CallProgress>> call_askings_;  ///< what was answered
  RecentMap<std::uint64_t, AbortGroup> aborted_{most_remembered};    ///< the first word of each
  std::optional<Goodbye> goodbye_;                                   ///< said by this rank
  std::map<std::uint64_t, std::vector<int>> shrinking_;  ///< called here, not yet settled
  /// The same, and those that are not waited for any more.
  RecentMap<std::uint64_t, std::monostate> unsettled_{most_remembered};
  RecentMap<std::uint64_t, ShrinkVerdict> verdicts_{most_remembered};
  /// The groups of verdicts that were rejected, by the new ones. Others may still have such a
  /// verdict, and tell the next coordinator of it.
  RecentMap<std::uint64_t, std::uint64_t> rejected_{most_remembered};
  std::atomic<std::uint64_t> settled_alone_{0};
};

}  // namespace hymn::control
