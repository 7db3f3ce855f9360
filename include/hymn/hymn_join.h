// hymn's C API for ranks with unequal inputs: those that have run out keep in step with those that
// still run. docs/join.md tells how, and which of the two ways to use; the C++ API is join.hpp.
//
// Bodies and hooks are the caller's functions. What they return other than hymnSuccess is a failure
// of this rank: its groups of the join are given up, so that the others get hymnAbortedError
// instead of waiting, and hymnJoinRun or hymnJoinShadowAll returns that code, with the last error
// of the thread in its text.
//
// Thread safety: a hymnJoin_t is used by one thread at a time, except hymnJoinStatus.
#pragma once

#include "hymn/hymn.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Joinables: hooks shadow an iteration ------------------------------------------------------

typedef struct hymnJoin* hymnJoin_t;

/// A joinable of a library above hymn, such as hymnGradientReducerJoinable gives.
typedef struct hymnMadeJoinable* hymnMadeJoinable_t;

/// Something that makes collectives in each iteration. Start from HYMN_JOINABLE_INIT.
typedef struct {
  size_t size;        ///< sizeof(hymnJoinable_t)
  hymnGroup_t group;  ///< on which it makes its collectives
  /// Called when this rank has run out, once for each iteration of those that have not: makes the
  /// same collectives as they do in one iteration, with values that leave results unchanged. NULL:
  /// there are none.
  hymnResult_t (*main_hook)(void* user);
  /// Called once on every rank when all have run out. is_last_joiner: no rank of the group had more
  /// input than this one. It may make collectives. May be NULL.
  hymnResult_t (*post_hook)(int is_last_joiner, void* user);
  void* user;               ///< passed to both
  hymnMadeJoinable_t made;  ///< not NULL: this is it, and the fields before are not looked at
} hymnJoinable_t;
#define HYMN_JOINABLE_INIT {sizeof(hymnJoinable_t), NULL, NULL, NULL, NULL, NULL}

/// What averages are divided by.
typedef enum {
  hymnJoinDivisorInitial = 0,  ///< all ranks of the group
  hymnJoinDivisorActive        ///< the ranks that still have input
} hymnJoinDivisor_t;

/// The same on all ranks.
typedef struct {
  size_t size;                     ///< sizeof(hymnJoinOptions_t)
  int enable;                      ///< < 0: hymnJoinRun only runs its body
  int throw_on_early_termination;  ///< not 0: when a rank has run out before the others,
                                   ///< hymnJoinNotify and hymnJoinRun fail on all of them, in
                                   ///< step, with hymnUsageError; the groups can still be used
  int divisor;                     ///< a hymnJoinDivisor_t
} hymnJoinOptions_t;
#define HYMN_JOIN_OPTIONS_INIT {sizeof(hymnJoinOptions_t), 0, 0, hymnJoinDivisorInitial}

/// A join of `n` joinables, which are copied, in the same order on all ranks of the first one's
/// group; the groups of the others lie within that one. A rank outside of a joinable's group does
/// not get its hooks called.
HYMN_API hymnResult_t hymnJoinCreate(const hymnJoinable_t* joinables, size_t n,
                                     const hymnJoinOptions_t* options, hymnJoin_t* join);
/// Runs body(user), which calls hymnJoinNotify in each iteration, before its collectives; then
/// shadows the ranks that still run theirs, and calls the post-hooks. May be called again, for the
/// next epoch. hymnUsageError, before anything is sent: it runs already, or a group does not lie
/// within the first one.
HYMN_API hymnResult_t hymnJoinRun(hymnJoin_t join, hymnResult_t (*body)(void* user), void* user);
/// Another iteration begins on this rank: one all_reduce of twelve bytes on the first group. Does
/// nothing outside of hymnJoinRun, in hooks, and where the join is not enabled.
HYMN_API hymnResult_t hymnJoinNotify(hymnJoin_t join);
/// Frees the handle, not while it runs.
HYMN_API hymnResult_t hymnJoinFree(hymnJoin_t join);

// In this iteration, for joinable number `index`; the same on all ranks of its group.

/// By what a sum is to be divided, and the reduction that does it.
HYMN_API hymnResult_t hymnJoinDivisor(hymnJoin_t join, size_t index, int* divisor);
HYMN_API hymnResult_t hymnJoinAverage(hymnJoin_t join, size_t index, hymnOp_t* op);
/// Who stands in for the rank `preferred` as a root: itself while it has input, else the first
/// member after it, in the order of ranks and around, that has.
HYMN_API hymnResult_t hymnJoinActingRoot(hymnJoin_t join, size_t index, int preferred, int* root);

/// A rank that has run out, and how many iterations it has made.
typedef struct {
  int rank;
  uint64_t iterations;
} hymnJoinedRank_t;
/// How far the ranks are in this run, or were in the last one, from any thread: the iterations of
/// the rank that has made most, how many ranks have input, and the others in the order in which
/// they ran out, of which the first `capacity` are written to `joined`; *n tells how many there
/// are. Every pointer may be NULL; joined only with a capacity of 0.
HYMN_API hymnResult_t hymnJoinStatus(hymnJoin_t join, uint64_t* iterations, int* active,
                                     hymnJoinedRank_t* joined, size_t capacity, size_t* n);

// --- Without hooks: this rank makes whatever collectives the others still make -----------------

/// What a rank that has run out gives where nothing is reduced.
typedef struct {
  size_t size;  ///< sizeof(hymnShadowOptions_t)
  double fill;  ///< every element in all_gather, gather and all_to_all
  int has_root_fill;
  double root_fill;  ///< every element as the root of broadcast and scatter; without it such a call
                     ///< is a hymnUnsupportedError
} hymnShadowOptions_t;
#define HYMN_SHADOW_OPTIONS_INIT {sizeof(hymnShadowOptions_t), 0, 0, 0}

/// Runs body(user); then makes the collectives that the other members of these `n` groups still
/// make, with values that leave results unchanged, until all have run out. *shadowed, which may be
/// NULL, is how many those were. All members of these groups call it, each with all of them that it
/// is in. As Join::shadow_all.
HYMN_API hymnResult_t hymnJoinShadowAll(const hymnGroup_t* groups, size_t n,
                                        hymnResult_t (*body)(void* user), void* user,
                                        const hymnShadowOptions_t* options, uint64_t* shadowed);

// For its body; one all_reduce of four bytes each, which all members make that have not run out.

/// How many those are.
HYMN_API hymnResult_t hymnJoinCountActive(hymnGroup_t group, int* active);
/// As hymnJoinActingRoot.
HYMN_API hymnResult_t hymnJoinGroupActingRoot(hymnGroup_t group, int preferred, int* root);
/// The reduction that averages over them.
HYMN_API hymnResult_t hymnJoinGroupAverage(hymnGroup_t group, hymnOp_t* op);

#ifdef __cplusplus
}
#endif
