"""What is measured: collectives, sizes, places and temperatures of buffers, layouts of ranks."""

import dataclasses
import os

# In the order of protocol.h.
COLLECTIVES = [
    "all_reduce",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "send_recv",
    "barrier",
]
# With one element for each rank at least.
BLOCKED = {"gather", "scatter", "all_gather", "reduce_scatter", "all_to_all"}


@dataclasses.dataclass(frozen=True)
class Case:
    collective: str
    size: int  # bytes of the larger of a rank's input and output
    place: str  # "in" or "out"
    temperature: str  # "warm" or "cold"


@dataclasses.dataclass(frozen=True)
class Layout:
    ranks: int
    cores: tuple
    bound: bool  # each rank to one core, in turn; otherwise all may use all of them

    @property
    def share(self):
        return self.ranks > len(self.cores)

    @property
    def name(self):
        bound = "bound" if self.bound else "unbound"
        return f"{self.ranks} ranks on {len(self.cores)} cores, {bound}"


def layout(ranks, cores, binding):
    """`binding`: core, none, or auto, which binds when each rank has a core of its own."""
    if ranks <= len(cores):
        cores = cores[:ranks]
    bound = binding == "core" or (binding == "auto" and ranks <= len(cores))
    return Layout(ranks, tuple(cores), bound)


def usable_cores():
    return sorted(os.sched_getaffinity(0))


@dataclasses.dataclass(frozen=True)
class Selection:
    """Some of all cases."""

    collectives: tuple
    sizes: tuple
    places: tuple
    temperatures: tuple

    def cases(self, ranks):
        for collective in self.collectives:
            if collective == "barrier":
                yield Case(collective, 0, "out", "warm")
                continue
            smallest = 4 * ranks if collective in BLOCKED else 4
            for size in sorted({max(size, smallest) for size in self.sizes}):
                # Only all_reduce is offered in place by every library alike.
                for place in self.places if collective == "all_reduce" else ["out"]:
                    for temperature in self.temperatures:
                        yield Case(collective, size, place, temperature)


def cases(selections, ranks):
    """The cases of all selections, each once, in the order of COLLECTIVES."""
    found = dict.fromkeys(case for selection in selections for case in selection.cases(ranks))
    return sorted(found, key=lambda case: COLLECTIVES.index(case.collective))
