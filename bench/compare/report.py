"""What compare.py writes: lines for the terminal, a CSV file, and Markdown tables of the ratios."""

import csv
import math

import figures
from cases import COLLECTIVES

COLUMNS = [
    "date", "machine", "peer", "version", "collective", "bytes", "place", "temperature", "layout",
    "ranks", "cores", "bound", "pages", "offset", "root", "calls", "calls_in_a_row", "rounds",
    "median_us", "min_us", "max_us", "best_peer", "ratio_by_rounds", "ratio_of_medians",
    "ratio_of_minima",
]  # fmt: skip
RATIOS = ("ratio_by_rounds", "ratio_of_medians", "ratio_of_minima")

# What all_reduce must reach, hymn's time / that of the best peer, for each of figures.CLASSES, by
# (ranks, cores): the machine with two cores that the goals were set for.
ALL_REDUCE_GOALS = {
    (2, 2): [0.55, 0.38, 0.33, 0.32],
    (4, 2): [0.50, 0.25, 0.30, 0.27],
    (8, 2): [0.45, 0.25, 0.30, 0.28],
}
# Every other collective: no size above the first, the geometric mean not above the second.
OTHER_GOALS = (1.05, 0.5)


class CsvFile:
    """Written as the figures come, so that a run that is cut short keeps what it has."""

    def __init__(self, path):
        self.file = path.open("w", newline="")
        self.writer = csv.DictWriter(self.file, COLUMNS, restval="")
        self.writer.writeheader()

    def add(self, row):
        shown = {
            name: f"{value:.6g}" if isinstance(value, float) else value
            for name, value in row.items()
        }
        self.writer.writerow(shown)
        self.file.flush()

    def close(self):
        self.file.close()


def terminal_line(case, rows):
    words = [f"{case.collective:14} {figures.show_size(case.size):>6} {case.place:3}"]
    words.append(f"{case.temperature:4}")
    for row in rows:
        words.append(f"  {row['peer']} {figures.show_us(row['median_us']):>6}")
        if "ratio_by_rounds" in row and row["peer"].startswith("hymn"):
            words.append(f"({row['ratio_by_rounds']:.2f})")
    return " ".join(words)


def table(head, lines):
    text = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join(text + [f"| {' | '.join(line)} |" for line in lines]) + "\n"


def chosen(rows, **values):
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def times_table(rows):
    """A line for each size, with every peer's times and hymn's ratio."""
    names = list(dict.fromkeys(row["peer"] for row in rows))
    lines = []
    for size in sorted({row["bytes"] for row in rows}):
        here = {row["peer"]: row for row in chosen(rows, bytes=size)}
        line = [figures.show_size(size)]
        for name in names:
            row = here.get(name)
            line.append(show_times(row) if row else "")
        for name in ratio_names(rows):
            row = here.get(name, {})
            line += [show_ratio(row.get(ratio)) for ratio in RATIOS]
        lines.append(line)
    head = ["bytes", *(f"{name}, us" for name in names)]
    for name in ratio_names(rows):
        head += [f"{name} / best", "of medians", "of minima"]
    return table(head, lines)


def show_times(row):
    median, least, most = (figures.show_us(row[f"{kind}_us"]) for kind in ("median", "min", "max"))
    return f"{median} ({least}, {most})"


def ratio_names(rows):
    """hymn, and its variants, where there is a peer to compare with."""
    names = dict.fromkeys(row["peer"] for row in rows if row.get("ratio_by_rounds"))
    return [name for name in names if name.startswith("hymn")]


def show_ratio(ratio):
    return "" if ratio is None else f"{ratio:.2f}"


def ratios_table(rows):
    """A line for each collective, with hymn's ratio at each size."""
    ours = [row for row in chosen(rows, peer="hymn") if row.get("ratio_by_rounds")]
    sizes = sorted({row["bytes"] for row in ours if row["bytes"]})
    lines = []
    for collective in COLLECTIVES:
        ratios = {r["bytes"]: r["ratio_by_rounds"] for r in chosen(ours, collective=collective)}
        if not ratios:
            continue
        line = [collective]
        for size in sizes:
            # A barrier has no size: its figure stands in the first column.
            key = 0 if 0 in ratios and size == sizes[0] else size
            line.append(show_ratio(ratios.get(key)))
        line.append(f"{max(ratios.values()):.2f}")
        line.append(f"{figures.geometric_mean(ratios.values()):.2f}")
        lines.append(line)
    sizes = sizes or [0]
    head = ["hymn / best peer", *(figures.show_size(size) for size in sizes), "worst", "mean"]
    return table(head, lines) if lines else ""


