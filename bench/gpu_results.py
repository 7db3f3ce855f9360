#!/usr/bin/env python3
"""Makes docs/gpu-results.md out of what scripts/gpu-check has measured, with a picture.

    bench/gpu_results.py build/gpu-check/results > docs/gpu-results.md

Every .csv file there is one of `hymn bench all_reduce --memory device`; about.md, where it is, comes
first. The picture goes to docs/pictures, if gnuplot is installed.
"""

import argparse
import csv
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench" / "compare"))

import plots  # noqa: E402
from report import table  # noqa: E402

ONE_SHOT, TWO_SHOT = "all_reduce_one_shot", "all_reduce_two_shot"
BY_NCCL = "all_reduce_nccl"
LARGE, SMALL, LATENCY, FROM_HERE_LIKE_NCCL = 64 << 20, 64 << 10, 4096, 1 << 20
NAMES = {ONE_SHOT: "one shot", TWO_SHOT: "two shots", BY_NCCL: "through NCCL"}


def read(folder):
    """The rows, with numbers as such; those that were wrong are an error."""
    rows = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if row["algorithm"] not in NAMES:
                    raise SystemExit(f"{path}: {row['algorithm']} is not measured on GPUs")
                if row["wrong"] != "0":
                    raise SystemExit(f"{path}: {row['wrong']} wrong values of {row['size_bytes']}")
                for name in ("ranks", "size_bytes"):
                    row[name] = int(row[name])
                for name in ("time_us", "min_us", "max_us", "enqueue_us", "copy_gbps", "vs_time_us"):
                    row[name] = float(row[name]) if row.get(name) else None
                rows.append(row)
    return rows


def bytes_moved(algorithm, ranks, size):
    """What all ranks read and write in the memory of the one GPU that they share."""
    # One shot: into the slot, then the slots of all, and out.
    # Two: into the slot, a share of all slots, which is written twice, and the others' shares.
    by_rank = ranks + 3 if algorithm == ONE_SHOT else 5
    return ranks * by_rank * size


def part_of_bound(row):
    """The time in which the GPU copies as many bytes / the measured one."""
    if not row["copy_gbps"] or row["algorithm"] == BY_NCCL:
        return None
    moved = bytes_moved(row["algorithm"], row["ranks"], row["size_bytes"])
    return moved / (row["copy_gbps"] * 1e3) / row["time_us"]


def by_nccl(row):
    return row["time_us"] / row["vs_time_us"] if row["vs_time_us"] else None


def show(value, pattern="{:.3g}"):
    return "" if value is None else pattern.format(value)


def results_table(rows):
    lines = []
    for row in sorted(rows, key=lambda r: (r["ranks"], r["size_bytes"], r["algorithm"])):
        times = f"{show(row['time_us'])} ({show(row['min_us'])} to {show(row['max_us'])})"
        lines.append([
            str(row["ranks"]), str(row["size_bytes"]), NAMES[row["algorithm"]], times,
            show(row["vs_time_us"]), show(by_nccl(row), "{:.2f}"),
            show(part_of_bound(row), "{:.0%}"), show(row["enqueue_us"]),
        ])  # fmt: skip
    head = ["ranks", "bytes", "hymn", "us (min to max)", "NCCL, us", "hymn / NCCL", "of the bound",
            "to enqueue, us"]  # fmt: skip
    return table(head, lines)


def goal_lines(rows):
    """What was wanted, and what came of it."""

    def found(figure, algorithm, at_sizes, worst, pattern):
        values = [figure(r) for r in rows if r["algorithm"] == algorithm and at_sizes(r)]
        known = [value for value in values if value is not None]
        return pattern.format(worst(known)) if known else "not measured"

    goals = [
        ("two shots from 64 MiB, at least 85 % of the bound", part_of_bound, TWO_SHOT,
         lambda r: r["size_bytes"] >= LARGE, min, "least {:.0%}"),
        ("one shot up to 64 KiB, at most half of NCCL's time", by_nccl, ONE_SHOT,
         lambda r: r["size_bytes"] <= SMALL, max, "most {:.2f}"),
        ("2 ranks, 4 KiB in one shot, at most 6 us", lambda r: r["time_us"], ONE_SHOT,
         lambda r: (r["ranks"], r["size_bytes"]) == (2, LATENCY), max, "{:.2f} us"),
        ("through NCCL from 1 MiB, nothing measurable over plain NCCL", by_nccl, BY_NCCL,
         lambda r: r["size_bytes"] >= FROM_HERE_LIKE_NCCL, max, "most {:.2f}"),
        ("through NCCL, at most 5 us to enqueue", lambda r: r["enqueue_us"], BY_NCCL,
         lambda r: True, max, "most {:.2f} us"),
    ]  # fmt: skip
    return "".join(f"- {goal}: {found(*how)}\n" for goal, *how in goals)


def picture_script(rows):
    """A field for each number of ranks: the algorithms, NCCL, and the bound of two shots."""
    rows = [row for row in rows if row["algorithm"] != BY_NCCL]
    counts = sorted({row["ranks"] for row in rows})
    script = ["set logscale x 2\nset logscale y\nset grid\nset key below\n"]
    script.append("set xlabel 'bytes'\nset ylabel 'us'\nset format x '2^{%L}'\n")
    script.append(f"set multiplot layout 1,{len(counts)}\n")
    for ranks in counts:
        series = {}
        for row in rows:
            if row["ranks"] != ranks:
                continue
            size = row["size_bytes"]
            series.setdefault(NAMES[row["algorithm"]], []).append((size, row["time_us"]))
            if row["vs_time_us"]:
                series.setdefault("NCCL", []).append((size, row["vs_time_us"]))
            if row["algorithm"] == TWO_SHOT and row["copy_gbps"]:
                bound = part_of_bound(row) * row["time_us"]
                series.setdefault("bound of two shots", []).append((size, bound))
        blocks, plot = plots.curves(series)
        script += [blocks, f"set title '{ranks} ranks on one GPU'\n", plot]
    script.append("unset multiplot\n")
    return "".join(script), (440 * len(counts), 380)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--pictures", type=pathlib.Path, default=ROOT / "docs" / "pictures")
    arguments = parser.parse_args()
    rows = read(arguments.folder)
    if not rows:
        raise SystemExit(f"{arguments.folder} has no figures")
    about = arguments.folder / "about.md"
    print("# Results on a GPU\n")
    if about.exists():
        print(about.read_text())
    picture = arguments.pictures / "gpu_all_reduce.svg"
    has_curves = any(row["algorithm"] != BY_NCCL for row in rows)
    if has_curves and shutil.which("gnuplot") and plots.render(picture, *picture_script(rows)):
        print(f"![all_reduce through peer memory](pictures/{picture.name})\n")
    print("Bound: the time in which the GPU copies as many bytes as the ranks read and write.\n")
    print(goal_lines(rows))
    print(results_table(rows), end="")


if __name__ == "__main__":
    main()
