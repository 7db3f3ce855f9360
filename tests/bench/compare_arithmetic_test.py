"""What bench/compare makes of the times that it has collected, and which cases it measures."""

import math
import os
import pathlib
import sys
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench" / "compare"))

import cases  # noqa: E402
import compare  # noqa: E402
import figures  # noqa: E402
import job  # noqa: E402
import measure  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402


class Figures(unittest.TestCase):
    def test_ratio_by_rounds_is_the_median_of_neighbours(self):
        # A slow phase of the machine falls on both and leaves the ratio alone.
        self.assertEqual(figures.ratio_by_rounds([1, 10, 2], [2, 20, 8]), 0.5)

    def test_a_slow_peer_counts_with_the_rounds_it_has(self):
        self.assertEqual(figures.ratio_by_rounds([30, 30], [1, 1, 1, 100]), 30)

    def test_geometric_mean(self):
        self.assertAlmostEqual(figures.geometric_mean([0.5, 2, 1]), 1)

    def test_fastest_goes_by_the_median(self):
        self.assertEqual(figures.fastest({"a": [3, 3, 3], "b": [1, 4, 5], "c": [9]}), "a")
        self.assertIsNone(figures.fastest({}))

    def test_sizes_end_with_the_largest(self):
        self.assertEqual(figures.sizes(4, 64, 4), [4, 16, 64])
        self.assertEqual(figures.sizes(4, 100, 4), [4, 16, 64, 100])
        self.assertEqual(figures.sizes(8, 8, 2), [8])

    def test_text_of_sizes(self):
        for text, size in (("4", 4), ("16K", 16384), ("64M", 1 << 26), ("1g", 1 << 30)):
            self.assertEqual(figures.parse_size(text), size)
        self.assertEqual([figures.show_size(s) for s in (4, 1536, 4096, 1 << 26)],
                         ["4", "1536", "4 K", "64 M"])  # fmt: skip
        for text in ("", "K", "0", "-4", "4.5"):
            with self.assertRaises(ValueError):
                figures.parse_size(text)

    def test_text_of_times(self):
        shown = [figures.show_us(us) for us in (0.1234, 12.345, 123.45, 1234.5, 123456)]
        self.assertEqual(shown, ["0.123", "12.35", "123.5", "1234", "123456"])

    def test_classes(self):
        sizes = (4, 256, 512, 4096, 8192, 1 << 20, 4 << 20, 1 << 30)
        self.assertEqual([figures.size_class(size) for size in sizes], [0, 0, 1, 1, 2, 2, 3, 3])


class Cases(unittest.TestCase):
    def test_every_rank_has_an_element_of_each_block(self):
        selection = cases.Selection(("all_gather",), (4, 16, 64), ("out",), ("warm",))
        self.assertEqual([case.size for case in cases.cases([selection], 8)], [32, 64])

    def test_only_all_reduce_is_measured_in_place(self):
        selection = cases.Selection(("all_reduce", "reduce"), (4,), ("out", "in"), ("warm",))
        found = [(case.collective, case.place) for case in cases.cases([selection], 2)]
        self.assertEqual(found, [("all_reduce", "out"), ("all_reduce", "in"), ("reduce", "out")])

    def test_a_case_of_two_selections_is_measured_once(self):
        selection = cases.Selection(("barrier", "reduce"), (4, 8), ("out",), ("warm", "cold"))
        self.assertEqual(len(cases.cases([selection, selection], 2)), 5)

    def test_ranks_are_bound_where_each_has_a_core(self):
        self.assertEqual(cases.layout(2, [0, 1, 2], "auto"), cases.Layout(2, (0, 1), True))
        self.assertEqual(cases.layout(4, [0, 1], "auto"), cases.Layout(4, (0, 1), False))
        self.assertTrue(cases.layout(4, [0, 1], "core").bound)
        self.assertFalse(cases.layout(2, [0, 1], "none").bound)
        self.assertTrue(cases.layout(4, [0, 1], "auto").share)
        self.assertFalse(cases.layout(2, [0, 1], "auto").share)

    def test_a_variant_of_hymn(self):
        self.assertEqual(peers.parse_variant("none=HYMN_TIMEOUT:none,HYMN_PATH:mpi"),
                         ("hymn-none", {"HYMN_TIMEOUT": "none", "HYMN_PATH": "mpi"}))  # fmt: skip
        for text in ("none", "none=", "a b=HYMN_PATH:mpi"):
            with self.assertRaises(peers.Missing):
                peers.parse_variant(text)


