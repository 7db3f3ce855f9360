/* all_reduce in one step (collectives/shm/shown_slots, all_reduce_one_shot, all_reduce_swapped):
 * everybody shows its input in a slot, and folds what all have shown.
 *
 * Two such algorithms of one group are used in an order that is the same for all members, and
 * otherwise any. Each member has two slots, which it writes in turn. SWAPS: the second algorithm is
 * the one for two members, in which each has one slot, and writes the one that it has just read.
 */
#ifndef MEMBERS
#define MEMBERS 2
#endif
#ifndef OPERATIONS
#define OPERATIONS 5
#endif
#define ALGORITHMS 2

/* What is wrong when one of these is defined. */
#if defined(ONE_SLOT) || defined(SWAPS) /* in the second algorithm */
#define PARITY(algorithm, use) ((1 - (algorithm)) * ((use) % 2))
#else
#define PARITY(algorithm, use) ((use) % 2)
#endif
#ifdef SHARED_SLOTS /* by both algorithms, which count their uses apart */
#define HOME(algorithm) 0
#else
#define HOME(algorithm) (algorithm)
#endif
#ifdef ANY_FLAG /* a flag of any use will do */
#define IS_SHOWN(f, use) (flag[f] != 0)
#else
#define IS_SHOWN(f, use) (flag[f] == (use))
#endif

#ifdef SWAPS
#define WRITER(algorithm, member, use) (((member) + (algorithm) * (use)) % 2)
#else
#define WRITER(algorithm, member, use) (member)
#endif

/* A slot is a flag and, as one place, its data and factor. */
#define SLOT(algorithm, member, use) \
  ((HOME(algorithm) * MEMBERS + WRITER(algorithm, member, use)) * 2 + PARITY(algorithm, use))
#define PLACES (ALGORITHMS * MEMBERS * 2)
#define FLAGS PLACES
#include "memory.pml"

byte algorithm[OPERATIONS + 1]; /* of each operation, from 1 */

inline show_input(me, slot, operation, use) {
  atomic {
    write(me, slot, operation);
#ifdef RELAXED_STORE
    store_relaxed(slot, use)
#else
    store_release(me, slot, use)
#endif
  }
}

inline look(me, slot, use) {
  atomic {
    IS_SHOWN(slot, use);
#ifndef RELAXED_LOAD
    acquire(me, slot)
#endif
  }
}

/* The own input and factor are those of the call: the peer may be writing the own slot already. */
inline fold(me, a, operation, use) {
  atomic {
    other = 0;
    do
    :: other < MEMBERS ->
      if
#ifndef OWN_SLOT_READ
      :: other == me
#endif
      :: else -> read(me, SLOT(a, other, use), operation)
      fi;
      other++
    :: else -> break
    od
  }
}

proctype member(byte me) {
  byte operation = 1, uses[ALGORITHMS], a, other;
  do
  :: operation <= OPERATIONS ->
    a = algorithm[operation];
    uses[a]++;
    show_input(me, SLOT(a, me, uses[a]), operation, uses[a]);
    other = 0;
    do
    :: other == me -> other++
    :: other < MEMBERS && other != me ->
#ifdef LAST_NOT_WAITED_FOR
      if
      :: other == (MEMBERS - 1)
      :: else -> look(me, SLOT(a, other, uses[a]), uses[a])
      fi;
#else
      look(me, SLOT(a, other, uses[a]), uses[a]);
#endif
      other++
    :: other == MEMBERS -> break
    od;
    fold(me, a, operation, uses[a]);
    operation++
  :: else -> break
  od
}

init {
  byte i;
  atomic {
    for (i : 1 .. OPERATIONS) {
      if
      :: algorithm[i] = 0
      :: algorithm[i] = 1
      fi
    }
    for (i : 0 .. MEMBERS - 1) {
      run member(i)
    }
  }
}
