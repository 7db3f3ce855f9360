"""Runs test files of torch's over a backend, and tells what came of each test.

The files are changed while they are loaded (changed_import.py); each test runs in a process of its
own, with a limit. docs/seeds.md has what came of those of torch 2.4.0.
"""

import argparse
import glob
import importlib
import multiprocessing.connection
import os
import re
import signal
import sys
import tempfile
import time
import typing
import unittest

import torch.testing._internal.common_distributed  # before the processes that need it

import changed_import
import no_gpu

_fork = multiprocessing.get_context("fork")
KINDS = ("passed", "skipped", "failed", "error")


class Outcome(typing.NamedTuple):
    test: str
    kind: str
    reason: str
    seconds: float


def reason_of(text):
    """The line of a traceback, or of those of ranks that it holds, that says what was wrong: the
    first error that is not only about another process."""
    errors = re.findall(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Exit|Warning)\b.*)$", text, re.M)
    own = [line for line in errors if " exited with e" not in line]
    lines = own or errors or text.strip().splitlines()[-1:]
    return lines[0].strip()[:300] if lines else "no reason is told"


def outcome_of(result):
    for kind, found in (("failed", result.failures), ("error", result.errors)):
        if found:
            return kind, reason_of(found[0][1])
    if result.unexpectedSuccesses:
        return "failed", "was expected to fail"
    if result.skipped:
        return "skipped", result.skipped[0][1].splitlines()[0]
    return "passed", ""


def test_main(test, log, answer):
    """In a process of its own, whose descendants end with it."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    result = unittest.TestResult()
    test.run(result)
    answer.send(outcome_of(result))


def kill_with_descendants(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has not come to be the leader of a group, or all have ended
        process.kill()
    process.join()


def answer_of(process, receiving, limit):
    """Ranks that the test has forked may hold its pipes open, the sentinel's, too, when its own
    process has died."""
    end = os.pidfd_open(process.pid)
    try:
        if not multiprocessing.connection.wait([receiving, end], limit):
            return "error", f"has not ended in {limit} s"
        if receiving.poll():
            return receiving.recv()
    except EOFError:
        multiprocessing.connection.wait([end], 1)
    finally:
        os.close(end)
    return "error", f"its process has ended with {process.exitcode}"


def run_test(test, limit, logs):
    receiving, sending = _fork.Pipe(duplex=False)
    log = os.path.join(logs, test.id() + ".log")
    began = time.monotonic()
    process = _fork.Process(target=test_main, args=(test, log, sending))
    process.start()
    sending.close()
    try:
        kind, reason = answer_of(process, receiving, limit)
    finally:  # also where somebody has lost patience
        kill_with_descendants(process)
    return Outcome(test.id(), kind, reason, time.monotonic() - began)


def tests_of(suite):
    for entry in suite:
        if isinstance(entry, unittest.TestSuite):
            yield from tests_of(entry)
        else:
            yield entry


def run_file(module, arguments, logs):
    """Loads one file and runs those of its tests that are asked for."""
    try:
        loaded = importlib.import_module(module)
        suite = unittest.defaultTestLoader.loadTestsFromModule(loaded)
    except (Exception, SystemExit) as error:
        if arguments.pattern not in module:
            return
        yield Outcome(module, "error", f"cannot be loaded: {type(error).__name__}: {error}", 0)
        return
    for test in tests_of(suite):
        if arguments.pattern in test.id():
            yield run_test(test, arguments.limit, logs)


def file_main(module, arguments, logs, answers):
    """In a process of its own: what one file changes, others do not see. Ctrl-C is for the main
    process, which ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for outcome in run_file(module, arguments, logs):
            answers.send(outcome)
    except KeyboardInterrupt:
        sys.exit("torch-seeds: ended before all tests of the file")


def outcomes_of(module, arguments, logs):
    receiving, sending = _fork.Pipe(duplex=False)
    process = _fork.Process(target=file_main, args=(module, arguments, logs, sending))
    process.start()
    sending.close()
    try:
        while True:
            outcome = receiving.recv()
            mark = "" if outcome.kind == "passed" else f"  {outcome.reason}"
            print(f"{outcome.kind:8}{outcome.test} ({outcome.seconds:.1f} s){mark}", flush=True)
            yield outcome
    except EOFError:
        process.join()
    finally:  # also where somebody has lost patience: it ends its test
        process.terminate()
        process.join()
    if process.exitcode:
        yield Outcome(module, "error", f"its process has ended with {process.exitcode}", 0)


def class_of(outcome):
    return outcome.test.rpartition(".")[0] or outcome.test


def table(outcomes):
    """A row for each class of tests, and one for all."""
    lines = ["", "| | passed | skipped | failed | errors |", "|---|---|---|---|---|"]
    classes = list(dict.fromkeys(map(class_of, outcomes)))
    for row in [*classes, None]:
        mine = [o.kind for o in outcomes if row is None or class_of(o) == row]
        counts = " | ".join(str(mine.count(kind)) for kind in KINDS)
        lines.append(f"| {row or 'all'} | {counts} |")
    return "\n".join([*lines, ""])


def read_arguments():
    parser = argparse.ArgumentParser(prog="torch-seeds", description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="where the files are, as test_*.py")
    parser.add_argument("pattern", nargs="?", default="", help="only tests with that in their name")
    parser.add_argument("--backend", default="hymn", choices=("hymn", "gloo"))
    parser.add_argument("--limit", type=int, default=60, help="seconds for each test")
    return parser.parse_args()


def stop(number, _frame):
    """As Ctrl-C: what is under way is ended on the way out."""
    raise KeyboardInterrupt(f"signal {number}")


def main():
    arguments = read_arguments()
    signal.signal(signal.SIGTERM, stop)
    logs = tempfile.mkdtemp(prefix="torch-seeds.")
    print(f"What the tests write is in {logs}", flush=True)
    if arguments.backend == "hymn":
        import hymn_torch  # noqa: F401
    folder = os.path.abspath(arguments.folder)
    sys.path.insert(0, folder)
    changed_import.install(folder, arguments.backend)
    no_gpu.lift_skips(max(arguments.limit - 10, arguments.limit / 2))
    outcomes = []
    for path in sorted(glob.glob(os.path.join(folder, "test_*.py"))):
        outcomes.extend(outcomes_of(os.path.basename(path)[:-3], arguments, logs))
    print(table(outcomes))
    sys.exit(any(o.kind in ("failed", "error") for o in outcomes))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("torch-seeds: ended before all tests")
