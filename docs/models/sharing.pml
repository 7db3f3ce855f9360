/* all_reduce among more members than cores (collectives/shm/all_reduce_sharing): in each round all
 * show their whole input, and whoever happens to run folds slices until none is left.
 *
 * The three counters are member 0's, only grow, and are never reset. Two slots are used in turn;
 * the result takes the place of member 0's input. Rounds are counted over all operations, so one
 * long operation stands for any number of them.
 */
#ifndef MEMBERS
#define MEMBERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 4
#endif
#define SLICES 2

/* What is wrong when one of these is defined. */
#ifdef ONE_SLOT
#define SLOTS 1
#else
#define SLOTS 2
#endif

/* A slot is its slices, and what the member tells of it: its distance from a line, the factor. */
#define SLICE(member, round, slice) \
  (((member) * SLOTS + (round) % SLOTS) * (SLICES + 1) + (slice))
#define HEAD(member, round) SLICE(member, round, SLICES)
#define PLACES (MEMBERS * SLOTS * (SLICES + 1))
#define ARRIVED 0
#define CLAIMED 1
#define FOLDED 2
#define FLAGS 3
#include "memory.pml"

#define INPUT(t) (2 * (t))
#define RESULT(t) (2 * (t) + 1)
/* Slices of all rounds up to this one. */
#define SLICES_TO(t) ((t) * SLICES)

#ifdef RELAXED_LOAD
#define LEARN(me, f) skip
#else
#define LEARN(me, f) acquire(me, f)
#endif

inline show_input(me, t) {
  i = 0;
  do
  :: i < SLICES -> write(me, SLICE(me, t, i), INPUT(t)); i++
  :: else -> break
  od;
  write(me, HEAD(me, t), INPUT(t));
#ifdef RELAXED_ARRIVED
  flag[ARRIVED]++
#else
  add_release(me, ARRIVED, 1)
#endif
}

inline fold(me, t, slice) {
  i = 0;
  do
  :: i < MEMBERS ->
    read(me, HEAD(i, t), INPUT(t));
    read(me, SLICE(i, t, slice), INPUT(t));
    i++
  :: else -> break
  od;
  write(me, SLICE(0, t, slice), RESULT(t));
#ifdef RELAXED_FOLDED
  flag[FOLDED]++
#else
  add_release(me, FOLDED, 1)
#endif
}

inline fetch(me, t) {
  read(me, HEAD(0, t), INPUT(t));
  i = 0;
  do
  :: i < SLICES -> read(me, SLICE(0, t, i), RESULT(t)); i++
  :: else -> break
  od
}

/* The claim is an exchange that succeeds only if nobody else has claimed since the look. */
inline claim(me, t) {
  do
  :: next < SLICES_TO(t) ->
    if
#ifdef NO_EXCHANGE
    :: flag[CLAIMED] = next + 1 -> atomic { fold(me, t, next - SLICES_TO(t - 1)) }
#else
    :: atomic { flag[CLAIMED] == next -> flag[CLAIMED] = next + 1 };
      atomic { fold(me, t, next - SLICES_TO(t - 1)) }
    :: flag[CLAIMED] != next
#endif
    fi;
    next = flag[CLAIMED]
  :: else -> break
  od
}

#ifdef FOLDED_NOT_WAITED_FOR
#define ALL_FOLDED(t) (flag[CLAIMED] >= SLICES_TO(t))
#else
#define ALL_FOLDED(t) (flag[FOLDED] >= SLICES_TO(t))
#endif
#ifdef ONE_NOT_WAITED_FOR
#define ALL_ARRIVED(t) (flag[ARRIVED] >= (t) * MEMBERS - 1)
#else
#define ALL_ARRIVED(t) (flag[ARRIVED] >= (t) * MEMBERS)
#endif

proctype member(byte me) {
  byte t = 1, i, next;
  do
  :: t <= ROUNDS ->
    atomic { show_input(me, t) };
    atomic { ALL_ARRIVED(t) -> LEARN(me, ARRIVED); next = flag[CLAIMED] };
    claim(me, t);
    atomic { ALL_FOLDED(t) -> LEARN(me, FOLDED); fetch(me, t); t++ }
  :: else -> break
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
