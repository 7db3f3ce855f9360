/* The collective-level join (GroupShadow): members whose input is at an end follow the collectives
 * of those that go on, by what these show: the number of collectives that they have entered, how
 * often they have run out (joins), and how many they had entered then (joined_at). A last
 * collective, which all make, ends each round.
 */
#ifndef MEMBERS
#define MEMBERS 3
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef MOST
#define MOST 2 /* inputs of a member in one round */
#endif
#define CALLS (ROUNDS * (MOST + 1)) /* one more in each round for its end */

byte entered[MEMBERS];
byte joins[MEMBERS];
byte joined_at[MEMBERS];
byte made[CALLS + 1]; /* what collective that is: 2 * round, + 1 for the end of the round; 0: none */

/* All members that make a collective make the same one; its record is there when it is entered. */
inline enter(me, what) {
  atomic {
    assert(entered[me] < CALLS);
    assert(made[entered[me] + 1] == 0 || made[entered[me] + 1] == what);
    made[entered[me] + 1] = what;
    entered[me]++
  }
}

/* Complete when all have entered it. */
inline complete(me) {
  other = 0;
  do
  :: other < MEMBERS -> (entered[other] >= entered[me]); other++
  :: else -> break
  od
}

#ifdef FLAG_ONLY
#define HAS_JOINED(member) (joins[member] > 0)
#else
#define HAS_JOINED(member) (joins[member] >= round)
#endif

/* A member that has not run out makes what it enters itself; one that has, up to then. */
#ifdef ANY_AHEAD
#define MAKES_MORE(me, member) true
#else
#define MAKES_MORE(me, member) (!HAS_JOINED(member) || joined_at[member] > entered[me])
#endif
#define IS_AHEAD(me, member) (entered[member] > entered[me])

/* In two steps, between which anything may happen; and what was seen may be old when it is used. */
inline look_ahead(me) {
  ahead = false;
  other = 0;
  do
  :: other < MEMBERS ->
#ifdef RUN_OUT_LOOKED_FOR_FIRST
    seen = MAKES_MORE(me, other);
    seen = seen && IS_AHEAD(me, other);
#else
    seen = IS_AHEAD(me, other);
    seen = seen && MAKES_MORE(me, other);
#endif
    atomic {
      ahead = ahead || seen;
      other++
    }
  :: else -> break
  od
}

inline look_for_the_end(me) {
  all = true;
  most = 0;
  other = 0;
  do
  :: other < MEMBERS ->
    if
    :: HAS_JOINED(other) ->
      atomic {
        if
        :: joined_at[other] > most -> most = joined_at[other]
        :: else
        fi
      }
    :: !HAS_JOINED(other) -> all = false
    fi;
    other++
  :: else -> break
  od
}

inline join(me) {
#ifdef TOLD_TOO_EARLY
  joins[me] = round;
  joined_at[me] = entered[me]
#else
  joined_at[me] = entered[me];
  joins[me] = round
#endif
}

/* Somebody is ahead of this member, or all have run out: until then there is nothing to do. Members
 * look all the time; here, where nothing may go round in circles, once more than they need.
 */
#define CAN_FOLLOW(me, member) (IS_AHEAD(me, member) && MAKES_MORE(me, member))
#if MEMBERS == 2
#define SOMEBODY_AHEAD(me) CAN_FOLLOW(me, 1 - me)
#define ALL_JOINED (HAS_JOINED(0) && HAS_JOINED(1))
#else
#define SOMEBODY_AHEAD(me) (CAN_FOLLOW(me, 0) || CAN_FOLLOW(me, 1) || CAN_FOLLOW(me, 2))
#define ALL_JOINED (HAS_JOINED(0) && HAS_JOINED(1) && HAS_JOINED(2))
#endif

inline follow(me) {
  looks = 1;
  do
  :: atomic { (SOMEBODY_AHEAD(me) || ALL_JOINED || looks > 0) ->
      if
      :: (SOMEBODY_AHEAD(me) || ALL_JOINED)
      :: looks > 0 -> looks--
      fi }
    look_ahead(me);
    if
    :: ahead -> enter(me, 2 * round) /* not without what others are in */
    :: else ->
      look_for_the_end(me);
      if
#ifdef END_NOT_COUNTED
      :: all -> break
#else
      :: all && most <= entered[me] -> break
#endif
      :: else
      fi
    fi
  od
}

proctype member(byte me) {
  byte round = 1, inputs, other, most, looks;
  bool ahead, all, seen;
  do
  :: round <= ROUNDS ->
    select(inputs : 0 .. MOST);
    do
    :: inputs > 0 ->
      enter(me, 2 * round);
      if
      :: complete(me)
      :: skip /* left in flight */
      fi;
      inputs--
    :: else -> break
    od;
    join(me);
    follow(me);
#ifndef NO_PARTING
    enter(me, 2 * round + 1);
    complete(me);
#endif
    round++
  :: else -> break
  od;
  /* It has left: what it shows may be gone. */
  joins[me] = 0
}

init {
  byte i;
  atomic {
    for (i : 0 .. MEMBERS - 1) {
      run member(i)
    }
  }
}
