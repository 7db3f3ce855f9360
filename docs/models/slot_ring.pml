/* broadcast, reduce and all_gather through rings of slots (collectives/shm/slot_ring,
 * slot_operation): whoever gives does not wait for those who take while it has slots left.
 *
 * Any sequence of these operations, each of few bytes (one round, data beside the flag) or of more
 * (two rounds, data in slots of which there are half as many). A round is taken from one member
 * after the other.
 */
#ifndef MEMBERS
#define MEMBERS 2
#endif
#ifndef OPERATIONS
#define OPERATIONS 3
#endif
#define DATA_SLOTS 1
#define FEW_SLOTS 2

/* What is wrong when one of these is defined. */
#ifdef ONE_TOO_MANY
#define FREE_BEHIND(slots) ((slots) + 1)
#else
#define FREE_BEHIND(slots) (slots)
#endif
#ifdef DONE_NOT_WAITED_FOR
#define IS_FREE(member) true
#else
#define IS_FREE(member) \
  ((member) == me || flag[DONE(member)] + FREE_BEHIND(slots) >= given)
#endif

#define FEW(member, round) ((member) * (FEW_SLOTS + DATA_SLOTS) + (round) % FEW_SLOTS)
#define DATA(member, round) \
  ((member) * (FEW_SLOTS + DATA_SLOTS) + FEW_SLOTS + (round) % DATA_SLOTS)
#define PLACES (MEMBERS * (FEW_SLOTS + DATA_SLOTS))
#define HEAD(member, round) ((member) * (FEW_SLOTS + 1) + (round) % FEW_SLOTS)
#define DONE(member) ((member) * (FEW_SLOTS + 1) + FEW_SLOTS)
#define FLAGS (MEMBERS * (FEW_SLOTS + 1))
#include "memory.pml"

#ifdef RELAXED_LOAD
#define LEARN(me, f) skip
#else
#define LEARN(me, f) acquire(me, f)
#endif
#ifdef RELAXED_DONE
#define SAY_DONE(me, round) store_relaxed(DONE(me), round)
#else
#define SAY_DONE(me, round) store_release(me, DONE(me), round)
#endif
#ifdef RELAXED_SHOW
#define SAY_SHOWN(me, round) store_relaxed(HEAD(me, round), round)
#else
#define SAY_SHOWN(me, round) store_release(me, HEAD(me, round), round)
#endif

#define BROADCAST 0
#define REDUCE 1
#define ALL_GATHER 2
/* Of each operation, the same for all members. */
byte kind[OPERATIONS], root[OPERATIONS];
bool is_few[OPERATIONS];

#define GIVES(member) \
  (kind[op] == ALL_GATHER || ((member) == root[op]) == (kind[op] == BROADCAST))
#define TAKES(member) \
  (kind[op] == ALL_GATHER || ((member) == root[op]) == (kind[op] == REDUCE))
#define SLOTS (is_few[op] -> FEW_SLOTS : DATA_SLOTS)
/* Arithmetic, for it goes through the arguments of inlines. */
#define PLACE(member, round) \
  (is_few[op] * FEW(member, round) + (1 - is_few[op]) * DATA(member, round))

inline give(me) {
  other = 0;
  do
  :: other < MEMBERS ->
    if
    :: other != me -> LEARN(me, DONE(other))
    :: else
    fi;
    other++
  :: else -> break
  od;
  write(me, PLACE(me, given), given);
  SAY_SHOWN(me, given);
  given++
}

inline finish(me) {
  atomic {
    SAY_DONE(me, taken);
    taken++;
    from = 0
  }
}

proctype member(byte me) {
  byte op, given = 1, taken = 1, end = 1, other, from, slots;
  bool gives;
  do
  :: op < OPERATIONS ->
    atomic {
      slots = SLOTS;
      end = end + (is_few[op] -> 1 : 2);
      gives = GIVES(me);
      if
      :: gives
      :: else -> given = end
      fi;
      if
      :: TAKES(me)
      :: else -> taken = end;
#ifndef SILENT_UNLESS_TAKING
        SAY_DONE(me, end - 1)
#endif
      fi
    }
    do
    :: atomic {
      given < end && IS_FREE(0) && IS_FREE(1) && IS_FREE(MEMBERS - 1) -> give(me)
    }
    :: atomic { taken < end && from < MEMBERS && (from == me || !GIVES(from)) -> from++ }
#ifdef DONE_TOO_EARLY
    :: taken < end && from == 0 && flag[DONE(me)] != taken -> SAY_DONE(me, taken)
#endif
    :: atomic {
      taken < end && from < MEMBERS && from != me && GIVES(from) &&
        flag[HEAD(from, taken)] == taken ->
      LEARN(me, HEAD(from, taken));
      read(me, PLACE(from, taken), taken);
      from++
    }
    :: taken < end && from == MEMBERS -> finish(me)
    :: given == end && taken == end -> break
    od;
    op++
  :: else -> break
  od
}

init {
  byte i, any;
  atomic {
    for (i : 0 .. OPERATIONS - 1) {
      select(any : 0 .. 2);
      kind[i] = any;
      if
      :: kind[i] != ALL_GATHER -> select(any : 0 .. MEMBERS - 1); root[i] = any
      :: else
      fi;
      select(any : 0 .. 1);
      is_few[i] = any
    }
    for (i : 0 .. MEMBERS - 1) {
      run member(i)
    }
  }
}
