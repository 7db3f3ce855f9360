/* Kernels that work with peers (collectives/cuda/peer_meeting, and the algorithms over it): each rank
 * shows data in a slot of its staging buffer, block by block, and reads what its peers have shown.
 *
 * A member is one block of one rank's kernels. Kernels of a rank run one after the other, those of
 * different ranks as they like. They have different numbers of blocks: every second one has only the
 * first; and a block has another part of the data in the next kernel that uses the same slot.
 * IN_ONE_KERNEL: what is called a launch is a piece of one kernel, in which a block waits for no other
 * of its rank, and has the same part of all pieces. TWO_SHOT: shares are folded, and shown, too. GIVING_UP: who waits may give up at any time, as at a
 * limit; what is read must be right nevertheless.
 */
#ifndef LAUNCHES
#define LAUNCHES 4
#endif
#define RANKS 2
#define PARTS 2 /* of the data, and blocks of the larger kernels */
#define MEMBERS (RANKS * PARTS)

#ifdef TWO_SHOT
#define SHARES RANKS
#else
#define SHARES 1
#endif

#ifdef IN_ONE_KERNEL
#define NO_STREAM
#define BLOCKS(launch) PARTS
#ifdef OTHER_PARTS
#define FIRST_PART(launch, block) (((block) + (launch) / 2) % 2)
#else
#define FIRST_PART(launch, block) (block)
#endif
#define END_OF_PARTS(launch, block) (FIRST_PART(launch, block) + 1)
#else
#define BLOCKS(launch) (1 + (launch) % 2)
#define STARTED(launch) (((launch) - 1) + (launch) / 2) /* blocks of all launches before */
#define FIRST_PART(launch, block) (((launch) % 2) * (((block) + (launch) / 2) % 2))
#define END_OF_PARTS(launch, block) (((launch) % 2) -> FIRST_PART(launch, block) + 1 : PARTS)
#endif

/* What is wrong when one of these is defined. */
#ifdef ONE_SLOT
#define SLOT(number) 0
#else
#define SLOT(number) ((number) % 2)
#endif

#define PLACE(rank, number, part, share) \
  ((((rank) * 2 + SLOT(number)) * PARTS + (part)) * SHARES + (share))
#define PLACES (RANKS * 2 * PARTS * SHARES)
#define STAGED 0
#define FOLDED 1
/* Where it is, who writes it. */
#define REACHED(phase, block, where, who) \
  ((((phase) * PARTS + (block)) * RANKS + (where)) * RANKS + (who))
#define EXITED(rank) (2 * PARTS * RANKS * RANKS + (rank)) /* blocks of a rank */
#define FAILED(rank) (EXITED(rank) + RANKS)
#define FLAGS (2 * PARTS * RANKS * RANKS + 2 * RANKS)
#include "memory.pml"

#define FOLDED_VALUE(number) (64 + (number))

byte finished[RANKS]; /* blocks of the kernel that runs */
byte kernels[RANKS];  /* that have come to their end */

inline tell(me, phase, number) {
  other = 0;
  do
  :: other < RANKS ->
#ifdef RELAXED_STORE
    store_relaxed(REACHED(phase, block, other, rank), number);
#else
    store_release(me, REACHED(phase, block, other, rank), number);
#endif
    other++
  :: else -> break
  od
}

inline wait_for_all(me, phase, number) {
  other = 0;
  do
  :: other < RANKS && !failed ->
    if
#ifdef PEER_NOT_WAITED_FOR
    :: other != rank && phase == STAGED && launch == 2 -> skip
#endif
    :: atomic {
      flag[REACHED(phase, block, rank, other)] >= number;
#ifndef RELAXED_LOAD
      acquire(me, REACHED(phase, block, rank, other))
#endif
    }
#ifdef GIVING_UP
    :: store_release(me, FAILED(rank), 1); failed = true
#endif
    fi;
    other++
  :: else -> break
  od
}

#define FOR_PARTS(act) \
  part = FIRST_PART(launch, block); \
  do \
  :: part < END_OF_PARTS(launch, block) -> act; part++ \
  :: else -> break \
  od

inline stage_part(me, number) {
  share = 0;
  do
  :: share < SHARES -> write(me, PLACE(rank, number, part, share), number); share++
  :: else -> break
  od
}

inline read_all(me, number) {
  other = 0;
  do
  :: other < RANKS -> read(me, PLACE(other, number, part, 0), number); other++
  :: else -> break
  od
}

inline fold_share(me, number) {
  other = 0;
  do
  :: other < RANKS -> read(me, PLACE(other, number, part, rank), number); other++
  :: else -> break
  od;
  write(me, PLACE(rank, number, part, rank), FOLDED_VALUE(number))
}

inline take_shares(me, number) {
  other = 0;
  do
  :: other < RANKS ->
    if
    :: other != rank -> read(me, PLACE(other, number, part, other), FOLDED_VALUE(number))
    :: else
    fi;
    other++
  :: else -> break
  od
}

inline kernel(me, number) {
  atomic {
#ifdef TOLD_TOO_EARLY
    tell(me, STAGED, number);
#endif
    FOR_PARTS(stage_part(me, number));
#ifndef TOLD_TOO_EARLY
    tell(me, STAGED, number)
#endif
  }
  wait_for_all(me, STAGED, number);
  if
  :: failed
  :: else ->
#ifdef TWO_SHOT
    atomic {
      FOR_PARTS(fold_share(me, number));
      tell(me, FOLDED, number)
    }
#ifndef FOLDED_NOT_WAITED_FOR
    wait_for_all(me, FOLDED, number);
#endif
    if
    :: failed
    :: else -> atomic { FOR_PARTS(take_shares(me, number)) }
    fi
#else
    atomic { FOR_PARTS(read_all(me, number)) }
#endif
  fi
}

proctype member(byte me) {
  byte rank = me / PARTS, block = me % PARTS, launch = 1, number, other, part, share;
  bool failed = false;
  do
  :: launch <= LAUNCHES ->
    if
    :: block < BLOCKS(launch) ->
#ifndef NO_STREAM
      atomic {
        flag[EXITED(rank)] >= STARTED(launch);
        acquire(me, EXITED(rank))
      }
#endif
#ifdef NO_STREAM
      number = launch;
#else
      number = kernels[rank] + 1;
#endif
      failed = false;
#ifndef FAILED_NOT_LOOKED_AT
      failed = (flag[FAILED(rank)] != 0);
#endif
      if
      :: failed
      :: else -> kernel(me, number)
      fi;
      atomic {
        if
        :: !failed ->
          finished[rank]++;
          if
          :: finished[rank] == BLOCKS(launch) -> finished[rank] = 0; kernels[rank]++
          :: else
          fi
        :: else
        fi;
        add_release(me, EXITED(rank), 1)
      }
#ifdef IN_ONE_KERNEL
      if
      :: failed -> break
      :: else
      fi
#endif
    :: else
    fi;
    launch++
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