class Environment(unittest.TestCase):
    layout = cases.Layout(4, (0, 1), False)

    def environment(self, name, inherited, variables=None):
        with mock.patch.dict(os.environ, inherited, clear=True):
            return peers.Peer(name, "Open MPI", "mpirun", "driver", variables or {}).environment(
                self.layout
            )

    def test_hymn_is_not_tuned(self):
        for inherited in ({}, {"HYMN_TUNING": "table.json"}):
            for name in ("hymn", "hymn-mpi"):
                self.assertEqual(self.environment(name, inherited)["HYMN_TUNING"], "off")

    def test_a_variant_may_be_tuned(self):
        variables = {"HYMN_TUNING": "table.json"}
        self.assertEqual(self.environment("hymn-tuned", {}, variables)["HYMN_TUNING"], "table.json")

    def test_only_hymn_gets_hymns_settings(self):
        self.assertNotIn("HYMN_TUNING", self.environment("openmpi", {"HOME": "/root"}))

    def test_inherited_settings_are_told(self):
        inherited = {"OMPI_MCA_btl": "tcp,self", "HYMN_PATH": "mpi", "MPIR_CVAR_X": "1 2",
                     "I_MPI_PIN": "off", "HYMN_TUNING": "a.json", "HOME": "/root"}  # fmt: skip
        with mock.patch.dict(os.environ, inherited, clear=True):
            self.assertEqual(
                peers.inherited_settings(),
                ["HYMN_PATH=mpi", "I_MPI_PIN=off", "MPIR_CVAR_X='1 2'", "OMPI_MCA_btl=tcp,self"],
            )
            said = dict(compare.facts(Options, {}, {}))["settings from the environment"]
            self.assertIn("`HYMN_PATH=mpi`, `I_MPI_PIN=off`", said)
        with mock.patch.dict(os.environ, {"HYMN_TUNING": "a.json"}, clear=True):
            said = dict(compare.facts(Options, {}, {}))["settings from the environment"]
            self.assertEqual(said, "none")


class FakeJob:
    """Answers at once, with `cost` microseconds for a call."""

    def __init__(self, name, cost, fails_after=None):
        self.peer = peers.Peer(name, "Open MPI", "mpirun", "driver")
        self.version = "1"
        self.cost = cost
        self.asked = []
        self.fails_after = fails_after

    def ask(self, case, calls, check_all=False):
        self.asked.append(calls)
        if self.fails_after is not None and len(self.asked) > self.fails_after:
            raise job.JobError(f"{self.peer.name}: gone")
        return None if self.cost is None else (self.cost, calls)


class Options:
    rounds = 7
    seconds = 60
    block_ms = 2
    cores = (0, 1)
    pages = "small"
    offset = 16


