/* Giving up (ShmChannel::abort, throw_if_aborted): any member may give up at any time, and all that
 * wait must end, with the first reason if there is one to be had. Who writes the reason may be
 * killed while it does. The last member has no deadline, and so never gives up by itself.
 */
#ifndef MEMBERS
#define MEMBERS 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

#define PLACES 1 /* the reason */
#define REASON 0
#define FLAGS (MEMBERS + 1) /* of the members' rounds, and */
#define ABORTED MEMBERS
#include "memory.pml"

#define WRITING 1
#define WRITTEN 2

byte ended; /* members, killed ones too */

inline give_up(me) {
#ifdef NO_EXCHANGE
  first = (flag[ABORTED] == 0);
  flag[ABORTED] = WRITING;
#else
  atomic {
    first = (flag[ABORTED] == 0);
    if
    :: first -> flag[ABORTED] = WRITING
    :: else
    fi
  };
#endif
  if
  :: first ->
#ifdef WRITTEN_TOO_EARLY
    store_release(me, ABORTED, WRITTEN);
#endif
    if
    :: true -> goto killed
    :: write(me, REASON, me + 1)
    fi;
#ifdef RELAXED_STORE
    store_relaxed(ABORTED, WRITTEN)
#else
    store_release(me, ABORTED, WRITTEN)
#endif
  :: else
  fi
}

inline throw_aborted(me) {
  if
  :: atomic {
    flag[ABORTED] == WRITTEN -> acquire(me, ABORTED);
    assert(value[REASON] != 0);
    read(me, REASON, value[REASON])
  }
#ifndef REASON_WAITED_FOR
  :: flag[ABORTED] == WRITING /* patience is over: it is told without a reason */
#endif
  fi
}

proctype member(byte me) {
  byte t = 1, other;
  bool first;
  do
  :: t <= ROUNDS ->
    store_release(me, me, t);
    other = 0;
    do
    :: other < MEMBERS ->
      if
      :: flag[other] >= t -> other++
#ifndef NOT_LOOKED_FOR
      :: flag[ABORTED] != 0 -> throw_aborted(me); goto killed
#endif
      :: me != MEMBERS - 1 -> give_up(me); goto killed
      fi
    :: else -> break
    od;
    t++
  :: else -> break
  od;
killed:
  ended++
}

init {
  byte i;
  atomic {
    for (i : 0 .. MEMBERS - 1) {
      run member(i)
    }
  }
  ended == MEMBERS
}
