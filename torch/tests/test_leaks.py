"""What hymn-torch leaves behind, as LeakSanitizer sees it: for scripts/test-torch --sanitize."""

import os
import re
import subprocess
import sys
import unittest

import torch
import torch.distributed as dist

import ranks


def use_everything(rank, size, path):
    """Some of each kind of call, more than once, and an error."""
    ranks.begin(path, rank, size)
    values = torch.ones(1000)
    for _ in range(5):
        dist.all_reduce(values)
        dist.all_gather([torch.empty(1000) for _ in range(size)], values)
        dist.all_reduce(values, async_op=True).get_future().then(lambda _: None).wait()
        dist.all_reduce(torch.ones(4, 4).t())
        dist.all_reduce(torch.eye(4).to_sparse())
        with dist._coalescing_manager():
            dist.all_reduce(values)
            dist.all_reduce(torch.ones(10))
        received = torch.empty(10)
        sent = dist.isend(values[:10], (rank + 1) % size)
        dist.recv(received)
        sent.wait()
        dist.all_gather_object([None] * size, {"rank": rank})
        group = dist.new_group(list(range(size)))
        dist.broadcast(values, 0, group=group)
        dist.destroy_process_group(group)
        try:
            dist.all_reduce(values, dist.ReduceOp.BAND)
        except RuntimeError:
            pass
    dist.destroy_process_group()


def leaks_of_ours(report):
    """Those whose memory was asked for by hymn, or by what it had called."""
    leaks = re.findall(r"^Direct leak of .*?\n\n", report, re.M | re.S)
    return [leak for leak in leaks if "hymn" in leak]


class Leaks(unittest.TestCase):
    @unittest.skipUnless(os.environ.get("TORCH_SANITIZE"), "for scripts/test-torch --sanitize")
    def test_leaks(self):
        """Python's own leaks are not looked at. Processes of multiprocessing end without a look."""
        path = ranks.temporary_file()
        environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=1", LSAN_OPTIONS="exitcode=0")
        processes = [
            subprocess.Popen([sys.executable, "-m", "test_leaks", str(rank), "2", path], text=True,
                             env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for rank in range(2)
        ]
        for process in processes:
            _, report = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, report)
            self.assertIn("LeakSanitizer", report)  # Python itself leaks, so it has looked
            self.assertEqual(leaks_of_ours(report), [])


if __name__ == "__main__":
    use_everything(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
