/* Short messages from one member to another (p2p/shm/message_ring): lines of which the first says,
 * by a word that is not zero, that a message is there. The other lines of a message hold its bytes,
 * and may look like such a word. So whoever writes clears the word behind a message before it shows
 * the message, and keeps a line free for that. How far the other has read it learns now and then.
 */
#ifndef MESSAGES
#define MESSAGES 8
#endif
#define MEMBERS 2
#define LINES 8
#define LONGEST (LINES / 4 + 2)

#define WRITER 0
#define READER 1
#define PLACES LINES
#define READ_TO LINES /* behind the words of the lines */
#define FLAGS (LINES + 1)
#include "memory.pml"

#define WORD(message, lines) (8 * (message) + (lines))
#define BYTES 255 /* bytes of a message, taken for a word */

/* What is wrong when one of these is defined. */
#ifdef NO_SPARE_LINE
#define NEEDED(lines) (lines)
#else
#define NEEDED(lines) ((lines) + 1)
#endif
#ifdef TOLD_TOO_SELDOM
#define UNTOLD LINES
#else
#define UNTOLD (LINES / 4)
#endif
#ifdef RELAXED_LOAD
#define LEARN(me, f) skip
#else
#define LEARN(me, f) acquire(me, f)
#endif

inline clear_next() {
  store_relaxed((next + lines) % LINES, 0)
}

proctype writer() {
  byte message = 1, lines, next, i;
  do
  :: message <= MESSAGES ->
    select(lines : 1 .. LONGEST);
    atomic {
      next + NEEDED(lines) - flag[READ_TO] <= LINES -> LEARN(WRITER, READ_TO);
      i = 0;
      do
      :: i < lines ->
        write(WRITER, (next + i) % LINES, message);
        if
        :: i > 0 -> flag[(next + i) % LINES] = BYTES
        :: else
        fi;
        i++
      :: else -> break
      od
    };
#if !defined(NEXT_NOT_CLEARED) && !defined(CLEARED_LATE)
    clear_next();
#endif
#ifdef RELAXED_WORD
    store_relaxed(next % LINES, WORD(message, lines));
#else
    store_release(WRITER, next % LINES, WORD(message, lines));
#endif
#ifdef CLEARED_LATE
    clear_next();
#endif
    atomic { next = next + lines; message++ }
  :: else -> break
  od
}

proctype reader() {
  byte message = 1, lines, next, told, i;
  do
  :: message <= MESSAGES ->
    atomic {
      flag[next % LINES] != 0 ->
      assert(flag[next % LINES] / 8 == message);
      LEARN(READER, next % LINES);
      lines = flag[next % LINES] % 8;
      i = 0;
      do
      :: i < lines -> read(READER, (next + i) % LINES, message); i++
      :: else -> break
      od;
      next = next + lines;
      message++
    };
    if
    :: next - told >= UNTOLD ->
      atomic {
        told = next;
#ifdef RELAXED_READ
        store_relaxed(READ_TO, next)
#else
        store_release(READER, READ_TO, next)
#endif
      }
    :: else
    fi
  :: else -> break
  od
}

init {
  atomic {
    run writer();
    run reader()
  }
}
