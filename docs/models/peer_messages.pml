/* Messages between two ranks through staging buffers (collectives/cuda/peer_link): the sender puts pieces into
 * two boxes of the receiver's staging buffer, in turn, and both count them.
 *
 * A member is one block of one rank, in one direction: what blocks do is apart. Each message is a
 * kernel. BOTH: each rank sends and receives at the same time. GIVING_UP: who waits may give up at any
 * time, as at a limit; what is received must be right nevertheless. HOST: the sender's host may give
 * up, too, and writes then to the buffer that is being sent: what is received is nothing of that.
 */
#ifndef MESSAGES
#define MESSAGES 4
#endif
#define PIECES(message) (1 + (message) % 3)

#ifdef BOTH
#define DIRECTIONS 2
#else
#define DIRECTIONS 1
#endif
#define MEMBERS (2 * DIRECTIONS)
#define SENDER(direction) (2 * (direction))
#define RECEIVER(direction) (2 * (direction) + 1)

/* What is wrong when one of these is defined. */
#ifdef ONE_BOX
#define BOX(direction, piece) (2 * (direction))
#else
#define BOX(direction, piece) (2 * (direction) + (piece) % 2)
#endif
#define PLACES (2 * DIRECTIONS)

#define SENT(direction) (direction)
#define TAKEN(direction) (2 + (direction))
#define FAILED(rank) (4 + (rank))
#define ABORTED 6
#define FLAGS 7
#include "memory.pml"

/* Of a rank and a direction: the pieces of all kernels that have come to their end. */
byte count[2 * 2];
#ifdef SHARED_COUNT
#define COUNT(rank, direction) count[rank]
#else
#define COUNT(rank, direction) count[2 * (rank) + (direction)]
#endif

bool is_spoiled = false; /* the buffers that are sent */
bool has_spoiled[DIRECTIONS * MESSAGES]; /* what was copied of each message */
#define HAS_SPOILED has_spoiled[direction * MESSAGES + message - 1]

inline wait_for(me, rank, f, number) {
  if
  :: atomic {
    flag[f] >= (number);
#ifndef RELAXED_LOAD
    acquire(me, f)
#endif
  }
#ifdef GIVING_UP
  :: store_release(me, FAILED(rank), 1); failed = true
#endif
  fi
}

inline tell(me, f, number) {
#ifdef RELAXED_STORE
  store_relaxed(f, number)
#else
  store_release(me, f, number)
#endif
}

inline begin(rank) {
#ifndef FAILED_NOT_LOOKED_AT
  failed = (flag[FAILED(rank)] != 0);
#endif
  number = COUNT(rank, direction);
  piece = 0
}

inline look(me, rank) {
#ifdef HOST
  if
  :: flag[ABORTED] != 0 -> store_release(me, FAILED(rank), 1); failed = true
  :: else
  fi
#else
  skip
#endif
}

inline send_piece(me) {
#ifdef TOLD_TOO_EARLY
  tell(me, SENT(direction), number);
#endif
  atomic {
    write(me, BOX(direction, number), number);
    HAS_SPOILED = HAS_SPOILED || is_spoiled
  }
}

proctype sender(byte direction) {
  byte rank = direction, message = 1, piece, number;
  bool failed = false;
  do
  :: message <= MESSAGES && !failed ->
    begin(rank);
    do
    :: piece < PIECES(message) && !failed ->
      number++;
#ifndef BOX_NOT_WAITED_FOR
      if
      :: number > 2 -> wait_for(SENDER(direction), rank, TAKEN(direction), number - 2)
      :: else
      fi;
#endif
      if
      :: failed
      :: else ->
#ifdef LOOKED_TOO_EARLY
        look(SENDER(direction), rank);
#endif
        send_piece(SENDER(direction));
#if !defined(LOOKED_TOO_EARLY) && !defined(NOT_LOOKED)
        if
        :: piece + 1 == PIECES(message) -> look(SENDER(direction), rank)
        :: else
        fi;
#endif
#ifndef TOLD_TOO_EARLY
        if
        :: failed
        :: else -> tell(SENDER(direction), SENT(direction), number)
        fi;
#endif
        piece++
      fi
    :: else -> break
    od;
    if
    :: failed
    :: else -> COUNT(rank, direction) = number
    fi;
#ifdef FAILED_NOT_LOOKED_AT
    failed = false;
#endif
    message++
  :: else -> break
  od
}

proctype receiver(byte direction) {
  byte rank = 1 - direction, message = 1, piece, number;
  bool failed = false;
  do
  :: message <= MESSAGES && !failed ->
    begin(rank);
    do
    :: piece < PIECES(message) && !failed ->
      number++;
      wait_for(RECEIVER(direction), rank, SENT(direction), number);
      if
      :: failed
      :: else ->
#ifdef TAKEN_TOO_EARLY
        tell(RECEIVER(direction), TAKEN(direction), number);
#endif
        read(RECEIVER(direction), BOX(direction, number), number);
        piece++;
        assert(piece < PIECES(message) || !HAS_SPOILED);
#ifndef TAKEN_TOO_EARLY
        tell(RECEIVER(direction), TAKEN(direction), number)
#endif
      fi
    :: else -> break
    od;
    if
    :: failed
    :: else -> COUNT(rank, direction) = number
    fi;
#ifdef FAILED_NOT_LOOKED_AT
    failed = false;
#endif
    message++
  :: else -> break
  od
}

#ifdef HOST
proctype host() {
  flag[ABORTED] = 1;
  is_spoiled = true
}
#endif

init {
  atomic {
    run sender(0);
    run receiver(0);
#ifdef BOTH
    run sender(1);
    run receiver(1);
#endif
#ifdef HOST
    run host()
#endif
  }
}
