/* Barriers (collectives/shm/barrier_flags): what a member wrote before one, the others may read
 * after it. Members write, meet, read, meet, and so on.
 *
 * COUNTED: members that share cores; the last that comes tells all. Otherwise, as for many members
 * with cores of their own: in round r each waits for the member 2^r places before it.
 */
#ifndef MEMBERS
#define MEMBERS 3
#endif
#ifndef MEETINGS
#define MEETINGS 3
#endif

#define PLACES MEMBERS
#define STAGE(member) (member)
#define ARRIVALS MEMBERS
#define OVER (MEMBERS + 1)
#define FLAGS (MEMBERS + 2)
#include "memory.pml"

#ifdef ROUND_MISSING
#define DISTANCES 1
#else
#define DISTANCES 2 /* 1 and 2: enough for up to four members */
#endif
#define STAGES 4 /* more than there are rounds in a barrier */

#ifdef RELAXED_STORE
#define SAY(me, f, what) store_relaxed(f, what)
#else
#define SAY(me, f, what) store_release(me, f, what)
#endif

inline meet_counted(me) {
  atomic {
    add_release(me, ARRIVALS, 1);
#ifndef RELAXED_ARRIVALS
    acquire(me, ARRIVALS);
#endif
    is_last = (flag[ARRIVALS] == use * MEMBERS)
  };
  if
  :: is_last -> SAY(me, OVER, use)
  :: else
  fi;
  atomic { flag[OVER] >= use -> acquire(me, OVER) }
}

inline meet_spread(me) {
  SAY(me, STAGE(me), use * STAGES);
  i = 0;
  do
  :: i < DISTANCES ->
    atomic {
      flag[STAGE((me + MEMBERS - (1 << i) % MEMBERS) % MEMBERS)] >= use * STAGES + i ->
      acquire(me, STAGE((me + MEMBERS - (1 << i) % MEMBERS) % MEMBERS));
      i++
    };
    SAY(me, STAGE(me), use * STAGES + i)
  :: else -> break
  od
}

inline meet(me) {
  use++;
#ifdef COUNTED
  meet_counted(me)
#else
  meet_spread(me)
#endif
}

proctype member(byte me) {
  byte meeting = 1, use, i;
  bool is_last;
  do
  :: meeting <= MEETINGS ->
    write(me, me, meeting);
    meet(me);
#ifdef SHARED_COUNTER
    flag[ARRIVALS]++; /* another algorithm counts there, too */
#endif
    atomic {
      i = 0;
      do
      :: i < MEMBERS -> read(me, i, meeting); i++
      :: else -> break
      od
    };
    meet(me);
    meeting++
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
