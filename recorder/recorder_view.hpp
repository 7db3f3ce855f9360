// Reads a recorder's memory, this process's own or that of a rank which may have died.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/private.hpp"
#include "control/peer_news.hpp"
#include "recorder/call_ring.hpp"
#include "recorder/recorder_layout.hpp"

namespace hymn {

/// A group as its line shows it.
struct GroupLineSeen {
  std::uint64_t uid = 0;
  std::string description;
  std::uint64_t collectives = 0;
  std::uint64_t completed = 0;
  std::uint64_t met = 0;  ///< the last collective before which it has come to meet the others
  std::uint64_t p2ps = 0;
  std::int64_t timeout_ns = 0;
  std::uint32_t members = 0;
  std::optional<std::vector<int>> ranks{};  ///< of the members, where they are known
  bool aborted = false;
  bool ended = false;
  bool shrunk = false;  ///< it has called shrink() of it
  /// It has run out of input, and follows the others since it had entered so many collectives.
  std::optional<std::uint64_t> shadows_since{};
  /// Until this collective it is not missing.
  std::uint64_t come_to() const { return std::max(collectives, met); }
  /// It meets the others before a collective that it has not entered yet.
  bool is_meeting() const { return met > collectives && !aborted && !ended; }
};

GroupLineSeen read_line(const GroupLine& line);

/// Nothing here writes, waits or takes a lock. Nothing in the memory is trusted but its size.
class RecorderView {
 public:
  /// Throws ResourceError when this is no recorder's memory, or another version's.
  HYMN_PRIVATE explicit RecorderView(std::span<const std::byte> memory);

  const RecorderHeader& header() const { return *header_; }
  const CallRing& ring() const { return ring_; }
  std::size_t capacity() const { return ring_.entries(); }
  /// The groups that have a line now; a group that has ended may still have its.
  std::vector<GroupLineSeen> groups() const;
  /// How far the rank has come with these.
  std::vector<GroupMark> marks() const;
  /// The line of this group; null: it has none now. Later it may become that of another group.
  const GroupLine* line_of(std::uint64_t uid) const;
  /// The ranks in this group, as pack_ranks(); empty: they are not known.
  std::string members_of(std::uint64_t uid) const;
  /// A group that is being made or shrunk, or the end of the world; or what of that was given up.
  struct Making {
    MakingKind kind = MakingKind::new_group;
    std::uint64_t uid = 0;
    std::string ranks;  ///< as pack_ranks(); empty: they are not known
    std::uint64_t since = 0;
    std::uint64_t given_up = 0;  ///< 0: it was not
    std::string tag;             ///< of a new group, as shown_tag(); empty: none
  };
  HYMN_PRIVATE std::optional<Making> making() const;
  /// When this rank has given up making that group, if it was the last one; as a stamp.
  std::optional<std::uint64_t> gave_up_making(std::uint64_t uid) const;
  struct Method {
    std::string path;
    std::string name;
  };
  /// Empty texts for a number that has no name.
  Method method(std::uint16_t number) const;

 private:
  const RecorderHeader* header_;
  CallRing ring_;
};

}  // namespace hymn
