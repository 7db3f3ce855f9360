/* Memory as C++ orders it: which member may rely on having seen which write.
 *
 * The models do not reorder anything. They ask of every access to plain memory what C++ asks:
 * that it comes after the last conflicting access, not by luck but by a chain of release and
 * acquire. An access for which there is no such chain is an error, whatever a certain processor
 * would make of it. So a release or an acquire that is missing is found without a model of any
 * processor; and between two flags, the steps of a member need not be interleaved with those of
 * others, for whichever of two unordered accesses comes second is found out.
 *
 * Whoever includes this has defined MEMBERS, PLACES (plain memory) and FLAGS (atomics).
 *
 * unknown[x].about[p] says what x does not know of place p: bit 0, the last write; bit 1 + m, the
 * last read by member m since then. x is a member, or a flag: what whoever reads the flag learns.
 */
#define KNOWERS (MEMBERS + FLAGS)
#define NOTHING 255

typedef Ignorance {
  byte about[PLACES]
};
Ignorance unknown[KNOWERS]; /* zero: at first there are only zeros, and all know that */
byte value[PLACES];
byte flag[FLAGS];
hidden byte x_, y_, all_; /* for the loops below, each of which is one step */

inline write(by, place, what) {
  d_step {
    assert(unknown[by].about[place] == 0); /* written by another, or still being read */
    value[place] = what;
    for (x_ : 0 .. KNOWERS - 1) {
      unknown[x_].about[place] = 1 /* earlier reads are past for whoever knows this write */
    }
    unknown[by].about[place] = 0;
    x_ = 0
  }
}

inline read(by, place, what) {
  d_step {
    assert((unknown[by].about[place] & 1) == 0); /* being written */
    assert(value[place] == what);             /* of another use */
    for (x_ : 0 .. KNOWERS - 1) {
      unknown[x_].about[place] = unknown[x_].about[place] | ((x_ == by) -> 0 : (2 << by))
    }
    x_ = 0
  }
}

inline store_release(by, f, what) {
  d_step {
    flag[f] = what;
    for (x_ : 0 .. PLACES - 1) {
      unknown[MEMBERS + f].about[x_] = unknown[by].about[x_]
    }
    x_ = 0
  }
}

inline store_relaxed(f, what) {
  d_step {
    flag[f] = what;
    for (x_ : 0 .. PLACES - 1) {
      unknown[MEMBERS + f].about[x_] = NOTHING;
      forget(x_)
    }
    x_ = 0
  }
}

/* To be called where the flag has been found to have a value; one step with that. */
inline acquire(by, f) {
  d_step {
    for (x_ : 0 .. PLACES - 1) {
      if
      :: unknown[by].about[x_] & ~unknown[MEMBERS + f].about[x_] ->
        unknown[by].about[x_] = unknown[by].about[x_] & unknown[MEMBERS + f].about[x_];
        forget(x_)
      :: else
      fi
    }
    x_ = 0
  }
}

/* What all members know, no flag need tell any more: states that differ in that only are one. */
inline forget(place) {
  all_ = 0;
  for (y_ : 0 .. MEMBERS - 1) {
    all_ = all_ | unknown[y_].about[place]
  }
  for (y_ : MEMBERS .. KNOWERS - 1) {
    unknown[y_].about[place] = unknown[y_].about[place] & all_
  }
}

/* An addition leaves what earlier ones have told, and adds to it what this member knows. */
inline add_release(by, f, what) {
  d_step {
    flag[f] = flag[f] + what;
    for (x_ : 0 .. PLACES - 1) {
      unknown[MEMBERS + f].about[x_] = unknown[by].about[x_] & unknown[MEMBERS + f].about[x_]
    }
    x_ = 0
  }
}
