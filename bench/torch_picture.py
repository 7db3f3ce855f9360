#!/usr/bin/env python3
"""Draws what bench/torch_backends.py has printed: the times of all_reduce, a field for each number of ranks.

    for n in 2 4 8; do python bench/torch_backends.py --ranks $n; done >tables
    python3 bench/torch_picture.py tables docs/pictures/torch_all_reduce.svg
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench" / "compare"))

import plots  # noqa: E402: found by the line above

UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20}


def read(text, collective):
    """{ranks: {backend: [(bytes, median in us)]}}"""
    fields, backends, curves = {}, [], {}
    for line in text.splitlines():
        if ranks := re.match(r"(\d+) ranks, torch", line):
            curves = fields.setdefault(int(ranks[1]), {})
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "collective":
            backends = cells[2:-1]
        elif cells[0] == collective:
            number, unit = cells[1].split()
            for backend, cell in zip(backends, cells[2:]):
                point = (int(number) * UNITS[unit], float(cell.split()[0]))
                curves.setdefault(backend, []).append(point)
    return fields


def main():
    tables, picture = map(pathlib.Path, sys.argv[1:])
    fields = read(tables.read_text(), "all_reduce")
    if not fields:
        raise SystemExit(f"{tables} has no all_reduce")
    script = [plots.SIZES_AXIS, "set logscale y\nset yrange [10:1e6]\nset format y '10^{%L}'\nset ylabel 'us'\nset key left top\n"]
    script.append(f"set multiplot layout 1,{len(fields)}\n")
    for ranks, curves in sorted(fields.items()):
        blocks, plot = plots.curves(curves)
        script += [blocks, f"set title 'torch.distributed.all_reduce, {ranks} ranks' noenhanced\n", plot]
    script.append("unset multiplot\n")
    if not plots.render(picture, "".join(script), (400 * len(fields), 340)):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
