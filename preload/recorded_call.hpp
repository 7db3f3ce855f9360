// What is recorded of one call, from its begin to its end: what all kinds of calls have in common.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "preload/session.hpp"
#include "recorder/call_record.hpp"

namespace hymn::preload {

/// The facts of a call are told as in calls.inc, which is not done where nothing is watched. Then
/// it is started, and ended.
class RecordedCall {
 public:
  RecordedCall(Session& session, Call call, const void* site)
      : session_(session), watch_(session.watch()), call_(call), site_(site) {}
  RecordedCall(const RecordedCall&) = delete;
  RecordedCall& operator=(const RecordedCall&) = delete;

  bool is_on() const { return watch_ != nullptr; }

 protected:
  /// Null: nothing is recorded of that communicator.
  Communicator* find(MPI_Comm comm);
  std::size_t bytes_of(int count, MPI_Datatype type);
  /// Records what has just begun on a group.
  std::uint64_t begin(CallRecord& call, const WatchedGroup& group, bool is_waited_for);
  /// Counts one more; nobody else does meanwhile where threads call one at a time.
  std::uint64_t next(std::atomic<std::uint64_t>& count) const;
  /// It is in flight, and a request ends it. `group`: of a collective.
  bool leaves_open(const MPI_Request* request, int code, std::uint64_t record,
                   const std::shared_ptr<WatchedGroup>& group);
  void end_open(const Requests::Open& open, CallState state);
  /// Of a call that may wait for other ranks in a way of its own; else nothing.
  void begin_outer();
  void end_outer();

  Session& session_;
  Watch* const watch_;
  const Call call_;
  const void* const site_;
  bool is_outer_ = false;  ///< it waits in a way of its own
};

// As much of a record is made inside of what is called for each call as is needed for the compiler
// to see that nothing reads the record itself: then it is never put into memory, and read from
// there before it is.

HYMN_INLINE CallSide side_of_mpi(std::size_t bytes, SideForm form, bool is_uneven, int ranks) {
  if (form == SideForm::none) return {};
  return {.count = form == SideForm::blocks ? bytes * static_cast<std::size_t>(ranks) : bytes,
          .buffers = 1,
          .dtype = DataType::uint8,
          .layout = form == SideForm::whole ? Layout::whole
                    : is_uneven             ? Layout::counted
                                            : Layout::equal};
}

HYMN_INLINE std::uint64_t RecordedCall::begin(CallRecord& call, const WatchedGroup& group,
                                              bool is_waited_for) {
  call.group_uid = group.uid;
  call.waited_for = is_waited_for;
  call.site = reinterpret_cast<std::uintptr_t>(site_);
  call.created = processor_stamp();
  return watch_->record().begin(call);
}

inline CallState state_of(int code) {
  return code == MPI_SUCCESS ? CallState::completed : CallState::failed;
}

}  // namespace hymn::preload
