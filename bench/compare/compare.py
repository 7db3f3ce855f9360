#!/usr/bin/env python3
"""Measures hymn and the MPI libraries of this machine side by side.

All jobs run at once, each below its own launcher, but only one works at a time, in turns of a few
milliseconds; the ranks of the others sleep. docs/benchmarks.md tells how to read the figures.
"""

import argparse
import pathlib
import signal
import statistics
import sys
import time

import cases
import figures
import peers
from job import Job, JobError, WrongResult

MOST_CALLS = 20000
LEAST_CALLS = 3
LEAST_ROUNDS = 5
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words = lambda text: [word for word in text.split(",") if word]
    parser.add_argument("--collective", type=words, default=[], help="a list; default: all")
    parser.add_argument("--ranks", type=lambda t: [int(w) for w in words(t)], default=[],
                        help="a list; default: N, 2N and 4N for N cores")
    parser.add_argument("--cores", type=lambda t: [int(w) for w in words(t)],
                        default=cases.usable_cores())
    parser.add_argument("--bind", choices=["auto", "core", "none"], default="auto")
    parser.add_argument("--min", type=figures.parse_size, default=4)
    parser.add_argument("--max", type=figures.parse_size, default=64 * figures.MIB)
    parser.add_argument("--factor", type=int, default=4)
    parser.add_argument("--place", choices=["out", "in", "both"], default="out")
    parser.add_argument("--temperature", choices=["warm", "cold", "both"], default="warm")
    parser.add_argument("--pages", choices=["small", "huge"], default="small")
    parser.add_argument("--offset", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--block-ms", type=float, default=2)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", type=words, default=[])
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--variant", action="append", default=[])
    options = parser.parse_args()
    options.cache_bytes = 64 * figures.MIB
    return options


def enough_calls(job, case, options):
    """How many calls make a block; None when the peer has no such collective."""
    calls = 1
    while True:
        # The least of several: an interruption must not pass for a slow operation.
        tries = []
        for _ in range(3):
            asked = job.ask(case, calls, check_all=not tries)
            if asked is None:
                return None
            tries.append(asked[0])
            if tries[0] * calls > 1000 * options.block_ms:
                break
        us = min(tries)
        if us * calls >= 1000 * options.block_ms / 8 or calls >= MOST_CALLS:
            return int(min(max(1000 * options.block_ms / us, LEAST_CALLS), MOST_CALLS))
        calls *= 8


def measure(jobs, case, options):
    """{name: [microseconds of each round]}"""
    calls = {}
    failed = {}
    for job in jobs:
        try:
            calls[job] = enough_calls(job, case, options)
        except (JobError, WrongResult) as error:
            failed[job] = error
    taking_part = [job for job in jobs if calls.get(job)]
    times = {job: [] for job in taking_part}
    begin = time.monotonic()
    for turn in range(options.rounds):
        if turn >= LEAST_ROUNDS and time.monotonic() - begin > options.seconds:
            break
        first = turn % max(1, len(taking_part))
        for job in taking_part[first:] + taking_part[:first]:
            if job in failed:
                continue
            try:
                times[job].append(job.ask(case, calls[job])[0])
            except (JobError, WrongResult) as error:
                failed[job] = error
    return {job: rounds for job, rounds in times.items() if job not in failed}, failed


def main():
    options = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    found, missing = peers.find_peers(options)
    for name, why in missing.items():
        print(f"without {name}: {why}", flush=True)
    count = len(options.cores)
    failures = 0
    for ranks in options.ranks or [count, 2 * count, 4 * count]:
        layout = cases.layout(ranks, options.cores, options.bind)
        jobs = []
        try:
            for peer in found:
                try:
                    jobs.append(Job(peer, layout, options))
                except JobError as error:
                    print(f"FAILED {error}")
                    failures += 1
            print(f"# {layout.name}; " + ", ".join(job.version for job in jobs), flush=True)
            for case in cases.cases(
                options.collective or cases.COLLECTIVES,
                figures.sizes(options.min, options.max, options.factor),
                ["out", "in"] if options.place == "both" else [options.place],
                ["warm", "cold"] if options.temperature == "both" else [options.temperature],
                ranks,
            ):
                times, failed = measure(jobs, case, options)
                for job, error in failed.items():
                    print(f"FAILED {error}")
                    failures += 1
                    if isinstance(error, JobError):
                        job.kill()
                        jobs.remove(job)
                by_name = {job.peer.name: rounds for job, rounds in times.items()}
                others = {n: r for n, r in by_name.items() if not n.startswith("hymn")}
                best = figures.fastest(others)
                text = f"{case.collective:14} {figures.show_size(case.size):>6} {case.place:3} {case.temperature}"
                for name, rounds in by_name.items():
                    text += f"  {name} {figures.show_us(statistics.median(rounds)):>7}"
                    if best and name.startswith("hymn"):
                        text += f" ({figures.ratio_by_rounds(rounds, by_name[best]):.3f})"
                print(text, flush=True)
        finally:
            for job in jobs:
                job.stop()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
