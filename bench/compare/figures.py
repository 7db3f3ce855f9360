"""Medians, ratios and size classes: what compare.py makes of the times that it has collected."""

import math
import statistics

KIB = 1 << 10
MIB = 1 << 20

# The largest size of each class of all_reduce and its name. The last one is open.
CLASSES = [
    (256, "to 256 B"),
    (4 * KIB, "512 B to 4 KB"),
    (MIB, "8 KB to 1 MB"),
    (math.inf, "above 1 MB"),
]


def size_class(size):
    """The index of a size in CLASSES."""
    return next(i for i, (largest, _) in enumerate(CLASSES) if size <= largest)


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(math.log(value) for value in values) / len(values))


def fastest(times):
    """The name with the least median of {name: [time of each round]}; None of nothing."""
    return min(times, key=lambda name: statistics.median(times[name]), default=None)


def ratio_by_rounds(ours, theirs):
    """The median of the ratios of times of the same round. One side may have fewer rounds."""
    return statistics.median(a / b for a, b in zip(ours, theirs))


def sizes(smallest, largest, factor):
    """smallest, smallest * factor, … to largest, and largest."""
    found = []
    while smallest < largest:
        found.append(smallest)
        smallest *= factor
    return found + [largest]


def parse_size(text):
    """'64M' is 67108864."""
    units = {"K": KIB, "M": MIB, "G": KIB * MIB}
    unit = units.get(text[-1:].upper(), 1)
    size = int(text if unit == 1 else text[:-1]) * unit
    if size <= 0:
        raise ValueError(f"'{text}' is not a size")
    return size


def show_size(size):
    for unit, name in ((MIB, "M"), (KIB, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return str(size)


def show_us(us):
    """A time with four digits, or all before the point."""
    return f"{us:.{max(0, 4 - len(str(int(us))))}f}"
