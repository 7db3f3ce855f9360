"""Tensors on a real GPU, which two ranks share where there is one alone. scripts/gpu-check runs it."""

import copy
import os
import unittest

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hymn_torch
import ranks

GPUS = torch.cuda.device_count()  # does not start CUDA, which forked processes could not use
STAGED, PEERS = "staged,shm,tcp", "cuda_p2p,staged,shm,tcp"


def use_gpu(rank):
    torch.cuda.set_device(rank % GPUS)
    return torch.device("cuda", rank % GPUS)


def begin(rank, size, path, paths):
    os.environ["HYMN_PATH"] = paths
    ranks.begin(path, rank, size)
    return use_gpu(rank)


def check_collectives(rank, size, path, paths):
    gpu = begin(rank, size, path, paths)
    everybody = list(range(size))
    for kind in (torch.float32, torch.bfloat16, torch.int64):
        for count in (1, 1000, 1 << 20):
            tensor = torch.full((count,), rank + 1, dtype=kind, device=gpu)
            dist.all_reduce(tensor)
            assert tensor.eq(sum(everybody) + size).all(), f"all_reduce of {count} {kind}"
    mine = torch.arange(5, device=gpu) + 100 * rank
    theirs = [torch.arange(5) + 100 * r for r in everybody]
    dist.all_gather(found := [torch.empty_like(mine) for _ in everybody], mine)
    assert all(torch.equal(f.cpu(), t) for f, t in zip(found, theirs))
    dist.all_gather_into_tensor(flat := torch.empty(5 * size, dtype=mine.dtype, device=gpu), mine)
    assert torch.equal(flat.cpu(), torch.cat(theirs))
    dist.reduce_scatter_tensor(share := torch.empty_like(mine), flat)
    assert torch.equal(share.cpu(), size * theirs[rank])
    dist.all_to_all_single(turned := torch.empty_like(flat), flat)
    assert torch.equal(turned.cpu(), theirs[rank].repeat(size))
    dist.broadcast(last := mine.clone(), size - 1)
    assert torch.equal(last.cpu(), theirs[-1])
    if size > 1:
        right, left = (rank + 1) % size, (rank - 1) % size
        passed = torch.empty_like(mine)
        for work in [dist.isend(mine, right), dist.irecv(passed, left)]:
            work.wait()
        assert torch.equal(passed.cpu(), theirs[left])
    dist.barrier()
    objects = [None] * size
    dist.all_gather_object(objects, rank)
    assert objects == everybody
    used = hymn_torch.uses(paths.split(",")[0])
    dist.destroy_process_group()
    assert used > 0 or size == 1, f"nothing went by {paths}"


def check_order(rank, size, path, paths):
    """What is enqueued before a collective is done before it, and what comes behind wait() after."""
    gpu = begin(rank, size, path, paths)
    left = torch.rand(2048, 2048, device=gpu)
    for turn in range(5):
        busy = left
        for _ in range(20):
            busy = (busy @ left).tanh()
        tensor = busy.flatten()[:1] * 0 + rank + turn
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        doubled = tensor * 2
        tensor.zero_()
        assert doubled.item() == 2 * (sum(range(size)) + size * turn)
    dist.destroy_process_group()


def net(gpu):
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(200, 500), torch.nn.ReLU(), torch.nn.Linear(500, 3)).double().to(gpu)


def check_training(rank, size, path, paths):
    gpu = begin(rank, size, path, paths)
    torch.manual_seed(2)
    inputs = torch.randn(8 * size, 200, device=gpu).double()
    targets = torch.randn(8 * size, 3, device=gpu).double()
    alone = net(gpu)
    torch.nn.functional.mse_loss(alone(inputs), targets).backward()
    mine = slice(8 * rank, 8 * rank + 8)
    for buckets in (25.0, 0.001):
        parallel = DistributedDataParallel(copy.deepcopy(net(gpu)), device_ids=[gpu.index],
                                           bucket_cap_mb=buckets)
        for _ in range(3):
            parallel.zero_grad()
            torch.nn.functional.mse_loss(parallel(inputs[mine]), targets[mine]).backward()
            for one, other in zip(parallel.parameters(), alone.parameters()):
                assert torch.allclose(one.grad, other.grad, rtol=1e-9, atol=1e-12)
    dist.destroy_process_group()


@unittest.skipIf(GPUS == 0, "there is no GPU")
class RealGpu(unittest.TestCase):
    def run_each(self, check, sizes=(1, 2)):
        for paths in (STAGED, PEERS):
            for size in sizes:
                if size == 1 and paths == PEERS:
                    continue  # a rank alone has no peers
                with self.subTest(paths=paths, size=size):
                    ranks.run(check, size, ranks.temporary_file(), paths, backend=None)

    def test_collectives(self):
        self.run_each(check_collectives)

    def test_order(self):
        self.run_each(check_order)

    def test_training(self):
        self.run_each(check_training)
