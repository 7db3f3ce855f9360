// What the files of the C API share: the handles, and the way from C arguments to a Request.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "hymn/hymn.h"
#include "hymn/hymn_coalesced.h"
#include "hymn/hymn_store.h"
#include "hymn/interop_c.hpp"
#include "hymn/process_group.hpp"
#include "hymn/store.hpp"
#include "hymn/world.hpp"

struct hymnGroup {
  hymn::ProcessGroup group;
  bool of_world = false;   ///< it belongs to a hymnWorld
  bool is_shared = false;  ///< it is had by its tag: other handles of it may be about
};

struct hymnWorld {
  std::optional<hymn::World> own;  ///< empty when somebody else owns it (hymnThreadsRun)
  hymn::World* world = nullptr;
  hymnGroup group;
};

struct hymnWork {
  hymn::Work work;
};

struct hymnStore {
  std::shared_ptr<hymn::Store> store;
};

namespace hymn::detail {
class GroupState;
}

namespace hymn::c_api {

hymnResult_t code_of(ErrorKind kind) noexcept;

/// Takes over a world that was just made.
hymnWorld_t make_world(World&& world);
WorldOptions world_options(const hymnWorldOptions_t* options);
/// Negative: none. NaN is refused.
Timeout timeout_of(double seconds);
/// The same, where HYMN_TIMEOUT_DEFAULT is unset.
Timeout option_timeout(double seconds);
/// And back.
double seconds_of(Timeout timeout);

ReduceOp reduce_op(hymnOp_t op);
hymnOp_t op_value(const ReduceOp& op);
/// What hymnOpCreate has made; null: it has not made that.
const CustomReduction* custom_reduction(hymnOp_t op);
/// Of values of so many bytes; it stays where it is.
const OpaqueType* value_type(std::size_t bytes);
ConstBufferView input(const void* data, std::size_t count, hymnDataType_t dtype);
/// UsageError: C has none, or one for each size.
hymnDataType_t c_type(DataType dtype);
BufferView output(void* data, std::size_t count, hymnDataType_t dtype);

/// `count` elements for each rank of the group; no sum or product here wraps.
std::size_t for_all(std::size_t count, const ProcessGroup& group);
/// One count for each rank of the group, from the argument called `name`; none for who is no
/// member.
std::span<const std::size_t> counts_of(const std::size_t* counts, const ProcessGroup& group,
                                       const char* name);
std::size_t sum_of(std::span<const std::size_t> counts);
/// This rank's entry; 0 for a rank outside of the group.
std::size_t own_count(std::span<const std::size_t> counts, const ProcessGroup& group);

/// What a collective over equal blocks asks of the group.
Request request_of(hymnCollective_t collective, const hymnCollectiveCall_t& call,
                   const ProcessGroup& group);

/// The same over blocks of given sizes.
Request request_of(hymnCollective_t collective, const hymnCollectivevCall_t& call,
                   const ProcessGroup& group);

/// What this thread has said of its calls.
struct Caller {
  const void* site = nullptr;                     ///< null: where they return to
  const void* named_site = nullptr;               ///< of hymnThreadSetSite; then `site`, too
  double timeout_seconds = HYMN_TIMEOUT_DEFAULT;  ///< as an option
};
extern constinit thread_local Caller caller;

/// One call from C: where it goes, and whether it is waited for.
struct Call {
  const char* function;
  hymnGroup_t group;
  hymnStream_t stream;
  bool asynchronous = false;
  hymnWork_t* work = nullptr;          ///< where an asynchronous call puts its Work
  hymnRecvStatus_t* status = nullptr;  ///< where a blocking receive tells what came
  const void* site = nullptr;          ///< where it returns to in the user's code

  /// Asks the group for what `build(group)` returns.
  template <class Build>
  hymnResult_t carry_out(Build&& build) const noexcept {
    return guarded(function, [&] {
      ProcessGroup& target = checked_group();
      finish(target, build(static_cast<const ProcessGroup&>(target)));
    });
  }

  /// Its stream, and the limit that its thread has set.
  CallOptions options() const {
    if (caller.timeout_seconds != HYMN_TIMEOUT_DEFAULT) return limited_options();
    return {.stream = stream};
  }
  CallOptions limited_options() const;
  /// Never empty.
  ProcessGroup& checked_group() const;
  detail::GroupState& state() const;
  /// Gives `start`'s Work to the caller.
  template <class Start>
  void hand_out(Start&& start) const {
    auto handle = std::make_unique<hymnWork>();  // first: a started operation must not get lost
    handle->work = start();
    *work = handle.release();
  }

 private:
  void finish(ProcessGroup& target, const Request& request) const;
};

/// Where a call comes from that returns to this address.
HYMN_INLINE const void* call_site(const void* returns_to) {
  const void* const given = caller.site;
  return given == nullptr ? returns_to : given;
}

// Inlined into the functions that C calls, for their callers are the call sites.
HYMN_INLINE Call blocking(const char* function, hymnGroup_t group, hymnStream_t stream) {
  return {.function = function,
          .group = group,
          .stream = stream,
          .site = call_site(__builtin_return_address(0))};
}
HYMN_INLINE Call starting(const char* function, hymnGroup_t group, hymnStream_t stream,
                          hymnWork_t* work) {
  return {.function = function,
          .group = group,
          .stream = stream,
          .asynchronous = true,
          .work = work,
          .site = call_site(__builtin_return_address(0))};
}

}  // namespace hymn::c_api
