// Which failure this rank has seen first, and whether it has gone on since.
#pragma once

#include <mutex>

#include "recorder/recorder_memory.hpp"
#include "runtime/rank/group_failure.hpp"

namespace hymn::detail {

/// Thread-safe.
class WorldFailures {
 public:
  explicit WorldFailures(const RecorderMemory& recorder) : recorder_(recorder) {}

  /// The first one that is somebody's is told to others when this rank leaves because of it; but
  /// who has made a call since that has completed has gone on.
  void note(const GroupFailure& failure);
  /// Of a send or receive that went wrong and has left nothing behind.
  void note_message(const GroupFailure& failure);
  /// The first that concerned a group, or else that of a message, if this rank has not gone on.
  /// Where no calls are recorded nobody knows that: then there is none.
  GroupFailure seen() const;
  /// Why this rank leaves, when it does by an error: the same, but where no calls are recorded it
  /// is taken not to have gone on.
  GroupFailure cause() const;
  /// The application goes on with those who are left.
  void forget();

 private:
  struct Seen {
    GroupFailure failure;
    std::uint64_t calls = 0;  ///< of this rank, until then
  };
  bool has_gone_on_after(const Seen& seen) const;
  Seen seen_now(const GroupFailure& failure) const;

  const RecorderMemory& recorder_;
  mutable std::mutex mutex_;  // guards what follows
  Seen first_failure_;
  Seen failed_message_;
};

}  // namespace hymn::detail
