"""Turns: how many calls make a block, and who works when."""

import statistics
import time

import figures
from job import JobError, WrongResult

MOST_CALLS = 20000
LEAST_CALLS = 3
# A single call of this length makes a block.
LONG_CALL_US = 50000
LEAST_ROUNDS = 5
# A library that is so many times slower than the fastest takes part in few rounds only.
SLOW = 10
SLOW_ROUNDS = 3
MICROSECONDS = 1000  # in a millisecond


def enough_calls(job, case, block_ms):
    """(calls that make a block, microseconds of one); None: the peer has no such collective."""
    block_us = block_ms * MICROSECONDS
    calls = 1
    while True:
        # The least of several: an interruption must not pass for a slow operation.
        us = None
        for attempt in range(3):
            asked = job.ask(case, calls, check_all=attempt == 0)
            if asked is None:
                return None
            us = min(asked[0], us or asked[0])
            if us * calls > block_us:
                break
        if us * calls >= block_us / 8 or calls >= MOST_CALLS:
            least = 1 if us > LONG_CALL_US else LEAST_CALLS
            return int(min(max(block_us / us, least), MOST_CALLS)), us
        calls *= 8


class Measurement:
    """The rounds of one case."""

    def __init__(self, jobs, case, options):
        self.case = case
        self.times = {}  # job: microseconds of each round
        self.calls = {}  # job: calls of a block
        self.rows = {}  # job: calls that were timed as a whole
        self.failed = {}  # job: the error
        first = {}
        for job in jobs:
            enough = self._try(job, lambda job=job: enough_calls(job, case, options.block_ms))
            if enough is not None:
                self.calls[job], first[job] = enough
                self.times[job] = []
        self.slow = {job for job, us in first.items() if us > SLOW * min(first.values())}
        self._take_turns(options)
        for job in self.failed:
            self.times.pop(job, None)

    def _try(self, job, action):
        try:
            return action()
        except (JobError, WrongResult) as error:
            self.failed[job] = error
            return None

    def _take_turns(self, options):
        jobs = list(self.times)
        begin = time.monotonic()
        for turn in range(options.rounds):
            taken = time.monotonic() - begin
            if turn >= LEAST_ROUNDS and taken > options.seconds:
                break
            if turn >= SLOW_ROUNDS and taken > 3 * options.seconds:
                break
            # Each begins equally often, so that none is always the first after a pause.
            first = turn % max(1, len(jobs))
            for job in jobs[first:] + jobs[:first]:
                if job in self.failed or (job in self.slow and turn >= SLOW_ROUNDS):
                    continue
                asked = self._try(job, lambda job=job: job.ask(self.case, self.calls[job]))
                if asked is not None:
                    self.times[job].append(asked[0])
                    self.rows[job] = asked[1]

    def figures(self):
        """One dictionary for each job, with its times and its ratios to the best peer."""
        others = {job: us for job, us in self.times.items() if not job.peer.is_hymn}
        best = figures.fastest(others)
        found = []
        for job, us in self.times.items():
            row = {
                "peer": job.peer.name,
                "version": job.version,
                "calls": self.calls[job],
                "calls_in_a_row": self.rows[job],
                "rounds": len(us),
                "median_us": statistics.median(us),
                "min_us": min(us),
                "max_us": max(us),
            }
            if best is not None:
                row["best_peer"] = best.peer.name
                row["ratio_by_rounds"] = figures.ratio_by_rounds(us, self.times[best])
                row["ratio_of_medians"] = row["median_us"] / statistics.median(self.times[best])
                row["ratio_of_minima"] = row["min_us"] / min(self.times[best])
            found.append(row)
        return found
