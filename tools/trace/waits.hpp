// Who waits for whom: every operation that somebody has entered and not left, and who is not in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/trace/job.hpp"

namespace hymn::trace {

struct Waiter {
  int rank = -1;
  const Entry* entry = nullptr;  ///< none: the ring no longer holds it, or there are no entries
  double seconds = 0;            ///< how long, by this rank's own clock; 0: not known
  bool blocks = true;            ///< a thread waits in it; else the rank may do something else
  bool tests = false;            ///< it tests the operation again and again
};

/// A collective, a send or receive without its partner, or what ranks do together beside these.
struct Wait {
  const Group* group = nullptr;  ///< none: a group that is just being made, or the end of the world
  const MakingReport* making = nullptr;  ///< none: it is an operation
  bool is_p2p = false;
  std::int64_t sequence = 0;
  std::string op;
  std::string name;             ///< "all_reduce #412"
  std::vector<Waiter> waiters;  ///< by rank
  std::vector<int> missing;     ///< whom they wait for, as far as the dumps prove it
  std::vector<int> unknown;     ///< members of whom nothing tells whether they have entered
  double longest = 0;           ///< seconds
  bool is_overtaken = false;    ///< somebody in it has gone on: it was started without blocking
  bool is_ending = false;       ///< others have just left it: the dumps came in between
  bool is_numbered = true;      ///< not a group whose number is still to be drawn
  bool is_fault = false;        ///< too long, or failed, to be a job on its way

  std::vector<int> ranks() const;    ///< of the waiters
  std::vector<int> blocked() const;  ///< those of them that wait in it
  /// "all_reduce #412 of group 'dp#1'", "new_group of ranks 0-2 (group 1)", "the end of the world"
  std::string what() const;
  CallSite site() const;     ///< of the first waiter that has one
  bool has(int rank) const;  ///< among the waiters
};

/// What the rank was making when its dump was made, or had just given up. None: nothing.
const MakingReport* making_of(const Dump& dump);
/// "group 3 of ranks 0-2"; "a group of ranks 0-2 with tag 'x'": its members make it alone, and its
/// number is still to be drawn.
std::string new_group_text(const Job& job, const MakingReport& making);
/// Whether the rank does not wait in this operation, but tests it again and again.
bool is_tested(const Dump& dump, const Entry& entry);

/// By the group's uid and the sequence, collectives first, and what is no operation last.
std::vector<Wait> find_waits(const Job& job);

/// Indices in `waits` of those that may keep a rank, for each rank of the job. Operations that no
/// thread waits in keep nobody; nor do those that lack nobody and were started without blocking:
/// they are moved on by later calls.
std::vector<std::vector<std::size_t>> waits_of_ranks(const Job& job,
                                                     const std::vector<Wait>& waits);

/// Waiting for less is nothing out of the ordinary.
constexpr double short_wait_seconds = 1.0;

}  // namespace hymn::trace