def class_ratios(rows):
    """The ratios of all_reduce in each of figures.CLASSES."""
    found = [{} for _ in figures.CLASSES]
    for row in chosen(rows, peer="hymn", collective="all_reduce"):
        if row.get("ratio_by_rounds"):
            found[figures.size_class(row["bytes"])][row["bytes"]] = row["ratio_by_rounds"]
    return found


def verdict(ratios, goal):
    missed = [size for size, ratio in sorted(ratios.items()) if ratio > goal]
    if not missed:
        return "met"
    # A barrier has no size.
    sizes = ", ".join(figures.show_size(size) for size in missed if size)
    return f"**missed** at {sizes}" if sizes else "**missed**"


def goals_table(rows, ranks, cores):
    """hymn's ratios by size class, held against the goals where this layout has some."""
    goals = ALL_REDUCE_GOALS.get((ranks, cores), [math.inf] * len(figures.CLASSES))
    lines = []
    for (_, name), goal, ratios in zip(figures.CLASSES, goals, class_ratios(rows)):
        if not ratios:
            continue
        worst, mean = max(ratios.values()), figures.geometric_mean(ratios.values())
        known = goal < math.inf
        lines.append([f"all_reduce, {name}", f"{worst:.2f}", f"{mean:.2f}",
                      f"each ≤ {goal:.2f}" if known else "",
                      verdict(ratios, goal) if known else ""])  # fmt: skip
    for collective in COLLECTIVES[1:]:
        ratios = {
            row["bytes"]: row["ratio_by_rounds"]
            for row in chosen(rows, peer="hymn", collective=collective)
            if row.get("ratio_by_rounds")
        }
        if not ratios:
            continue
        worst, mean = max(ratios.values()), figures.geometric_mean(ratios.values())
        said = verdict(ratios, OTHER_GOALS[0])
        if mean > OTHER_GOALS[1]:
            said = ("" if said == "met" else said + "; ") + "**missed** by the mean"
        goal = f"each ≤ {OTHER_GOALS[0]}, mean ≤ {OTHER_GOALS[1]}"
        lines.append([collective, f"{worst:.2f}", f"{mean:.2f}", goal, said])
    head = ["hymn / best peer", "worst", "mean", "goal", ""]
    return table(head, lines) if lines else ""


def markdown(rows, facts):
    """The whole report. `facts` are pairs of a name and a text."""
    text = ["# hymn and other libraries, side by side\n"]
    text.append("".join(f"- {name}: {value}\n" for name, value in facts))
    text.append(
        "Times are microseconds for one call on the slowest rank: median (least, most) of the "
        "rounds. A ratio is hymn's time / that of the fastest other library in the same round, "
        "the median of the rounds: 1 is as fast, 0.5 twice as fast. Means of ratios are "
        "geometric.\n"
    )
    for layout in dict.fromkeys(row["layout"] for row in rows):
        here = chosen(rows, layout=layout)
        text.append(f"## {layout}\n")
        plain = chosen(here, place="out", temperature="warm")
        text.append(goals_table(plain, here[0]["ranks"], here[0]["cores"]))
        for place, temperature in dict.fromkeys((r["place"], r["temperature"]) for r in here):
            kind = chosen(here, place=place, temperature=temperature)
            words = f"{temperature} buffers, {'in' if place == 'in' else 'out of'} place"
            ratios = ratios_table(kind)
            if ratios:
                text.append(f"### Ratios, {words}\n")
                text.append(ratios)
            for collective in dict.fromkeys(row["collective"] for row in kind):
                text.append(f"### {collective}, {words}\n")
                text.append(times_table(chosen(kind, collective=collective)))
    return "\n".join(part for part in text if part)
