// A call that is prepared once and made many times.
#pragma once

#include "hymn/standard.hpp"  // first

#include "hymn/export.hpp"
#include "hymn/standard_parts.hpp"
#include "hymn/work.hpp"

namespace hymn {

namespace detail {
class PreparedState;
}

/// As MPI_Allreduce_init or MPI_Send_init: a collective, send or receive whose arguments have been
/// checked and whose path has been chosen (ProcessGroup::prepare). Each run(), and each start(), is
/// one call of its group like any other: it counts, is recorded, and has its place in the order of
/// the collectives; other ranks may make the same call without having prepared it.
///
/// A shared handle, which keeps its group alive; but the group may end or be given up, and then its
/// calls throw as the plain ones do. It keeps lists and counts, but never the data: the buffers
/// must be there whenever it runs. As thread-safe as the group.
class HYMN_API PreparedCall {
 public:
  PreparedCall() = default;
  explicit PreparedCall(std::shared_ptr<const detail::PreparedState> state)
      : state_(std::move(state)) {}

  bool valid() const noexcept { return state_ != nullptr; }
  /// Makes the call, and returns when it is complete; on a stream, when it is enqueued. Throws as
  /// the plain call, and UsageError for an empty handle.
  RecvStatus run() const;
  /// Starts it. It may be started again before the last one has completed where the buffers allow
  /// that.
  Work start() const;

 private:
  std::shared_ptr<const detail::PreparedState> state_;
};

}  // namespace hymn
