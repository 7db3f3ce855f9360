"""What bench/gpu_results.py makes of the figures of a GPU."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import gpu_results  # noqa: E402

HEAD = (
    "collective,size_bytes,count,dtype,op,in_place,ranks,time_us,min_us,max_us,algbw_gbps,"
    "busbw_gbps,wrong,path,algorithm,enqueue_us,copy_gbps"
)


def line(size, ranks, time, algorithm, wrong=0, copy="1000", more=""):
    return (
        f"all_reduce,{size},{size // 4},float32,sum,false,{ranks},{time},{time},{time},1,1,{wrong},"
        f"cuda_p2p,{algorithm},2.5,{copy}{more}"
    )


class GpuResults(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, lines, head=HEAD, name="a.csv"):
        (self.folder / name).write_text("\n".join([head, *lines]) + "\n")

    def text(self):
        out = io.StringIO()
        arguments = ["gpu_results.py", str(self.folder), "--pictures", str(self.folder)]
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(out):
            gpu_results.main()
        return out.getvalue()

    def test_the_bound_counts_what_is_read_and_written(self):
        # 2 ranks, 64 MiB: 2 * 5 * 67.1 MB at 1000 GB/s are 671 us.
        self.write([line(64 << 20, 2, 1342.17728, gpu_results.TWO_SHOT)])
        self.assertIn("| 2 | 67108864 | two shots | 1.34e+03 (1.34e+03 to 1.34e+03) |  |  | 50% | 2.5 |",
                      self.text())  # fmt: skip
        self.assertEqual(gpu_results.bytes_moved(gpu_results.ONE_SHOT, 4, 10), 280)
        self.assertIn("at least 85 % of the bound: least 50%", self.text())

    def test_goals_that_were_not_measured_say_so(self):
        self.write([line(4096, 2, 5.5, gpu_results.ONE_SHOT, copy="")])
        text = self.text()
        self.assertIn("at most 6 us: 5.50 us", text)
        self.assertEqual(text.count("not measured"), 4)

    def test_nccl_stands_beside_it(self):
        self.write(
            [line(256, 2, 4, gpu_results.ONE_SHOT, more=",nccl,10,3,0.4"),
             line(256, 4, 9, gpu_results.ONE_SHOT, more=",nccl,12,3,0.75"),
             line(1 << 20, 4, 90, gpu_results.ONE_SHOT, more=",nccl,12,3,7.5")],
            HEAD + ",vs,vs_time_us,vs_enqueue_us,ratio",
        )  # fmt: skip
        self.assertIn("half of NCCL's time: most 0.75", self.text())

    def test_what_goes_through_nccl_has_no_bound(self):
        self.write(
            [line(256, 2, 12, gpu_results.BY_NCCL, more=",nccl,10,3,1.2"),
             line(1 << 20, 2, 102, gpu_results.BY_NCCL, more=",nccl,100,3,1.02")],
            HEAD + ",vs,vs_time_us,vs_enqueue_us,ratio",
        )  # fmt: skip
        text = self.text()
        self.assertIn("nothing measurable over plain NCCL: most 1.02", text)
        self.assertIn("at most 5 us to enqueue: most 2.50 us", text)
        self.assertIn("| 2 | 1048576 | through NCCL | 102 (102 to 102) | 100 | 1.02 |  | 2.5 |", text)

    def test_wrong_values_are_no_result(self):
        self.write([line(256, 2, 4, gpu_results.ONE_SHOT, wrong=3)])
        with self.assertRaisesRegex(SystemExit, "3 wrong values of 256"):
            self.text()

    def test_other_algorithms_are_no_result(self):
        self.write([line(256, 2, 4, "all_reduce_staged")])
        with self.assertRaisesRegex(SystemExit, "all_reduce_staged"):
            self.text()

    def test_no_figures_are_an_error(self):
        with self.assertRaisesRegex(SystemExit, "has no figures"):
            self.text()

    def test_the_picture_has_a_field_for_each_number_of_ranks(self):
        self.write([line(1 << n, ranks, n, algorithm) for n in (8, 12, 16) for ranks in (2, 4)
                    for algorithm in (gpu_results.ONE_SHOT, gpu_results.TWO_SHOT)])  # fmt: skip
        script, _ = gpu_results.picture_script(gpu_results.read(self.folder))
        for ranks in (2, 4):
            self.assertIn(f"set title '{ranks} ranks on one GPU'", script)
        self.assertEqual(script.count("title 'one shot'"), 2)
        self.assertEqual(script.count("title 'bound of two shots'"), 2)
        self.assertNotIn("NCCL", script)


if __name__ == "__main__":
    unittest.main()
