// All dumps of one job, and what can be looked up in them together.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/dump.hpp"

namespace hymn::trace {

/// A rank in a group, as its own dump shows it.
struct Member {
  int rank = -1;
  const Dump* dump = nullptr;             ///< none: there is no dump of the rank
  const GroupConfig* config = nullptr;    ///< none: the rank did not know the group
  std::vector<const Entry*> collectives;  ///< that the ring still holds, by sequence
  std::int64_t entered = 0;               ///< sequence of the last collective that it has entered
  std::optional<std::int64_t> completed;  ///< all collectives up to this one have completed on it
  bool outdated = false;  ///< others prove that it entered more than its dump, made earlier, knows

  /// None: not in the ring.
  const Entry* find(std::int64_t sequence) const;
  bool knows_group() const { return config != nullptr || !collectives.empty(); }
};

struct Group {
  std::string uid;
  std::string label;
  bool members_known = false;   ///< else they are those that have shown themselves
  std::vector<Member> members;  ///< by rank
  std::string aborted;          ///< why it was given up, as the first member says

  const Member* member(int rank) const;
  Member* member(int rank);
};

/// What is known of a rank from the others.
struct Fate {
  enum class Kind : std::uint8_t { alive, left, stalled, lost, dead };
  Kind kind = Kind::alive;
  std::string detail;
  std::string host;
  std::int64_t pid = 0;
};

/// Does not change once made. `dumps` are of one job, and one for a rank.
class Job {
 public:
  explicit Job(std::vector<Dump> dumps);
  Job(Job&&) = default;
  Job& operator=(Job&&) = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int world_size() const { return world_size_; }
  const std::vector<Dump>& dumps() const { return dumps_; }  ///< by rank
  const Dump* dump(int rank) const;
  /// By uid.
  const std::vector<Group>& groups() const { return groups_; }
  const Group* group(const std::string& uid) const;
  /// "dp#1", or the uid where nobody tells.
  std::string label(const std::string& uid) const;
  const Fate& fate(int rank) const;
  /// Ranks that others have reported as something else than alive, or that others wrote for.
  const std::map<int, Fate>& fates() const { return fates_; }
  /// Whether a dump was made because something was wrong, or a group was given up.
  bool in_trouble() const { return in_trouble_; }

 private:
  void collect_fates();
  void collect_groups();
  void add_members();
  void add_entries();

  std::vector<Dump> dumps_;
  std::vector<Group> groups_;
  std::map<std::string, std::size_t> group_of_uid_;
  std::map<int, Fate> fates_;
  int world_size_ = 0;
  bool in_trouble_ = false;
};

/// Whether an operation is known to wait for all members, so that its completion on one of them
/// proves that all have entered it.
bool waits_for_all(const std::string& op);

}  // namespace hymn::trace