class Turns(unittest.TestCase):
    case = cases.Case("all_reduce", 4, "out", "warm")

    def measure(self, *jobs):
        return measure.Measurement(list(jobs), self.case, Options)

    def test_a_block_is_about_as_long_as_asked_for(self):
        for cost, calls in ((1, 2000), (100, 20), (900, 3), (60000, 1), (0.01, 20000)):
            measured = self.measure(FakeJob("hymn", cost))
            self.assertEqual(list(measured.calls.values()), [calls], f"{cost} us for a call")

    def test_ratios(self):
        found = self.measure(FakeJob("hymn", 2), FakeJob("a", 4), FakeJob("b", 8)).figures()
        self.assertEqual([row["ratio_by_rounds"] for row in found], [0.5, 1, 2])
        self.assertEqual({row["best_peer"] for row in found}, {"a"})
        self.assertEqual([row["rounds"] for row in found], [7, 7, 7])

    def test_variants_of_hymn_are_no_peers(self):
        found = self.measure(FakeJob("hymn", 2), FakeJob("hymn-none", 1)).figures()
        self.assertNotIn("ratio_by_rounds", found[0])

    def test_who_is_far_slower_takes_few_turns(self):
        found = self.measure(FakeJob("a", 1), FakeJob("b", 1000)).figures()
        self.assertEqual([row["rounds"] for row in found], [7, measure.SLOW_ROUNDS])

    def test_who_fails_is_left_out_and_the_others_go_on(self):
        gone = FakeJob("a", 1, fails_after=9)
        measured = self.measure(FakeJob("hymn", 2), gone, FakeJob("b", 8))
        self.assertEqual([row["peer"] for row in measured.figures()], ["hymn", "b"])
        self.assertEqual(list(measured.failed), [gone])
        self.assertEqual(len(gone.asked), 10)

    def test_who_lacks_a_collective_is_left_out(self):
        found = self.measure(FakeJob("hymn", 2), FakeJob("a", None)).figures()
        self.assertEqual([row["peer"] for row in found], ["hymn"])


def row(**values):
    return {"peer": "hymn", "collective": "all_reduce", "bytes": 4, "place": "out",
            "temperature": "warm", "layout": "2 ranks on 2 cores", "ranks": 2, "cores": 2,
            "median_us": 1.0, "min_us": 0.5, "max_us": 2.0, "ratio_by_rounds": 0.4,
            "ratio_of_medians": 0.4, "ratio_of_minima": 0.4, **values}  # fmt: skip


class Report(unittest.TestCase):
    def test_goals_of_all_reduce_hold_for_every_size(self):
        rows = [row(), row(bytes=64, ratio_by_rounds=0.56), row(bytes=1024)]
        text = report.goals_table(rows, 2, 2)
        self.assertIn("| all_reduce, to 256 B | 0.56 | 0.47 | each ≤ 0.55 | **missed** at 64 |", text)
        self.assertIn("| 0.40 | 0.40 | each ≤ 0.38 | **missed** at 1 K |", text)
        self.assertIn("| each ≤ 0.50 | **missed** at 64 |", report.goals_table(rows, 4, 2))
        self.assertNotIn("missed", report.goals_table(rows, 16, 16))

    def test_goals_of_the_others_hold_for_worst_and_mean(self):
        for ratios, said in (
            ((0.2, 1.0), "met"),
            ((0.1, 1.06), "**missed** at 64"),
            ((0.6, 0.6), "**missed** by the mean"),
        ):
            rows = [row(collective="reduce", bytes=4, ratio_by_rounds=ratios[0]),
                    row(collective="reduce", bytes=64, ratio_by_rounds=ratios[1])]  # fmt: skip
            self.assertIn(f"| {said} |", report.goals_table(rows, 2, 2))

    def test_report_shows_every_peer(self):
        rows = [row(), row(peer="mpich", median_us=2.5, ratio_by_rounds=1.0)]
        text = report.markdown(rows, [("date", "today")])
        self.assertIn("- date: today", text)
        self.assertIn("| 4 | 1.000 (0.500, 2.000) | 2.500 (0.500, 2.000) | 0.40 |", text)

    def test_no_goal_is_looser_with_more_care(self):
        for goals in report.ALL_REDUCE_GOALS.values():
            self.assertEqual(len(goals), len(figures.CLASSES))
            self.assertTrue(all(0 < goal < 1 for goal in goals))
        self.assertEqual(figures.CLASSES[-1][0], math.inf)


if __name__ == "__main__":
    unittest.main()
