// Several calls as one.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <span>
#include <utility>

#include "hymn/export.hpp"
#include "hymn/process_group.hpp"

namespace hymn {

namespace detail {
class CapturedCalls;
}

/// Calls that this thread makes on the group while the scope lives are not carried out: they are
/// kept, with copies of their lists and counts, until start() makes one operation of them. It has
/// one Work, one number and one record. Without start() nothing is sent, and nothing has been: so a
/// scope that an exception ends leaves the group as it was.
///
/// Inside, calls return at once: blocking ones without their result, a receive without its status,
/// asynchronous ones an empty Work, which cannot be waited for. Collectives of one kind, dtype,
/// reduction and root may be in one scope, or sends and receives (then it is a batch); no call may
/// use memory that another one writes. Options belong to the scope. Refused there are object
/// collectives, split(), probes and joins, whose values are needed at once, and what coalesces by
/// itself (all_reduce_coalesced). docs/coalescing.md
///
/// All members of the group coalesce the same calls. Throws UsageError for a second scope of one
/// thread on one group. Made, used and destroyed by one thread; scopes of other threads, and of
/// other groups, are others.
class HYMN_API CoalescingScope {
 public:
  explicit CoalescingScope(ProcessGroup group, const CallOptions& options = {});
  CoalescingScope(const CoalescingScope&) = delete;
  CoalescingScope& operator=(const CoalescingScope&) = delete;
  ~CoalescingScope();

  /// Ends the scope, and starts what it has kept. Empty where there is nothing, and on a rank that
  /// is not a member. Throws as the calls do, with nothing sent; UsageError when called again.
  Work start();

 private:
  ProcessGroup group_;
  CallOptions options_;
  detail::CapturedCalls* calls_;  // null: it has ended
};

/// Makes the calls of `body`, as those of a CoalescingScope; the Work is that of all.
template <class Body>
HYMN_INLINE Work coalesce_async(const ProcessGroup& group, Body&& body,
                                const CallOptions& options = {}) {
  CoalescingScope scope(group, options);
  std::forward<Body>(body)();
  return scope.start();
}

/// The same, and waits for it: with a stream in the options the stream does, and not the host.
template <class Body>
HYMN_INLINE void coalesce(const ProcessGroup& group, Body&& body, const CallOptions& options = {}) {
  Work work = coalesce_async(group, std::forward<Body>(body), options);
  if (work.valid() && options.stream == nullptr) work.wait();
}

/// Broadcasts buffers of any dtypes, which may differ, as bytes: they are recorded so. Those of up
/// to `buffer_bytes` bytes travel together, up to so many at a time; in a group with GPUs each by
/// itself, and NCCL is given all of them in one group call. All members give the same sizes, and
/// the same `buffer_bytes`. Cannot be called inside a coalescing scope.
HYMN_API Work broadcast_coalesced_async(const ProcessGroup& group,
                                        std::span<const BufferView> inouts,
                                        std::size_t buffer_bytes, int root,
                                        const CallOptions& options = {});
HYMN_INLINE void broadcast_coalesced(const ProcessGroup& group, std::span<const BufferView> inouts,
                                     std::size_t buffer_bytes, int root,
                                     const CallOptions& options = {}) {
  Work work = broadcast_coalesced_async(group, inouts, buffer_bytes, root, options);
  if (options.stream == nullptr) work.wait();
}

}  // namespace hymn
