#!/usr/bin/env python3
"""Measures hymn and the other libraries of this machine side by side.

All jobs run at once, each below its own launcher, but only one works at a time, in turns of a few
milliseconds; the ranks of the others sleep. docs/benchmarks.md tells what the figures mean.
"""

import argparse
import datetime
import os
import pathlib
import platform
import shlex
import signal
import sys

import cases
import figures
import peers
import plots
import report
from job import Job, JobError
from measure import Measurement

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TERMINATED = 128 + signal.SIGTERM


def words(text):
    return [word for word in text.split(",") if word]


def numbers(text):
    return [int(word) for word in words(text)]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--full", action="store_true", help="all sizes, in place and not, warm and cold")
    add("--collective", type=words, metavar="LIST", help="default: all")
    add("--ranks", type=numbers, metavar="LIST", help="default: N, 2N and 4N on N cores")
    add("--cores", type=numbers, default=cases.usable_cores(), metavar="LIST",
        help="default: all that this process may use")
    add("--bind", choices=["auto", "core", "none"], default="auto",
        help="ranks to cores; auto: where each has one of its own")
    add("--min", type=figures.parse_size, default=4, metavar="SIZE")
    add("--max", type=figures.parse_size, default=64 * figures.MIB, metavar="SIZE")
    add("--factor", type=int, help="from one size to the next")
    add("--place", choices=["out", "in", "both"], help="of all_reduce")
    add("--temperature", choices=["warm", "cold", "both"], help="of the buffers")
    add("--root", choices=["fixed", "rotating"], default="fixed",
        help="of broadcast, reduce, gather, scatter: rank 0, or another one with each call")
    add("--pages", choices=["small", "huge"], default="small")
    add("--offset", type=int, default=16, help="of buffers from a page's start, in bytes")
    add("--rounds", type=int, default=15, help="turns of each job")
    add("--block-ms", type=float, default=2, help="about how long a turn is")
    add("--seconds", type=float, help="after which a case gets no more than 5 rounds")
    add("--nice", type=int, default=0, help="priority of all jobs; below 0 takes root")
    add("--limit", type=int, default=60, help="seconds after which a turn has failed")
    add("--build", type=pathlib.Path, default=ROOT / "build", help="where hymn was built")
    add("--out", type=pathlib.Path, metavar="DIR", help="default: BUILD/bench")
    add("--only", type=words, default=[], metavar="LIST", help="these peers")
    add("--peer", action="append", default=[], metavar="NAME=BIN",
        help="one more MPI, whose mpicc and mpirun are in BIN")
    add("--variant", action="append", default=[], metavar="NAME=VARIABLE:VALUE,…",
        help="hymn once more, with these variables")  # fmt: skip
    options = parser.parse_args()
    check(parser, options)
    options.seconds = options.seconds or (6 if options.full else 1.5)
    options.out = options.out or options.build / "bench"
    options.cache_bytes = 2 * last_level_cache()
    return options


def check(parser, options):
    unknown = set(options.collective or []) - set(cases.COLLECTIVES)
    if unknown:
        known = ", ".join(cases.COLLECTIVES)
        parser.error(f"no collective {', '.join(unknown)}; there are {known}")
    if not options.cores or not set(options.cores) <= set(cases.usable_cores()):
        parser.error(f"--cores: this process may use {cases.usable_cores()}")
    if min(options.ranks or [1]) < 1:
        parser.error("--ranks: at least 1")
    if options.factor is not None and options.factor < 2:
        parser.error("--factor: at least 2")
    if options.max < options.min:
        parser.error("--max is less than --min")
    if not 0 <= options.offset < 4096 or options.offset % 4 != 0:
        parser.error("--offset: a multiple of 4 below 4096")
    if min(options.rounds, options.limit) < 1 or options.block_ms <= 0:
        parser.error("--rounds, --limit and --block-ms: more than 0")


def last_level_cache():
    """Its bytes, or a guess."""
    found = [32 * figures.MIB]
    for size in pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        found.append(figures.parse_size(size.read_text().strip()))
    return max(found)


