/* all_reduce in rounds through a ring of slots (collectives/shm/all_reduce_two_shot): in each round
 * a member shows what others fold, folds its own slice of what all show, and fetches what the
 * others have folded.
 *
 * Rounds are counted over all operations, so one long operation stands for any number of them:
 * where one ends and the next begins, the program only waits more. It also does what can be done in
 * a fixed order, the model in any.
 */
#ifndef MEMBERS
#define MEMBERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 5
#endif

#ifndef RING
#define RING 3
#endif

/* What is wrong when one of these is defined. */
#ifdef RING_SHORTENED
#define AHEAD (RING + 1)
#else
#define AHEAD RING
#endif

#define SLICE(member, round, slice) (((member) * RING + (round) % RING) * MEMBERS + (slice))
#define PLACES (MEMBERS * RING * MEMBERS)

#define STAGED(member, round) ((member) * (RING + 2) + (round) % RING)
#define FOLDED(member) ((member) * (RING + 2) + RING)
#define COPIED(member) ((member) * (RING + 2) + RING + 1)
#define FLAGS (MEMBERS * (RING + 2))
#include "memory.pml"

/* Two members put the result where the other has shown its data, more in their own slots. */
#define IS_PAIR (MEMBERS == 2)
#if MEMBERS == 2
#define FOLDS_INTO(me) (1 - (me))
#define HOLDER(me, other) (me)
#else
#define FOLDS_INTO(me) (me)
#define HOLDER(me, other) (other)
#endif
/* A place holds, of round t: */
#define INPUT(t) (2 * (t))
#define RESULT(t) (2 * (t) + 1)

inline publish(me, f, what) {
  store_release(me, f, what)
}

#ifdef RELAXED_LOAD
#define LEARN(me, f) skip
#else
#define LEARN(me, f) acquire(me, f)
#endif

inline stage(me, t) {
  other = 0;
  do
  :: other < MEMBERS ->
    if
    :: other != me -> write(me, SLICE(me, t, other), INPUT(t))
    :: else
    fi;
    other++
  :: else -> break
  od;
#ifdef RELAXED_STAGED
  store_relaxed(STAGED(me, t), t)
#else
  publish(me, STAGED(me, t), t)
#endif
}

inline fold(me, t) {
  other = 0;
  do
  :: other < MEMBERS ->
    if
    :: other != me ->
      LEARN(me, STAGED(other, t));
      read(me, SLICE(other, t, me), INPUT(t))
    :: else
    fi;
    other++
  :: else -> break
  od;
  write(me, SLICE(FOLDS_INTO(me), t, me), RESULT(t));
#ifdef RELAXED_FOLDED
  store_relaxed(FOLDED(me), t)
#else
  publish(me, FOLDED(me), t)
#endif
}

/* The flag tells, too, how far the data lies from a line: it must still be that of the round. */
inline copy_out(me, t) {
  other = 0;
  do
  :: other < MEMBERS ->
    if
    :: other != me ->
      LEARN(me, FOLDED(other));
      assert(flag[STAGED(HOLDER(me, other), t)] == t);
      read(me, SLICE(HOLDER(me, other), t, other), RESULT(t))
    :: else
    fi;
    other++
  :: else -> break
  od;
  if
  :: IS_PAIR
  :: else -> publish(me, COPIED(me), t)
  fi
}

/* `all` of the others, as one expression. */
#if MEMBERS == 2
#define OF_OTHERS(me, is) is(1 - (me))
#else
#define OF_OTHERS(me, is) (is(((me) + 1) % MEMBERS) && is(((me) + 2) % MEMBERS))
#endif
#define HAS_STAGED(member) (flag[STAGED(member, folded + 1)] == folded + 1)
#define HAS_FOLDED(member) (flag[FOLDED(member)] >= copied + 1)
#define HAS_COPIED(member) (flag[COPIED(member)] + AHEAD >= staged + 1)

#if MEMBERS == 2 || defined(COPIED_NOT_WAITED_FOR)
#define OTHERS_ARE_THROUGH(me) true
#else
#define OTHERS_ARE_THROUGH(me) OF_OTHERS(me, HAS_COPIED)
#endif
#ifdef OWN_COPY_NOT_WAITED_FOR
#define IS_THROUGH true
#else
#define IS_THROUGH (staged < copied + AHEAD)
#endif
#ifdef FOLDED_NOT_WAITED_FOR
#define OTHERS_HAVE_FOLDED(me) true
#else
#define OTHERS_HAVE_FOLDED(me) OF_OTHERS(me, HAS_FOLDED)
#endif

proctype member(byte me) {
  byte staged, folded, copied, other; /* the last round that this member is through with */
  do
  :: atomic {
    staged < ROUNDS && IS_THROUGH && OTHERS_ARE_THROUGH(me) ->
#if MEMBERS > 2
    LEARN(me, COPIED((me + 1) % MEMBERS));
    LEARN(me, COPIED((me + 2) % MEMBERS));
#endif
    staged++;
    stage(me, staged)
  }
  :: atomic {
    folded < staged && OF_OTHERS(me, HAS_STAGED) -> folded++;
    fold(me, folded)
  }
  :: atomic {
    copied < folded && OTHERS_HAVE_FOLDED(me) -> copied++;
    copy_out(me, copied)
  }
  :: copied == ROUNDS -> break
  od
}

init {
  byte i;
  atomic {
    for (i : 0 .. MEMBERS - 1) {
      run member(i)
    }
  }
}
