// What a verdict has found.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hymn::trace {

/// The most severe first.
enum class FindingKind : std::uint8_t {
  death,
  cycle,
  order,
  mismatch,
  missing,
  making,
  p2p,
  stuck,
  chain,
  slow,
};

std::string_view to_string(FindingKind kind);

/// Ranks that made the same call at the same place.
struct Side {
  std::vector<int> ranks;
  std::string call;  ///< "broadcast of 1024 float32 from root 0"
  std::string site;  ///< "solver.cpp:88"; "" not known
};

struct Finding {
  FindingKind kind = FindingKind::missing;
  bool is_fault = true;              ///< else it is told for information
  std::string title;                 ///< one line, without a full stop
  std::vector<std::string> details;  ///< further lines
  std::string advice;                ///< what to look at next; may be empty
  std::string group_uid;             ///< "": of no group
  std::string group_label;
  std::string op;
  std::int64_t sequence = 0;  ///< of the operation in its group; 0: none
  bool is_p2p = false;
  std::vector<int> culprits;
  std::vector<int> waiting;
  double waited_seconds = 0;  ///< the longest
  std::vector<Side> sides;
  bool is_consequence = false;  ///< its culprits themselves wait for somebody
  bool is_aftermath = false;    ///< its culprits have gone because of another failure

  bool is_about(const Finding& other) const {
    return group_uid == other.group_uid && sequence == other.sequence && is_p2p == other.is_p2p &&
           (!is_p2p || waiting == other.waiting);
  }
};

}  // namespace hymn::trace
