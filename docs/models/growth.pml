/* Memory that is reserved when it is first used (ShmChannel::usable_bytes): each member reserves
 * what it can get of its own part, says so, and waits until all have said it. The least counts, for
 * all, in this operation and in all later ones.
 */
#ifndef MEMBERS
#define MEMBERS 3
#endif
#define OPERATIONS 2
#define MOST 2

#define PLACES MEMBERS /* a part: being made real is a write, using it is a read */
#define FLAGS MEMBERS  /* bytes reserved + 1; 0: not said yet */
#include "memory.pml"

byte reserved[MEMBERS]; /* so much of a part is real memory */
byte agreed = 255;

inline reserve(me) {
  select(mine : 0 .. MOST);
  atomic {
    write(me, me, 1);
    reserved[me] = mine
  }
}

inline tell(me) {
#ifdef RELAXED_STORE
  store_relaxed(me, mine + 1)
#else
  store_release(me, me, mine + 1)
#endif
}

#ifdef NOT_ALL_WAITED_FOR
#define HAS_SAID(member) true
#else
#define HAS_SAID(member) (flag[member] != 0)
#endif

proctype member(byte me) {
  byte operation, mine, least = 255, other;
  do
  :: operation < OPERATIONS ->
    if
    :: flag[me] == 0 ->
#ifdef SAID_TOO_EARLY
      select(mine : 0 .. MOST);
      tell(me);
      atomic { write(me, me, 1); reserved[me] = mine }
#else
      reserve(me);
      tell(me)
#endif
    :: else
    fi;
    other = 0;
    do
    :: other < MEMBERS ->
      atomic {
        HAS_SAID(other) ->
        if
        :: flag[other] != 0 && other != me -> acquire(me, other)
        :: else
        fi;
        if
        :: flag[other] != 0 && flag[other] - 1 < least -> least = flag[other] - 1
        :: else
        fi;
        other++
      }
    :: else -> break
    od;
#ifdef OWN_COUNTS
    least = flag[me] - 1;
#endif
    atomic {
      assert(agreed == 255 || agreed == least);
      agreed = least;
      other = 0;
      do
      :: other < MEMBERS ->
        assert(reserved[other] >= least);
        if
        :: other != me -> read(me, other, 1)
        :: else
        fi;
        other++
      :: else -> break
      od;
      operation++
    }
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
