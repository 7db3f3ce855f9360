"""Trains a small net in parallel on the CPUs of a host, with hymn as the backend of torch.distributed.

    torchrun --nproc-per-node 2 examples/torch_ddp.py

docs/torch.md tells how hymn_torch is installed. Each rank has a part of the data; DistributedDataParallel
averages the gradients.
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hymn_torch  # noqa: F401  (makes the backend known)

SAMPLES, FEATURES, EPOCHS = 4096, 16, 20


def samples():
    """Points, and whether they lie inside of a sphere; the same on all ranks."""
    torch.manual_seed(0)
    points = torch.randn(SAMPLES, FEATURES)
    return points, (points.norm(dim=1) < FEATURES**0.5).float().unsqueeze(1)


def main():
    dist.init_process_group("hymn")
    rank, size = dist.get_rank(), dist.get_world_size()
    points, inside = samples()
    points, inside = points[rank::size], inside[rank::size]
    net = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(),
        torch.nn.Linear(64, 1),
    )
    net = DistributedDataParallel(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for epoch in range(EPOCHS):
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(net(points), inside)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        if rank == 0 and (epoch % 5 == 4 or epoch == 0):
            print(f"epoch {epoch + 1:2}  loss {mean.item():.4f}  ({size} ranks)", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
