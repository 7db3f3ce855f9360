/* Streams of bytes between two processes (p2p/shm/byte_streams, rpc/link, rpc/engine): who sleeps is
 * woken for what comes, and for room. Process 0 has more to say than the pipe holds: a thread of the
 * program begins, and who leads there goes on when there is room. Process 1 reads.
 *
 * What counts is the order of a store and of a later load of something else, as in sleep.pml. Stores
 * are sequentially consistent; one that is not, by a fault, may stay in the thread's store buffer,
 * unseen by the others, while the thread goes on. Nobody sleeps with a limit here: a wake-up that is
 * lost is a sleep for ever.
 */
#ifndef MESSAGES
#define MESSAGES 4
#endif
#ifndef CAPACITY
#define CAPACITY 1
#endif

/* In the memory that both share. */
byte written, passed;
byte nap[2];        /* odd: its process sleeps */
bool room_wanted;

/* Of process 0, under its lock but for what its leader looks at. */
bool is_locked;
byte queued = MESSAGES;
byte sent;
bool wants_room;
byte full_at;

byte woken_from[2]; /* the nap of the other from which this process has woken it */
bool bell[2];       /* the socket has something to read */
bool is_over;

/* Threads: 0 the program's, 1 who leads in process 0, 2 who leads in process 1. */
#define NOTHING 0
#define WRITTEN 1
#define PASSED 2
#define NAP 3
#define WANTED 4
byte buffered[3];
byte value[3];

inline empty_buffer(me) {
  if
  :: buffered[me] == WRITTEN -> written = value[me]
  :: buffered[me] == PASSED -> passed = value[me]
  :: buffered[me] == NAP -> nap[me / 2] = value[me]
  :: buffered[me] == WANTED -> room_wanted = value[me]
  :: else
  fi;
  buffered[me] = NOTHING;
  value[me] = 0
}

inline store(me, what, now, is_relaxed) {
  atomic {
    empty_buffer(me);
    buffered[me] = what;
    value[me] = now;
    if
    :: is_relaxed
    :: else -> empty_buffer(me)
    fi
  }
}

#ifdef RELAXED_WRITTEN
#define IS_WRITTEN_RELAXED true
#else
#define IS_WRITTEN_RELAXED false
#endif
#ifdef RELAXED_PASSED
#define IS_PASSED_RELAXED true
#else
#define IS_PASSED_RELAXED false
#endif
#ifdef RELAXED_NAP
#define IS_NAP_RELAXED true
#else
#define IS_NAP_RELAXED false
#endif
#ifdef RELAXED_WANTED
#define IS_WANTED_RELAXED true
#else
#define IS_WANTED_RELAXED false
#endif

/* ByteStream::must_wake. `from`: a process. */
inline wake(from) {
  seen = nap[1 - from];
  if
#ifdef WOKEN_ONCE
  :: seen % 2 == 1 && woken_from[from] == 0 ->
#else
  :: seen % 2 == 1 && woken_from[from] != seen ->
#endif
    woken_from[from] = seen;
    bell[1 - from] = true
  :: else
  fi
}

/* ByteStream::want_room; sets `has_room`. */
inline want_room(me) {
  full_at = passed;
  if
  :: sent - full_at < CAPACITY -> has_room = true
  :: else ->
    wants_room = true;
    store(me, WANTED, 1, IS_WANTED_RELAXED);
#ifdef NO_LOOK_FOR_ROOM
    has_room = false
#else
    has_room = (passed != full_at)
#endif
  fi
}

/* Link::write_some */
inline write_some(me) {
  atomic { !is_locked -> is_locked = true };
  has_room = true;
  do
  :: queued > 0 && has_room ->
    if
    :: sent - passed < CAPACITY ->
      queued--;
      sent++;
#ifdef WOKEN_TOO_EARLY
      wake(0);
      store(me, WRITTEN, sent, false)
#else
      store(me, WRITTEN, sent, IS_WRITTEN_RELAXED);
      wake(0)
#endif
    :: else -> want_room(me)
    fi
  :: else -> break
  od;
  if
  :: queued == 0 && wants_room -> wants_room = false; store(me, WANTED, 0, false)
  :: else
  fi;
  is_locked = false
}

proctype program() {
  bool has_room;
  byte seen;
  write_some(0)
}

#ifdef ROOM_IS_NO_NEWS
#define NEWS_OF_ROOM false
#else
#define NEWS_OF_ROOM (wants_room && passed != full_at)
#endif
#define NEWS_OF_DATA (written > got)

/* Engine::sleep: says so, looks once more, and waits for the socket. */
inline sleep(me, naps, news) {
  naps++;
  store(me, NAP, naps, IS_NAP_RELAXED);
#ifdef NO_SECOND_LOOK
  atomic { bell[me / 2] || is_over -> bell[me / 2] = false };
#else
  if
  :: news
  :: else -> atomic { bell[me / 2] || is_over -> bell[me / 2] = false }
  fi;
#endif
  naps++;
  store(me, NAP, naps, false)
}

proctype writing_leader() {
  bool has_room;
  byte seen, naps;
  do
  :: is_over -> break
  :: !is_over && wants_room && passed != full_at -> write_some(1)
  :: !is_over && !(wants_room && passed != full_at) -> sleep(1, naps, NEWS_OF_ROOM)
  od
}

proctype reading_leader() {
  byte seen, naps, got;
  do
  :: got == MESSAGES -> is_over = true; break
  :: got < MESSAGES && NEWS_OF_DATA ->
    got++;
    store(2, PASSED, got, IS_PASSED_RELAXED);
    if
    :: room_wanted ->
      wake(1);
#ifdef WANTED_CLEARED
      room_wanted = false
#endif
    :: else
    fi
  :: got < MESSAGES && !NEWS_OF_DATA -> sleep(2, naps, NEWS_OF_DATA)
  od
}

/* A processor empties the buffers when it likes, but some time. */
proctype processor(byte me) {
end:
  do
  :: atomic { buffered[me] != NOTHING -> empty_buffer(me) }
  od
}

init {
  atomic {
    run program();
    run writing_leader();
    run reading_leader();
    run processor(0);
    run processor(1);
    run processor(2)
  }
}
