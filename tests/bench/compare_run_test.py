"""Runs bench/compare as a user does, with the libraries of this machine and with some that fail.

    compare_run_test.py BUILD WRONG_MPI
"""

import csv
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 2 else None
WRONG_MPI = sys.argv[2] if len(sys.argv) > 2 else ""
COMPARE = [sys.executable, str(ROOT / "bench" / "compare" / "compare.py"), "--build", str(BUILD)]
SHORT = ["--collective", "all_reduce", "--min", "1K", "--max", "1K", "--rounds", "2", "--block-ms",
         "0.2", "--place", "out", "--temperature", "warm"]  # fmt: skip


def drivers():
    """The drivers of this build that are running."""
    found = set()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            program = (process / "exe").readlink()
        except OSError:
            continue
        if program == BUILD / "bin" / "bench_compare_hymn" or (
            program.parent == BUILD / "bench" / "drivers"
        ):
            found.add(int(process.name))
    return found


def soon(condition):
    """Whether it comes to hold. What ends must only end, not be quick about it."""
    for _ in range(300):
        if condition():
            return True
        time.sleep(0.1)
    return False


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compare(self, *words, status=0):
        done = subprocess.run(
            [*COMPARE, "--out", str(self.folder), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, status, done.stdout)
        self.assertTrue(soon(lambda: not drivers()), f"left running: {drivers()}")
        return done.stdout

    def rows(self):
        with (self.folder / "compare.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    def script(self, name, text):
        place = self.folder / "bin" / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"#!/bin/sh\n{text}\n")
        place.chmod(0o755)

    def test_figures_table_and_csv(self):
        said = self.compare(*SHORT, "--ranks", "2,3", "--place", "both", "--temperature", "both")
        rows = self.rows()
        # hymn was built for an MPI, so at least these two are there unless it is said.
        names = {row["peer"] for row in rows}
        self.assertIn("hymn", names)
        for name in ("openmpi", "mpich", "gloo"):
            self.assertTrue(name in names or f"without {name}: " in said, f"{name}: {said}")
        self.assertEqual(len(rows), 2 * 4 * len(names))
        for row in rows:
            self.assertGreater(float(row["min_us"]), 0, row)
            self.assertLessEqual(float(row["min_us"]), float(row["median_us"]), row)
            self.assertLessEqual(float(row["median_us"]), float(row["max_us"]), row)
            self.assertEqual(row["rounds"], "2", row)
        report = (self.folder / "compare.md").read_text()
        for name in names:
            self.assertIn(f"{name}, us", report)

    def test_every_collective_is_right(self):
        for root in ("fixed", "rotating"):
            self.compare("--collective", "", "--ranks", "3", "--min", "1K", "--max", "100K",
                         "--factor", "128", "--rounds", "1", "--block-ms", "0.2", "--only",
                         "hymn,openmpi", "--temperature", "both", "--root", root)  # fmt: skip
            found = {row["collective"] for row in self.rows() if row["peer"] == "hymn"}
            self.assertEqual(len(found), 10)

    def test_who_is_not_there_is_named(self):
        said = self.compare(*SHORT, "--ranks", "2", "--only", "hymn,other", "--peer",
                            f"other={self.folder}")  # fmt: skip
        self.assertIn("without other: ", said)
        self.assertEqual({row["peer"] for row in self.rows()}, {"hymn"})

    def test_who_dies_is_named_and_the_others_go_on(self):
        said = self.compare(*SHORT, "--ranks", "2", "--only", "hymn,hymn-bad", "--variant",
                            "bad=HYMN_TIMEOUT:soon", status=1)  # fmt: skip
        self.assertRegex(said, r"FAILED hymn-bad: its (launcher|ranks)")
        self.assertIn("HYMN_TIMEOUT", said)
        self.assertEqual({row["peer"] for row in self.rows()}, {"hymn"})

    def test_who_hangs_is_named_and_ended(self):
        self.script("mpicc", "exit 0")
        self.script(
            "mpirun", 'case "$1" in --version) echo "Open MPI" ;; *) exec sleep 1000 ;; esac'
        )
        said = self.compare(*SHORT, "--ranks", "2", "--only", "slow", "--limit", "2", "--peer",
                            f"slow={self.folder}/bin", status=1)  # fmt: skip
        self.assertIn("FAILED slow: 0 of 2 ranks answered within 2 s", said)

    def test_wrong_results_are_seen(self):
        # The library loaded before MPI damages broadcasts; hymn then calls MPI's own.
        variables = f"LD_PRELOAD:{WRONG_MPI},HYMN_PATH:mpi,HYMN_TIMEOUT:none"
        said = self.compare("--collective", "broadcast", "--ranks", "2", "--min", "64K", "--max",
                            "64K", "--only", "hymn-wrong", "--variant", f"wrong={variables}",
                            status=1)  # fmt: skip
        self.assertRegex(said, r"FAILED .*hymn-wrong: rank \d: element \d+ of 16384 is ")

    def test_bad_arguments(self):
        for words in (["--collective", "dance"], ["--ranks", "0"], ["--cores", "9999"],
                      ["--min", "8", "--max", "4"], ["--factor", "1"], ["--offset", "3"]):  # fmt: skip
            said = self.compare(*words, status=2)
            self.assertIn("error:", said)

    def test_nothing_runs_on_when_it_is_ended(self):
        for sent in (signal.SIGTERM, signal.SIGKILL):
            run = subprocess.Popen(
                [*COMPARE, "--out", str(self.folder), "--ranks", "2", "--only", "hymn,openmpi"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                self.assertTrue(soon(lambda: len(drivers()) >= 2), "no drivers were started")
            finally:
                run.send_signal(sent)
                run.wait()
            self.assertTrue(soon(lambda: not drivers()), f"left running: {drivers()}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
