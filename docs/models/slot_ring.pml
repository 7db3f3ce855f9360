/* broadcast, reduce and all_gather through rings of heads and data (collectives/shm/slot_ring,
 * slot_operation): whoever gives does not wait for those who take while it has room left.
 *
 * Any sequence of these operations, each of one of three sizes: FEW bytes, in the head; NEAR it,
 * where the number of the round says; more (DATA, in two rounds), for which there is room for one
 * piece at a time. Rounds of FEW bytes and NEAR ones are told to be done now and then only. A round
 * is taken from one member after the other. With EMPTY_BLOCK one member has nothing to give in an
 * all_gather: then another may take before it can give.
 */
#ifndef MEMBERS
#define MEMBERS 2
#endif
#ifndef OPERATIONS
#define OPERATIONS 3
#endif
#define HEADS 3
#define NEARS 2

/* What is wrong when one of these is defined. */
#ifdef TOLD_TOO_SELDOM /* for whoever needs one of the NEARS */
#define ROUNDS_BETWEEN_TELLING (NEARS + 1)
#else
#define ROUNDS_BETWEEN_TELLING NEARS
#endif
#ifdef ONE_TOO_MANY
#define MORE 1
#else
#define MORE 0
#endif
#ifdef DONE_NOT_WAITED_FOR
#define IS_THROUGH(member) true
#else
#define IS_THROUGH(member) \
  ((member) == me || \
   (flag[DONE(member)] + SLOTS + MORE >= given && \
    (size[op] != DATA || flag[DONE(member)] >= piece)))
#endif

#define FEW 0
#define NEAR 1
#define DATA 2
#define SLOTS (size[op] == NEAR -> NEARS : HEADS)

#define ROOM (HEADS + NEARS + 1)
#define HEAD_PLACE(member, round) ((member) * ROOM + (round) % HEADS)
#define NEAR_PLACE(member, round) ((member) * ROOM + HEADS + (round) % NEARS)
#define DATA_PLACE(member) ((member) * ROOM + HEADS + NEARS)
#define PLACES (MEMBERS * ROOM)
#define HEAD(member, round) ((member) * (HEADS + 1) + (round) % HEADS)
#define DONE(member) ((member) * (HEADS + 1) + HEADS)
#define FLAGS (MEMBERS * (HEADS + 1))
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
byte size[OPERATIONS];

#ifdef EMPTY_BLOCK
#define EMPTY_BLOCKS true
#define HAS_BLOCK(member) ((member) != root[op])
#else
#define EMPTY_BLOCKS false
#define HAS_BLOCK(member) true
#endif
#define GIVES(member) \
  ((kind[op] == ALL_GATHER && HAS_BLOCK(member)) || \
   (kind[op] != ALL_GATHER && ((member) == root[op]) == (kind[op] == BROADCAST)))
#define TAKES(member) \
  (kind[op] == ALL_GATHER || ((member) == root[op]) == (kind[op] == REDUCE))

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
  if
  :: size[op] == NEAR -> write(me, NEAR_PLACE(me, given), given)
  :: size[op] == DATA -> write(me, DATA_PLACE(me), given); piece = given
  :: else
  fi;
  write(me, HEAD_PLACE(me, given), given);
#ifdef TAKEN_ANEW /* as if taking began with giving */
  if
  :: kind[op] == ALL_GATHER && given == first -> taken = first; from = 0
  :: else
  fi;
#endif
  SAY_SHOWN(me, given);
  given++
}

inline take(me, whom) {
  LEARN(me, HEAD(whom, taken));
  read(me, HEAD_PLACE(whom, taken), taken);
  if
  :: size[op] == NEAR -> read(me, NEAR_PLACE(whom, taken), taken)
  :: size[op] == DATA -> read(me, DATA_PLACE(whom), taken)
  :: else
  fi
}

inline tell_done(me, round) {
  if
  :: size[op] != DATA && (round) - told < ROUNDS_BETWEEN_TELLING
  :: else -> told = round; SAY_DONE(me, told)
  fi
}

inline finish(me) {
  atomic {
    tell_done(me, taken);
    taken++;
    from = 0
  }
}

proctype member(byte me) {
  byte op, given = 1, taken = 1, end = 1, other, from, told;
  byte piece; /* the round whose data is where DATA go */
  bool gives;
#ifdef TAKEN_ANEW
  byte first;
#endif
  do
  :: op < OPERATIONS ->
    atomic {
#ifdef TAKEN_ANEW
      first = end;
#endif
      end = end + (size[op] == DATA -> 2 : 1);
      gives = GIVES(me);
      if
      :: gives
      :: else -> given = end
      fi;
      if
      :: TAKES(me)
      :: else -> taken = end;
#ifndef SILENT_UNLESS_TAKING
        tell_done(me, end - 1)
#else
        skip
#endif
      fi
    }
    do
    :: atomic {
      given < end && IS_THROUGH(0) && IS_THROUGH(1) && IS_THROUGH(MEMBERS - 1) -> give(me)
    }
    :: atomic { taken < end && from < MEMBERS && (from == me || !GIVES(from)) -> from++ }
#ifdef DONE_TOO_EARLY
    :: taken < end && from == 0 && flag[DONE(me)] != taken -> SAY_DONE(me, taken)
#endif
    :: atomic {
      taken < end && from < MEMBERS && from != me && GIVES(from) &&
        flag[HEAD(from, taken)] == taken ->
      take(me, from);
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
      :: (kind[i] != ALL_GATHER || EMPTY_BLOCKS) && i > 0 -> select(any : 0 .. MEMBERS - 1); root[i] = any
      :: else
      fi;
      select(any : FEW .. DATA);
      size[i] = any
    }
    for (i : 0 .. MEMBERS - 1) {
      run member(i)
    }
  }
}
