#!/usr/bin/env python3
"""Backends of torch.distributed beside each other on the CPUs of this host: hymn and Gloo.

    python bench/torch_backends.py [--ranks 2] [--backends hymn,gloo] [--min 4] [--max 67108864]

Each size of each collective is run with the backends in turns, several times: what the machine does to
one it does to the other. A turn is as many calls as take about --seconds; its figure is the time of one
call on the slowest rank. The table has the medians of the turns, with the least and the greatest. Inputs
change with every call, and the results of the first and the last call of a turn are checked.
"""

import statistics
import time

import torch
import torch.distributed as dist

import hymn_torch
from torch_ranks import begin_groups, cell, conditions, end_ranks, parser_of, slowest, start

SHARED = ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "broadcast")


class Collective:
    """One collective over `count` floats of this rank: its buffers, its call, and its check."""

    def __init__(self, name, size_in_bytes, rank, ranks, group):
        self.name, self.rank, self.ranks, self.group = name, rank, ranks, group
        count = max(size_in_bytes // 4, 1)
        if name in ("reduce_scatter_tensor", "all_to_all_single"):
            count = max(count // ranks, 1) * ranks  # a block for each rank
        self.input = torch.zeros(count)
        outputs = {
            "all_gather_into_tensor": count * ranks,
            "reduce_scatter_tensor": count // ranks,
            "all_to_all_single": count,
        }
        self.output = torch.zeros(outputs.get(name, 0))

    def value(self, rank, step):
        return float((rank + 1) * (step % 5 + 1))

    def prepare(self, step):
        """Another input for every call; an all_reduce works in place."""
        self.input.fill_(self.value(self.rank, step))

    def change(self, step):
        """As little as makes a difference, for this is measured, too."""
        if self.input.numel():
            self.input[0] = self.value(self.rank, step)
            self.input[-1] = self.value(self.rank, step)

    def call(self):
        if self.name == "all_reduce":
            dist.all_reduce(self.input, group=self.group)
        elif self.name == "all_gather_into_tensor":
            dist.all_gather_into_tensor(self.output, self.input, group=self.group)
        elif self.name == "reduce_scatter_tensor":
            dist.reduce_scatter_tensor(self.output, self.input, group=self.group)
        elif self.name == "all_to_all_single":
            dist.all_to_all_single(self.output, self.input, group=self.group)
        elif self.name == "broadcast":
            dist.broadcast(self.input, 0, group=self.group)
        else:
            dist.barrier(group=self.group)

    def check(self, step):
        """After a call with prepare(step)."""
        values = [self.value(r, step) for r in range(self.ranks)]
        if self.name == "all_reduce":
            assert (self.input == sum(values)).all(), "all_reduce is wrong"
        elif self.name == "broadcast":
            assert (self.input == values[0]).all(), "broadcast is wrong"
        elif self.name == "reduce_scatter_tensor":
            assert (self.output == sum(values)).all(), "reduce_scatter_tensor is wrong"
        elif self.name != "barrier":
            expected = torch.tensor(values).unsqueeze(1).expand(-1, self.output.numel() // self.ranks)
            assert torch.equal(self.output.view(self.ranks, -1), expected), f"{self.name} is wrong"


def checked_call(collective, step):
    collective.prepare(step)
    collective.call()
    collective.check(step)


def turn(collective, calls):
    """Microseconds of one call, on this rank."""
    checked_call(collective, calls)
    dist.barrier(group=collective.group)
    began = time.perf_counter()
    for step in range(calls):
        collective.change(step)
        collective.call()
    passed = time.perf_counter() - began
    checked_call(collective, calls + 1)
    return passed / calls * 1e6


def compare(name, size, options, rank, groups):
    """The figures of each backend."""
    collectives = {b: Collective(name, size, rank, options.ranks, g) for b, g in groups.items()}
    calls, figures = {}, {b: [] for b in groups}
    for backend, collective in collectives.items():
        once = slowest(turn(collective, 3))
        once = slowest(turn(collective, max(3, min(200, int(2e4 / once)))))
        calls[backend] = max(3, min(5000, int(options.seconds * 1e6 / once)))
    for _ in range(options.turns):
        for backend, collective in collectives.items():
            figures[backend].append(slowest(turn(collective, calls[backend])))
    return figures


def text_of(bytes_):
    for unit, name in ((1 << 20, "MB"), (1 << 10, "KB")):
        if bytes_ >= unit:
            return f"{bytes_ // unit} {name}"
    return f"{bytes_} B"


def sizes_of(options):
    size = options.min
    while size <= options.max:
        yield size
        size *= options.factor


def rank_main(rank, options):
    groups = begin_groups(rank, options)
    backends = list(groups)
    if rank == 0:
        print(f"{conditions(options)}; hymn {hymn_torch.hymn_version()}; us, median (least–greatest) of "
              f"{options.turns} turns")
        print("| collective | size | " + " | ".join(backends) + f" | {backends[0]} / {backends[-1]} |")
        print("|---|---|" + "---|" * (len(backends) + 1), flush=True)
    for name in options.collectives.split(","):
        for size in sizes_of(options) if name != "barrier" else [0]:
            figures = compare(name, size, options, rank, groups)
            if rank != 0:
                continue
            medians = [statistics.median(figures[b]) for b in backends]
            cells = [cell(figures[b]) for b in backends]
            print(f"| {name} | {text_of(size) if size else ''} | " + " | ".join(cells)
                  + f" | {medians[0] / medians[-1]:.3f} |", flush=True)
    end_ranks()


def main():
    parser = parser_of(__doc__, turns=5)
    parser.add_argument("--backends", default="hymn,gloo")
    parser.add_argument("--collectives", default=",".join((*SHARED, "barrier")))
    parser.add_argument("--min", type=int, default=4, help="bytes of each rank's input")
    parser.add_argument("--max", type=int, default=64 << 20)
    parser.add_argument("--factor", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=0.2, help="how long a turn takes")
    start(rank_main, parser.parse_args())


if __name__ == "__main__":
    main()
