// An operation in flight.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "hymn/export.hpp"
#include "hymn/future.hpp"
#include "hymn/request.hpp"
#include "hymn/standard_parts.hpp"

namespace hymn {

namespace detail {
class WorkState;
}

/// What a receive has received.
struct RecvStatus {
  int source = -1;  ///< global rank of the sender
  int tag = 0;
  std::size_t count = 0;  ///< whole elements received; may be fewer than the buffer holds
};

/// A message that waits to be received.
struct MessageInfo {
  int source = -1;  ///< global rank of the sender
  int tag = 0;
  std::size_t bytes = 0;
};

/// A shared handle to one asynchronous operation. Safe to use from several threads where the group
/// is.
///
/// Dropping it neither cancels the operation nor waits for it: the operation completes when
/// somebody waits for anything, ProcessGroup::wait_for_pending_works() among others, and how it
/// ended is told to no one but the group's hooks, unless the group was given up. Compilers warn
/// about a Work that is not used; where it is meant to be dropped, write `(void)`.
///
/// Its buffers must stay valid until it has completed, also where the handle was dropped. When a
/// rank hears that the group was given up, by an exception or by any other answer of hymn's, all
/// that it had in flight there has completed, successfully or not, and no step of any of it is
/// taken any more. What of a failed operation may still use the buffers depends on its path():
/// nothing where hymn itself moves the data (threads, exchange, shm, hierarchical), MPI, NCCL or
/// the GPU elsewhere; docs/errors.md has a table. Operations of groups that were not given up are
/// still in flight, whatever failed elsewhere.
class [[nodiscard, gnu::visibility("default")]] Work {  // HYMN_API, as g++ 12 takes it here
 public:
  Work() = default;
  explicit Work(std::shared_ptr<detail::WorkState> state) : state_(std::move(state)) {}

  bool valid() const noexcept { return state_ != nullptr; }

  /// Moves the operation forward; true when it has completed, successfully or not. Never throws for
  /// a failure of the operation: see error().
  bool test();
  /// True when it has completed, without moving anything.
  bool is_completed() const;

  /// Waits until it has completed. Throws the operation's error if it failed, and TimeoutError when
  /// the operation's own limit (call, group, default) passes: then the group is given up.
  void wait();
  /// As wait(), but for at most `timeout` whatever the operation's own limit. When it passes,
  /// TimeoutError is thrown and the operation stays in flight: it can be waited for again.
  void wait(Timeout timeout);

  /// What is enqueued on this CUDA stream (of this rank's GPU) from now on waits until the
  /// operation has completed; the host does not. Where it is not on the GPU, or not yet, the host
  /// waits until it is, or has completed. Throws as wait(), UnsupportedError where the group has no
  /// GPU, and UsageError for a stream of another GPU.
  void wait_on(void* stream);

  /// Why it failed; null while in flight and after success.
  std::exception_ptr error() const;
  /// The buffers written, as they were given (see status() for how much has come), after success.
  /// Throws the error after a failure, UsageError while in flight.
  std::vector<BufferView> result() const;
  /// recv only, after success.
  RecvStatus status() const;
  /// The statuses of the receives of a batch, in the order in which they were given.
  std::vector<RecvStatus> statuses() const;

  /// The operation as a future of the buffers it writes.
  Future<std::vector<BufferView>> get_future() const;
  /// get_future().then(…)
  template <class Function>
  auto then(Function function, Executor executor = inline_executor()) const {
    return get_future().then(std::move(function), std::move(executor));
  }

  OpType type() const;
  /// Counts the collectives of the group, or its sends and receives; starts at 1.
  std::uint64_t sequence() const;
  /// Which path and algorithm were chosen, as "mpi" and "all_reduce_mpi".
  std::string_view path() const;
  std::string_view algorithm() const;

 private:
  friend void wait_all(std::span<Work> works, Timeout timeout);
  friend std::size_t wait_any(std::span<Work> works, Timeout timeout);

  std::shared_ptr<detail::WorkState> state_;
};

/// As MPI_Waitall: waits until all of them have completed; empty handles are left out. Throws, when
/// all have completed, the error of the first, in their order, that has failed. Each may take as
/// long as its own limit lets it; with `timeout` set, all together that long, whatever their own
/// limits: then TimeoutError, and what has not completed stays in flight.
HYMN_API void wait_all(std::span<Work> works, Timeout timeout = {});
/// As MPI_Waitany: waits until one of them has completed, successfully or not (see Work::error()),
/// and returns its index: the least, where several have. Empty handles are left out; UsageError
/// where there is no other. A handle is not emptied: do so (`works[i] = {}`), or the next call
/// returns it again. `timeout` as in Work::wait(): TimeoutError, and all stay in flight.
HYMN_API std::size_t wait_any(std::span<Work> works, Timeout timeout = {});

}  // namespace hymn
