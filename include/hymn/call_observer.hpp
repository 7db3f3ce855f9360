// Sees the calls that a thread makes of its groups: for tools that capture or check programs.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstdint>
#include <span>

#include "hymn/export.hpp"
#include "hymn/process_group.hpp"
#include "hymn/request.hpp"

namespace hymn {

/// One call of a group of which this rank is a member. What it points to stays while it is told.
struct ObservedCall {
  const Membership& group;
  int rank;  ///< this one, global
  /// One; those of a batch, perhaps none, or several that are coalesced.
  std::span<const Request> requests;
  /// Of calls that return while they are in flight: tells it apart, in waits(). 0: it blocks.
  std::uint64_t work;
};

/// From its making to its end it sees each call that its thread makes, those of functional
/// collectives, too; one at a time on a thread. It is made and ends there.
class HYMN_API CallObserver {
 public:
  /// UsageError where the thread has one.
  CallObserver();
  CallObserver(const CallObserver&) = delete;
  CallObserver& operator=(const CallObserver&) = delete;
  virtual ~CallObserver();

  /// It has been found right, and is about to start. What this throws comes out of the call, which
  /// then does nothing. Calls in a coalescing scope are told at its end, as one.
  virtual void called(const ObservedCall& call) = 0;
  /// The thread is about to wait for that call, which may have ended, or have been waited for
  /// before. Tests, looks at futures that are ready, and waits for any of several are not told.
  virtual void waits(std::uint64_t work) = 0;
};

}  // namespace hymn
