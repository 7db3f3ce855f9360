// An operation: something in flight, as a small step machine.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "base/oversubscription.hpp"
#include "hymn/work.hpp"

namespace hymn {

/// What stays behind when an operation is given up before the mechanism has let go of its buffers.
class AbandonedOperation {
 public:
  AbandonedOperation() = default;
  AbandonedOperation(const AbandonedOperation&) = delete;
  AbandonedOperation& operator=(const AbandonedOperation&) = delete;
  virtual ~AbandonedOperation() = default;
  /// True once it may be destroyed. Never blocks.
  virtual bool done() = 0;
};

/// Driven by whoever waits: start() once, then step() until it returns true. No call blocks or
/// makes a thread. Calls never overlap, but may come from different threads.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  /// Whether it can be started. Asked again and again, until it is true, of requests on the memory
  /// of a GPU, which may have to do something first.
  virtual bool is_ready() { return true; }
  /// Whatever peers must see in the order of the calls happens here, not in step().
  virtual void start() = 0;
  /// True when it has completed. Throws when it has failed.
  virtual bool step() = 0;

  /// As step(), for a thread that has nothing else to do: where nothing can be done now it may
  /// sleep for up to that long, until a peer has done something.
  virtual bool park(long /*nanoseconds*/) { return step(); }
  /// Whether park() can sleep. Otherwise the caller must.
  virtual bool can_park() const { return false; }

  /// Where those are for whom it waits, as seen from its caller's core.
  virtual Awaited awaited() const { return Awaited::somewhere; }

  /// Whether peers wait for what step() sends: then it must be stepped before this thread blocks.
  /// May be asked by any thread.
  virtual bool peers_need_steps() const { return false; }

  /// After start(), of a request that is ordered by a stream: whether all of it is on the stream,
  /// so that what the caller enqueues next comes after it. Otherwise step() brings it there.
  virtual bool is_enqueued() const { return true; }
  /// Whether let_wait() exists: what is enqueued on `stream` from now on waits until this has
  /// completed, and the host does not. Asked of what is enqueued only.
  virtual bool can_let_wait() const { return false; }
  virtual void let_wait(void* /*stream*/) {}

  /// Whether run() exists: the whole operation as one blocking call, cheaper than start and step,
  /// but without deadline.
  virtual bool can_block() const { return false; }
  virtual void run() {}

  /// Gives up an operation that has not completed, and may not have been started; `reason` is told
  /// to peers where they can still be told. Returns what must be kept until it is done() (null:
  /// nothing). Afterwards only the destructor is called.
  virtual std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept = 0;

  /// After completion: what all members have found to be wrong alike, so that the call has come to
  /// nothing, and the group goes on. Null: it has gone well.
  virtual std::exception_ptr refusal() const { return nullptr; }

  /// After completion, for recv: source is a *group* rank.
  virtual RecvStatus status() const { return {}; }
};

}  // namespace hymn
