// What ranks know of each other: who is there, who has left, who has failed, and how far each had
// come.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hymn {

/// Ordered: of two things that are said of a rank the greater one stays, but for alive and stalled,
/// between which it may change for ever.
enum class PeerState : std::uint8_t {
  alive,
  stalled,  ///< its process gives no sign of life, or has been stopped; it may come back
  left,     ///< it has ended its world, and said so: no failure
  lost,     ///< it cannot be reached any more
  dead,     ///< its process has ended without saying goodbye
};

std::string_view to_string(PeerState state) noexcept;

/// It takes part in nothing any more.
constexpr bool is_gone(PeerState state) { return state >= PeerState::left; }
/// It is gone without having said goodbye.
constexpr bool has_failed(PeerState state) { return state >= PeerState::lost; }

/// How far a rank has come with the collectives of one group.
struct GroupMark {
  std::uint64_t uid = 0;
  std::uint64_t entered = 0;    ///< collectives it has called
  std::uint64_t completed = 0;  ///< the highest n such that 1 … n have completed there
  friend bool operator==(const GroupMark&, const GroupMark&) = default;
};

/// What several have told of one rank. False: `known` told it all.
bool add_marks(std::vector<GroupMark>& known, std::span<const GroupMark> more);

struct PeerNews {
  int rank = -1;
  PeerState state = PeerState::alive;
  std::string detail{};            ///< "its process has ended", "no sign of life for 3 s"
  std::vector<GroupMark> marks{};  ///< where it was, as far as that is known
  std::vector<int> culprits{};     ///< it has left because these (itself, too) had failed
  bool broke_off = false;          ///< it has left in the middle of what it did
  friend bool operator==(const PeerNews&, const PeerNews&) = default;
};

/// Those who are to blame that these are missing: of one that has left because others had failed,
/// these.
std::vector<int> culprits_of(const std::vector<PeerNews>& missing);

/// What is asked of ranks that are waited for in a group.
struct Inquiry {
  Inquiry(std::uint64_t group = 0,
          std::uint64_t number = 0)  // NOLINT: mostly only the group counts
      : uid(group), sequence(number) {}
  std::uint64_t uid = 0;
  std::uint64_t sequence = 0;  ///< of the collective that is waited in; 0: it is none
  bool sites = false;          ///< also where in the program: they take time to be found
  friend bool operator==(const Inquiry&, const Inquiry&) = default;
};

/// The call that a rank waits in, and for whom.
struct OwnWait {
  std::uint64_t uid = 0;       ///< of its group
  std::uint64_t sequence = 0;  ///< of the collective; 0: it is a message
  /// As pack_ranks(): the other side of a message, the members of a collective's group. Empty: it
  /// waits in no call, or nothing tells for whom.
  std::string ranks{};
  std::uint64_t milliseconds = 0;  ///< since it began to wait
  std::uint64_t ended = 0;         ///< milliseconds since it gave up waiting; 0: it has not
  bool any = false;                ///< each of `ranks` alone could end it: recv from any source
  bool makes = false;              ///< it is making the group, and waits for its other members
  /// It does not wait, but tests the call again and again, and may do something else at any time.
  bool tests = false;
  friend bool operator==(const OwnWait&, const OwnWait&) = default;
};

/// What a rank tells of itself to one who waits for it in a group.
struct ProgressReport {
  int rank = -1;
  PeerState state = PeerState::alive;
  bool knows_group = false;     ///< it has made the group, and not ended it
  bool makes = false;           ///< it is making it just now
  std::uint64_t entered = 0;    ///< collectives of the group
  std::uint64_t completed = 0;  ///< of these
  bool shrinks = false;         ///< it has called shrink() of the group, which has come to no end
  std::string doing{};          ///< in words: what it is doing now, or has done last
  std::string remark{};         ///< in words: whose failure it has seen; `doing` ends with it
  bool waits = false;           ///< a thread of it waits in what was asked for
  bool undriven = false;        ///< it has started what was asked for, and does not progress it
  std::string call{};           ///< in words: the collective that was asked for; empty: not known
  std::string site{};           ///< where it was called; empty: not known, or not asked for
  std::uint64_t signature = 0;  ///< of that call; 0: not known
  OwnWait awaited{};            ///< for whom it waits itself
  /// It has told this itself, just now. Not sent.
  bool answered = false;
  /// Its process is stopped, as can be seen from here. Not sent.
  bool stopped = false;
  /// It could not answer: who passes questions on does not answer either. Not sent.
  bool cut_off = false;
  friend bool operator==(const ProgressReport&, const ProgressReport&) = default;
};

/// What a rank tells of its collectives of one group to one who follows them.
struct CallProgress {
  int rank = -1;
  bool knows_group = false;     ///< it has made the group, and not ended it
  bool is_recorded = false;     ///< it keeps records of its calls
  bool is_overwritten = false;  ///< the record of the first one asked for is gone
  std::uint64_t joins = 0;      ///< how often it has run out of input
  std::uint64_t joined_at = 0;  ///< collectives that it had entered the last time
  /// The calls, packed by who has recorded them; the control plane does not look into them.
  std::vector<std::uint64_t> calls{};
  friend bool operator==(const CallProgress&, const CallProgress&) = default;
};

}  // namespace hymn
