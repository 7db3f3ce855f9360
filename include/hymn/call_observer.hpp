// Sees the calls that a thread makes of its groups: for tools that capture or check programs.
#pragma once

#include "hymn/standard.hpp"  // first

#include <span>

#include "hymn/export.hpp"
#include "hymn/process_group.hpp"
#include "hymn/request.hpp"

namespace hymn {

/// One call of a group of which this rank is a member. What it points to stays while it is told.
struct ObservedCall {
  const Membership& group;
  int rank;                           ///< this one, global
  std::span<const Request> requests;  ///< more than one: a batch, or calls that are coalesced
  /// Tells it apart until it has been waited for; null: it has ended, as blocking calls have.
  const void* work;
};

/// From its making to its end it sees each call that its thread makes; one at a time on a thread.
/// It is made and ends there. What it throws comes out of the call.
class HYMN_API CallObserver {
 public:
  /// UsageError where the thread has one.
  CallObserver();
  CallObserver(const CallObserver&) = delete;
  CallObserver& operator=(const CallObserver&) = delete;
  virtual ~CallObserver();

  /// After it has started, or ended where it blocks; not when it has thrown. Calls in a coalescing
  /// scope are told at its end, as one.
  virtual void called(const ObservedCall& call) = 0;
  /// A wait for that work has returned, or a test has found that it has ended; perhaps again.
  virtual void waited(const void* work) = 0;
};

}  // namespace hymn
