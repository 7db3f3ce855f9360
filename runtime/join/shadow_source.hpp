// What a rank that has run out of input knows of the other members of a group, and from where.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "control/agent.hpp"
#include "recorder/call_snapshot.hpp"
#include "recorder/recorder_view.hpp"

namespace hymn::detail {

/// Another member, as far as it has been seen.
class ShadowedMember {
 public:
  explicit ShadowedMember(int rank) : rank_(rank) {}
  int rank() const { return rank_; }
  /// How many collectives it had entered when it ran out for the n-th time; nothing: it has not.
  std::optional<std::uint64_t> joined_at(std::uint64_t n) const {
    return joins_ >= n ? std::optional(joined_at_) : std::nullopt;
  }
  /// Whether this collective of the n-th round was, or will be, made by the member itself, and not
  /// in the shadow of others.
  bool makes(std::uint64_t sequence, std::uint64_t n) const {
    const auto end = joined_at(n);
    return !end || *end >= sequence;
  }
  /// What has been seen of that collective; null: nothing yet.
  const SeenCall* find(std::uint64_t sequence) const;
  /// It was made, but can be read no more.
  bool has_lost(std::uint64_t sequence) const { return lost_ == sequence; }
  /// It keeps no records.
  bool is_silent() const { return is_silent_; }
  /// A look at its calls from `sequence` on. True when it tells anything new.
  bool learn(const CallSnapshot& snapshot, std::uint64_t sequence);

 private:
  int rank_;
  bool is_silent_ = false;
  std::uint64_t joins_ = 0;
  std::uint64_t joined_at_ = 0;
  std::uint64_t lost_ = 0;        // 0: none
  std::deque<SeenCall> calls_{};  // without gaps
};

/// Whose records of a collective a shadow must know to make it.
enum class Wanted : std::uint8_t {
  any,  ///< of one who makes it
  all,  ///< of all who do: each knows only what it gives to, and gets from, this rank
};

/// From where some members can be seen. Used by one thread.
class ShadowSource {
 public:
  ShadowSource() = default;
  ShadowSource(const ShadowSource&) = delete;
  ShadowSource& operator=(const ShadowSource&) = delete;
  virtual ~ShadowSource() = default;

  std::span<const ShadowedMember> members() const { return members_; }
  /// Looks again, for this collective of the n-th round, and does not wait. What a member shows
  /// comes in order: whether it has run out is looked for after what it has called.
  virtual void look(std::uint64_t sequence, std::uint64_t n, Wanted wanted) = 0;
  /// The same of all members, and waits for what they show, for a moment at most.
  virtual void look_at_all(std::uint64_t sequence, std::uint64_t n) = 0;

 protected:
  std::vector<ShadowedMember> members_;
};

/// Those whose recorders this rank can read.
class ReadableMembers final : public ShadowSource {
 public:
  explicit ReadableMembers(std::uint64_t uid) : uid_(uid) {}
  void add(int rank, const RecorderView& view);
  void look(std::uint64_t sequence, std::uint64_t n, Wanted wanted) override;
  void look_at_all(std::uint64_t sequence, std::uint64_t n) override {
    look(sequence, n, Wanted::all);
  }

 private:
  struct MemberRecorder {
    RecorderView view;
    const GroupLine* line = nullptr;  // once it has been there
  };
  std::uint64_t uid_;
  std::vector<MemberRecorder> recorders_;  // of members_
};

/// Those that must be asked, by way of the control plane: on other hosts.
class AskedMembers final : public ShadowSource {
 public:
  /// `agent` may be null where no member is added.
  AskedMembers(control::Agent* agent, const Clock& clock, std::uint64_t uid)
      : agent_(agent), clock_(clock), uid_(uid), last_news_(clock.now()) {}
  ~AskedMembers() override;
  void add(int rank) { members_.emplace_back(rank); }
  /// One that still has input makes all collectives of the group: so only one such is asked, and
  /// all again when it has run out, or all are wanted.
  void look(std::uint64_t sequence, std::uint64_t n, Wanted wanted) override;
  void look_at_all(std::uint64_t sequence, std::uint64_t n) override;

 private:
  void collect();
  bool is_waiting();
  /// Who is asked next.
  std::vector<int> choose(std::uint64_t sequence, std::uint64_t n, Wanted wanted);
  void ask(std::uint64_t sequence, const std::vector<int>& ranks);

  control::Agent* agent_;
  const Clock& clock_;
  std::uint64_t uid_;
  std::optional<std::uint64_t> question_;
  std::uint64_t asked_for_ = 0;
  int followed_ = -1;
  std::set<int> waited_for_;
  TimePoint asked_at_{};
  TimePoint next_time_{};
  TimePoint last_news_;
};

}  // namespace hymn::detail
