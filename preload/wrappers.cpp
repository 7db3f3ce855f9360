// The calls of MPI that the library defines: each under both of its names, since Fortran's and
// other layers call MPI by the second, and tools by the one or the other.
#include "hymn/export.hpp"
#include "preload/alone.hpp"
#include "preload/attempt.hpp"
#include "preload/call_note.hpp"
#include "preload/calls.hpp"
#include "preload/polled.hpp"
#include "preload/recorded_collective.hpp"
#include "preload/recorded_message.hpp"
#include "preload/recorded_other.hpp"
#include "preload/recorded_request.hpp"
#include "preload/session.hpp"

namespace hymn::preload {
namespace {

// Each begins, records and ends one call of the program; `tell(recorded)` tells its facts. All of
// it is inside of the call, so that what is told is never put into memory in small parts and read
// in large ones, which waits for them.

template <Call call, class Tell, class... Parameters, class... Arguments>
HYMN_INLINE int carried(const void* from, Tell tell, int (*next)(Parameters...),
                        Arguments... arguments) {
  Session* const session = Session::of_call(from);
  if (session == nullptr) return next(arguments...);
  const Inside inside;
  CallNote note(*session, call);
  RecordedCollective recorded(*session, call, from);
  if (recorded.is_on()) tell(recorded);
  recorded.start();
  Attempt attempted(*session, call);
  Outcome outcome = attempt(Tag<call>(), attempted, arguments...);
  if (outcome.reason == Reason::one_rank) outcome = alone(Tag<call>(), attempted, arguments...);
  note.end(outcome.reason, attempted.bytes(), attempted.expected_ratio());
  const bool is_left = outcome.reason != Reason::carried;
  const int code = is_left ? next(arguments...) : outcome.code;
  if (is_left && code != MPI_SUCCESS) attempted.was_refused(code);
  recorded.end(code);
  return code;
}

template <class Recorded, Call call, class Tell, class... Parameters, class... Arguments>
HYMN_INLINE int recorded(const void* from, Tell tell, int (*next)(Parameters...),
                         Arguments... arguments) {
  Session* const session = Session::of_call(from);
  if (session == nullptr) return next(arguments...);
  const Inside inside;
  CallNote note(*session, call);
  if (kind_of(call) == Kind::left) note.end(Reason::kind, 0);
  Recorded recorded(*session, call, from);
  if (recorded.is_on()) tell(recorded);
  recorded.start();
  const int code = next(arguments...);
  recorded.end(code);
  return code;
}

template <Call call, class... Arguments>
HYMN_INLINE int left(Arguments... arguments) {
  return recorded<RecordedCollective, call>(arguments...);
}

template <Call call, class... Arguments>
HYMN_INLINE int message(Arguments... arguments) {
  return recorded<RecordedMessage, call>(arguments...);
}

template <Call call, class... Arguments>
HYMN_INLINE int completion(Arguments... arguments) {
  return recorded<RecordedRequest, call>(arguments...);
}

template <Call call, class... Arguments>
HYMN_INLINE int other(Arguments... arguments) {
  return recorded<RecordedOther, call>(arguments...);
}

// What it finds is recorded afterwards. Where threads may call at the same time the handle may be
// another request's by then: there it goes the long way.
template <Call call, class Tell, class... Parameters, class... Arguments>
HYMN_INLINE int poll(const void* from, Tell tell, int (*next)(Parameters...),
                     Arguments... arguments) {
  Session* const session = Session::of_call(from);
  if (session == nullptr) return next(arguments...);
  if (session->may_overlap()) return completion<call>(from, tell, next, arguments...);
  Polled polled;
  tell(polled);
  if (!polled.fits()) return completion<call>(from, tell, next, arguments...);
  const Inside inside;
  CallNote note(*session, call);
  const int code = next(arguments...);
  if (code == MPI_SUCCESS && polled.has_found_none()) return code;
  RecordedRequest recorded(*session, call, from, polled.handles());
  if (recorded.is_on()) tell(recorded);
  recorded.end(code);
  return code;
}

/// Initialises MPI by `call()`. Another tool, or MPI itself, may come here once more inside.
template <class CallNext>
int initialise(CallNext call) {
  if (Inside::is_on()) return call();
  const Inside inside;
  const int code = call();
  if (code == MPI_SUCCESS) Session::begin();
  return code;
}

int finalize(int (*next)()) {
  if (Inside::is_on()) return next();
  const Inside inside;
  Session::end();
  return next();
}

}  // namespace
}  // namespace hymn::preload

// NOLINTBEGIN: MPI's names
#define HYMN_CALL(kind, name, parameters, facts, ...)                                       \
  HYMN_WRAPPER(PMPI_##name, hymn::preload::next_pmpi().name, kind, name, parameters, facts, \
               __VA_ARGS__)                                                                 \
  HYMN_WRAPPER(MPI_##name, hymn::preload::next_mpi().name, kind, name, parameters, facts,   \
               __VA_ARGS__)
#define HYMN_WRAPPER(symbol, next, kind, name, parameters, facts, ...)                    \
  extern "C" HYMN_API int symbol parameters {                                             \
    return hymn::preload::kind<hymn::preload::Call::name>(                                \
        __builtin_return_address(0), [=](auto& call) { call facts; }, next, __VA_ARGS__); \
  }
#include "preload/calls.inc"
#undef HYMN_CALL
#undef HYMN_WRAPPER

#define HYMN_BEGIN_AND_END(prefix, next)                                                           \
  extern "C" HYMN_API int prefix##Init(int* argc, char*** argv) {                                  \
    return hymn::preload::initialise([&] { return next().Init(argc, argv); });                     \
  }                                                                                                \
  extern "C" HYMN_API int prefix##Init_thread(int* argc, char*** argv, int wanted, int* granted) { \
    return hymn::preload::initialise(                                                              \
        [&] { return next().Init_thread(argc, argv, wanted, granted); });                          \
  }                                                                                                \
  extern "C" HYMN_API int prefix##Finalize() { return hymn::preload::finalize(next().Finalize); }
HYMN_BEGIN_AND_END(PMPI_, hymn::preload::next_pmpi)
HYMN_BEGIN_AND_END(MPI_, hymn::preload::next_mpi)
#undef HYMN_BEGIN_AND_END
// NOLINTEND