def selections(options):
    """The quick form has fewer sizes of all but plain all_reduces; --full has all of everything."""

    def selection(collectives, factor, places, temperatures):
        chosen = [c for c in collectives if c in (options.collective or cases.COLLECTIVES)]
        if options.place:
            places = ["out", "in"] if options.place == "both" else [options.place]
        if options.temperature:
            both = options.temperature == "both"
            temperatures = ["warm", "cold"] if both else [options.temperature]
        sizes = figures.sizes(options.min, options.max, options.factor or factor)
        return cases.Selection(tuple(chosen), tuple(sizes), tuple(places), tuple(temperatures))

    if options.full:
        return [selection(cases.COLLECTIVES, 2, ["out", "in"], ["warm", "cold"])]
    return [
        selection(["all_reduce"], 4, ["out"], ["warm"]),
        selection(["all_reduce"], 16, ["in"], ["warm"]),
        selection(["all_reduce"], 16, ["out"], ["cold"]),
        selection(cases.COLLECTIVES[1:], 16, ["out"], ["warm"]),
    ]


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def pages(options):
    return "huge" if options.pages == "huge" else f"{os.sysconf('SC_PAGE_SIZE') // 1024} KB"


def inherited():
    return ", ".join(f"`{setting}`" for setting in peers.inherited_settings()) or "none"


def facts(options, versions, missing):
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    cores = len(options.cores)
    found = [
        ("command", f"`{shlex.join(['bench/compare/compare.py', *sys.argv[1:]])}`"),
        ("date", datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")),
        ("machine", f"{processor()}, {cores} cores used, Linux {platform.release()}"),
        ("load in the last 1, 5, 15 minutes, this run's included", load),
        ("compared", ", ".join(f"{name} ({version})" for name, version in versions.items())),
        ("buffers", f"float32, {pages(options)} pages, {options.offset} bytes after their start"),
        ("settings from the environment", inherited()),
    ]
    return found + [(f"without {name}", why) for name, why in missing.items()]


class Run:
    """One run of the comparison: what it has found so far, and what went wrong."""

    def __init__(self, options, found):
        self.options = options
        self.peers = found
        self.rows = []
        self.versions = {}
        self.failures = 0
        self.date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        options.out.mkdir(parents=True, exist_ok=True)
        self.csv = report.CsvFile(options.out / "compare.csv")

    def fail(self, error):
        self.failures += 1
        print(f"FAILED {error}", flush=True)

    def measure_layout(self, layout):
        jobs = []
        try:
            for peer in self.peers:
                try:
                    jobs.append(Job(peer, layout, self.options))
                    self.versions[peer.name] = jobs[-1].version
                except JobError as error:
                    self.fail(error)
            print(f"\n{layout.name}: medians in us (hymn / best peer)", flush=True)
            for case in cases.cases(selections(self.options), layout.ranks):
                self.measure_case(jobs, layout, case)
        finally:
            for job in jobs:
                job.stop()

    def measure_case(self, jobs, layout, case):
        measured = Measurement(jobs, case, self.options)
        for job, error in measured.failed.items():
            self.fail(f"{case.collective}, {case.size} bytes: {error}")
            if isinstance(error, JobError):
                jobs.remove(job)
                job.kill()
        rows = measured.figures()
        for row in rows:
            row.update(
                date=self.date, machine=processor(), collective=case.collective, bytes=case.size,
                place=case.place, temperature=case.temperature, layout=layout.name,
                ranks=layout.ranks, cores=len(layout.cores), bound=int(layout.bound),
                pages=pages(self.options), offset=self.options.offset, root=self.options.root,
            )  # fmt: skip
            self.csv.add(row)
        self.rows += rows
        print(report.terminal_line(case, rows), flush=True)

    def finish(self, missing):
        """Writes what there is, also of a run that was cut short."""
        self.csv.close()
        if not self.rows:
            return
        path = self.options.out / "compare.md"
        path.write_text(report.markdown(self.rows, facts(self.options, self.versions, missing)))
        drawn = plots.draw(self.rows, self.options.out)
        print(f"\nwritten: {self.options.out}/compare.csv, compare.md, {len(drawn)} pictures")


def main():
    options = parse_arguments()
    # An exception, so that all jobs are ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    found, missing = peers.find_peers(options)
    for name, why in missing.items():
        print(f"without {name}: {why}", flush=True)
    if not found:
        print("nothing to measure")
        return 1
    run = Run(options, found)
    try:
        cores = len(options.cores)
        for ranks in options.ranks or [cores, 2 * cores, 4 * cores]:
            run.measure_layout(cases.layout(ranks, options.cores, options.bind))
    except KeyboardInterrupt:
        print("interrupted")
        run.failures += 1
    finally:
        run.finish(missing)
    if run.failures:
        print(f"{run.failures} failures, see FAILED above")
    return 1 if run.failures or not run.rows else 0


if __name__ == "__main__":
    sys.exit(main())
