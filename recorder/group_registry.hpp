// The groups of a world as a dump describes them: who belongs to each, also after its end.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "control/peer_news.hpp"
#include "hymn/process_group.hpp"
#include "recorder/recorder_view.hpp"

namespace hymn {

struct KnownGroup {
  Membership membership;
  std::string label;         ///< as messages name it
  std::string description;   ///< uncut
  std::string abort_reason;  ///< empty: it was not aborted
  GroupLineSeen line;        ///< as it is now, or was at the end
};

/// Thread-safe; its lock is held for copying alone, never while anything else is waited for.
class GroupRegistry {
 public:
  /// So many groups are remembered after their end; beyond it the oldest are forgotten.
  static constexpr std::size_t remembered = 1000;

  /// `line` lives until ended().
  void add(const Membership& membership, std::string label, std::string description,
           const GroupLine& line);
  void set_aborted(std::uint64_t uid, const std::string& reason);
  void ended(std::uint64_t uid);
  /// By uid.
  std::vector<KnownGroup> all() const;
  /// How messages name it.
  std::string label(std::uint64_t uid) const;
  /// How far this rank is with each.
  std::vector<GroupMark> marks() const;
  /// The same of one; empty: it is not known here.
  std::optional<GroupMark> mark(std::uint64_t uid) const;

 private:
  struct Entry {
    KnownGroup known;
    const GroupLine* line = nullptr;  // null: it has ended
  };
  static GroupMark mark_of(std::uint64_t uid, const Entry& entry);

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Entry> groups_;
  std::deque<std::uint64_t> ended_;  // the oldest first
};

}  // namespace hymn
