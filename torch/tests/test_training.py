"""Training: gradients of a parallel net are those of one process with all the data."""

import copy
import os
import subprocess
import sys
import unittest

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import ranks

EXAMPLE = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "torch_ddp.py")


def net():
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(20, 50), torch.nn.BatchNorm1d(50), torch.nn.ReLU(), torch.nn.Linear(50, 3)
    ).double()


def data(size):
    torch.manual_seed(2)
    return torch.randn(8 * size, 20).double(), torch.randn(8 * size, 3).double()


def gradients(rank, size):
    inputs, targets = data(size)
    alone = net().eval()  # without the statistics of a batch, which are each rank's own
    torch.nn.functional.mse_loss(alone(inputs), targets).backward()
    for buckets in (25.0, 0.001):  # one bucket, and one for each parameter
        parallel = DistributedDataParallel(copy.deepcopy(net().eval()), bucket_cap_mb=buckets)
        mine = slice(8 * rank, 8 * rank + 8)
        for _ in range(2):  # the second time in the order of the first
            parallel.zero_grad()
            torch.nn.functional.mse_loss(parallel(inputs[mine]), targets[mine]).backward()
            for one, other in zip(parallel.parameters(), alone.parameters()):
                assert torch.allclose(one.grad, other.grad, rtol=1e-12, atol=1e-14)


def steps(rank, size):
    """Ten steps keep all ranks at the same parameters; the buffers are those of rank 0."""
    inputs, targets = data(size)
    parallel = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(parallel(inputs[rank::size]), targets[rank::size])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    flat = torch.cat([p.detach().flatten() for p in parallel.parameters()])
    everybody = [torch.zeros_like(flat) for _ in range(size)]
    dist.all_gather(everybody, flat)
    assert all(torch.equal(one, flat) for one in everybody)
    assert losses[-1] < losses[0]


class Training(unittest.TestCase):
    def test_gradients(self):
        for size in (1, 2, 3):
            ranks.run(gradients, size)

    def test_steps(self):
        ranks.run(steps, 2)

    def test_torchrun(self):
        output = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
             EXAMPLE],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
        )
        self.assertEqual(output.returncode, 0, output.stdout)
        self.assertIn("loss", output.stdout)


if __name__ == "__main__":
    unittest.main()
