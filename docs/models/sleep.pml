/* Sleeping and waking (ShmChannel::begin_park, sleep, end_park, publish, wake_all; park_on): members
 * meet again and again. Each publishes its round and waits for the others, looking or sleeping.
 *
 * Here the order of writes to different flags counts, and of a write and a later load: a store that
 * is not sequentially consistent may stay in the member's store buffer, unseen by the others, while
 * the member goes on. An atomic addition empties the buffer, as it does on x86, and as C++ says
 * where all accesses are sequentially consistent.
 *
 * OVERSUBSCRIBED: stores are sequentially consistent, and a sleep has no limit in the model: if a wake-up
 * could be lost, a member would sleep for ever. Otherwise a sleep ends by itself at any time.
 */
#ifndef MEMBERS
#define MEMBERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 3
#endif

byte flag[MEMBERS];
byte bell[MEMBERS];
byte asleep[MEMBERS];
byte sleepers;
bool in_futex[MEMBERS];

/* A member's store buffer: one flag, which a later store of the same flag may overtake. */
bool is_buffered[MEMBERS];
byte buffered[MEMBERS];

inline empty_buffer(me) {
  if
  :: is_buffered[me] -> flag[me] = buffered[me]; buffered[me] = 0; is_buffered[me] = false
  :: else
  fi
}

inline store(me, t) {
#if defined(OVERSUBSCRIBED) && !defined(RELAXED_STORE)
  atomic { empty_buffer(me); flag[me] = t }
#else
  atomic { empty_buffer(me); is_buffered[me] = true; buffered[me] = t }
#endif
}

/* The sleepers' number is looked at first; most of the time there are none. */
inline wake_others(me) {
  if
  :: sleepers != 0 ->
    other = 0;
    do
    :: other == me -> other++
    :: other < MEMBERS && other != me ->
      if
      :: asleep[other] != 0 ->
#ifndef BELL_NOT_RUNG
        atomic { empty_buffer(me); bell[other]++ };
#endif
        in_futex[other] = false
      :: else
      fi;
      other++
    :: other == MEMBERS -> break
    od
  :: else
  fi
}

inline publish(me, t) {
#ifdef WAKE_BEFORE_STORE
  wake_others(me);
  store(me, t)
#else
  store(me, t);
  wake_others(me)
#endif
}

inline begin_park(me) {
#ifndef BELL_SEEN_LATE
  seen = bell[me];
#endif
  atomic { empty_buffer(me); asleep[me]++ };
#ifndef NOT_COUNTED
  atomic { empty_buffer(me); sleepers++ }
#endif
}

/* The kernel compares and goes to sleep in one step. */
inline futex_wait(me) {
  atomic {
    if
    :: bell[me] == seen -> in_futex[me] = true
    :: else
    fi
  }
#if defined(OVERSUBSCRIBED) || defined(NO_LIMIT)
  !in_futex[me]
#else
  in_futex[me] = false /* the limit is over, or it was woken */
#endif
}

inline end_park(me) {
#ifndef NOT_COUNTED
  atomic { empty_buffer(me); sleepers-- };
#endif
  atomic { empty_buffer(me); asleep[me]-- }
}

#define HAS_COME(member, t) (flag[member] >= (t))

inline wait_for(me, whom, t) {
  do
  :: HAS_COME(whom, t) -> break
  :: !HAS_COME(whom, t) -> /* it has waited long enough */
    begin_park(me);
    if
#ifndef NO_SECOND_LOOK
    :: HAS_COME(whom, t)
    :: !HAS_COME(whom, t) ->
#else
    :: true ->
#endif
#ifdef BELL_SEEN_LATE
      seen = bell[me];
#endif
      futex_wait(me)
    fi;
    end_park(me)
  od
}

proctype member(byte me) {
  byte t = 1, other, whom, seen;
  do
  :: t <= ROUNDS ->
    publish(me, t);
    whom = 0;
    do
    :: whom == me -> whom++
    :: whom < MEMBERS && whom != me -> wait_for(me, whom, t); whom++
    :: whom == MEMBERS -> break
    od;
    t++
  :: else -> break
  od
}

/* A processor empties the buffers when it likes, but some time. */
proctype processor(byte me) {
end:
  do
  :: atomic { is_buffered[me] -> empty_buffer(me) }
  od
}

init {
  byte i;
  atomic {
    for (i : 0 .. MEMBERS - 1) {
      run member(i);
      run processor(i)
    }
  }
}
