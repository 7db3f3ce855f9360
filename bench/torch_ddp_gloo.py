#!/usr/bin/env python3
"""torch's own DistributedDataParallel over Gloo, on the nets of bench/training_nets.hpp.

    python bench/torch_ddp_gloo.py [--ranks 2] [--turns 7] [--iterations 5] [--bucket-mb 4] [--copy-back]

Start values and inputs follow from the same formulas, so that the losses of the first steps agree with those of
bench_training to the digits in which two ways to add differ. Figures as there: `compute` is a step without
reduction (no_sync), `all_reduce` that of as many numbers in buckets, `reduction` the same with gradients copied to
the buckets, and back with --copy-back, and `step` has all. Without --copy-back it is gradient_as_bucket_view=True,
which is not torch's default, but hymn's.
"""

import math
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from torch_ranks import conditions, end_ranks, parser_of, slowest, start

FIRST_BUCKET = 1 << 20


def some_numbers(sizes, seed):
    """Between -0.5 and 0.5; each seed gives others."""
    index = torch.arange(math.prod(sizes), dtype=torch.float64)
    waves = torch.sin(index * 12.9898 + seed * 78.233) * 43758.5453
    return (waves - waves.floor() - 0.5).to(torch.float32).view(sizes)


class TransformerBlock(nn.Module):
    title, rate = "transformer block", 5
    batch, length, width, heads = 2, 32, 512, 8

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(self.width, 3 * self.width)
        self.out = nn.Linear(self.width, self.width)
        self.norm1 = nn.LayerNorm(self.width)
        self.up = nn.Linear(self.width, 4 * self.width)
        self.down = nn.Linear(4 * self.width, self.width)
        self.norm2 = nn.LayerNorm(self.width)
        self.input_sizes = (self.batch, self.length, self.width)

    def forward(self, x):
        y = self.norm1(x + self.attend(x))
        return self.norm2(y + self.down(torch.relu(self.up(y))))

    def attend(self, x):
        width = self.width // self.heads
        q, k, v = self.qkv(x).view(self.batch, self.length, 3, self.heads, width).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(width), -1)
        return self.out((weights @ v).transpose(1, 2).reshape(self.batch, self.length, self.width))

    @staticmethod
    def target(x):
        return x.flip(2)


class ConvNet(nn.Module):
    title, rate = "convolution net", 0.1
    input_sizes = (8, 3, 32, 32)

    def __init__(self):
        super().__init__()
        channels = (3, 64, 128, 256, 512, 512)
        for i, (inputs, outputs) in enumerate(zip(channels, channels[1:])):
            self.add_module(f"conv{i}", nn.Conv2d(inputs, outputs, 3, padding=1))
        self.layers = list(self.children())
        self.last = nn.Linear(512, 10)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
            if x.shape[2] > 2:
                x = F.max_pool2d(x, 2)
        return self.last(x.mean((2, 3)))

    @staticmethod
    def target(x):
        return x.flatten(1)[:, :10]


def make_net(kind):
    net = kind()
    with torch.no_grad():
        for seed, (name, value) in enumerate(net.named_parameters(), start=1):
            if value.dim() > 1:
                inputs = value.numel() // value.shape[0]
                value.copy_(some_numbers(value.shape, seed) * (math.sqrt(12) / math.sqrt(inputs)))
            else:
                value.fill_(1 if name.startswith("norm") and "weight" in name else 0)
    return net


class Reduction:
    """Averages of gradients that are there at once."""

    def __init__(self, net, bucket_bytes, ranks, copy_back):
        self.ranks, self.copy_back = ranks, copy_back
        self.gradients = [torch.zeros_like(p) for p in net.parameters()]
        self.buckets, limit = [[]], FIRST_BUCKET
        for gradient in reversed(self.gradients):  # the order of a backward pass
            self.buckets[-1].append(gradient)
            if sum(g.numel() for g in self.buckets[-1]) * 4 >= limit:
                self.buckets.append([])
                limit = bucket_bytes
        self.buckets = [bucket for bucket in self.buckets if bucket]
        self.flats = [torch.zeros(sum(g.numel() for g in bucket)) for bucket in self.buckets]

    def all_reduce(self, step):
        works = []
        for flat in self.flats:
            flat[0] = float(step % 16)
            works.append(dist.all_reduce(flat, async_op=True))
        for work, flat in zip(works, self.flats):
            work.wait()
            flat.div_(self.ranks)

    def run(self, step):
        works = []
        for gradient in self.gradients:
            gradient.view(-1)[0] = float(step % 16)
        for flat, bucket in zip(self.flats, self.buckets):
            torch.cat([g.view(-1) for g in bucket], out=flat)
            works.append(dist.all_reduce(flat.div_(self.ranks), async_op=True))
        for work, flat, bucket in zip(works, self.flats, self.buckets):
            work.wait()
            if not self.copy_back:
                continue
            for gradient, part in zip(bucket, flat.split([g.numel() for g in bucket])):
                gradient.copy_(part.view_as(gradient))


class Training:
    """One net, with a wrapper of its own."""

    def __init__(self, kind, rank, options):
        self.net = make_net(kind)
        self.base = some_numbers(self.net.input_sizes, 1000 + rank)
        self.ddp = DistributedDataParallel(self.net, bucket_cap_mb=options.bucket_mb,
                                           gradient_as_bucket_view=not options.copy_back)
        self.reduction = Reduction(self.net, options.bucket_mb << 20, options.ranks, options.copy_back)
        self.ranks = options.ranks

    def step(self, iteration):
        for parameter in self.net.parameters():
            parameter.grad = None
        x = self.base.roll(iteration % 16, -1)
        loss = F.mse_loss(self.ddp(x), self.net.target(x))
        loss.backward()
        return loss.item()

    def compute(self, iteration):
        with self.ddp.no_sync():
            return self.step(iteration)

    def all_reduce(self, iteration):
        self.reduction.all_reduce(iteration)

    def reduce(self, iteration):
        self.reduction.run(iteration)

    def prepare(self, iteration):
        """As bench_training does: the same gradients for the reduction, and a look at the averages."""
        self.compute(iteration)
        alone = [p.grad.clone() for p in self.net.parameters()]
        for gradient, one in zip(self.reduction.gradients, alone):
            gradient.copy_(one)
        self.step(iteration)
        for parameter, one in zip(self.net.parameters(), alone):
            dist.all_reduce(one)
            torch.testing.assert_close(parameter.grad, one / self.ranks, rtol=1e-4, atol=1e-6)
        self.all_reduce(iteration)
        self.reduce(iteration)

    def descend(self, rate):
        with torch.no_grad():
            for parameter in self.net.parameters():
                parameter.sub_(parameter.grad, alpha=rate)


def time_turn(iterations, call):
    """Milliseconds of one iteration on the slowest rank."""
    dist.barrier()
    began = time.perf_counter()
    for i in range(iterations):
        call(i)
    return slowest((time.perf_counter() - began) / iterations * 1e3)


def show_curve(kind, rank, options):
    training, losses = Training(kind, rank, options), []
    for step in range(options.curve):
        loss = training.step(step)
        training.descend(kind.rate)
        losses.append(slowest(loss, dist.ReduceOp.SUM) / options.ranks)
    if rank == 0:
        size = sum(p.numel() for p in training.net.parameters()) * 4 / (1 << 20)
        print(f"\n{kind.title}, {size:.1f} MB of gradients; loss of the first steps: "
              + " ".join(f"{loss:.6f}" for loss in losses))
        print(f"  {'':<4}{'compute, ms':>22}{'all_reduce, ms':>22}{'reduction, ms':>22}{'step, ms':>22}{'hidden':>8}"
              f"{'all_reduce/step':>17}{'step/the larger':>17}")


def measure(kind, rank, options, figures):
    training, n = Training(kind, rank, options), options.iterations
    for i in range(3):  # buckets are made anew after the first
        training.prepare(i)
    parts = (training.compute, training.all_reduce, training.reduce, training.step)
    figures.append([time_turn(n, part) for part in parts])
    training.prepare(n)


def row(figures):
    def text(values):
        return f"{statistics.median(values):.1f} ({min(values):.1f}, {max(values):.1f})"

    hidden = statistics.median((c + r - s) / r for c, _, r, s in figures)
    share = statistics.median(a / s for _, a, _, s in figures)
    beyond = statistics.median(s / max(c, r) for c, _, r, s in figures)
    times = "".join(f"{text(values):>22}" for values in zip(*figures))
    print(f"  Gloo{times}{100 * hidden:>6.0f} %{share:>17.3f}{beyond:>17.3f}", flush=True)


def rank_main(rank, options):
    dist.init_process_group("gloo", rank=rank, world_size=options.ranks)
    if rank == 0:
        print(f"# {conditions(options)}; {options.turns} turns of "
              f"{options.iterations} steps, medians (least, greatest); buckets of 1 and {options.bucket_mb} MB"
              + (", averages copied back" if options.copy_back else ""))
    for kind in (TransformerBlock, ConvNet):
        show_curve(kind, rank, options)
        figures = []
        for _ in range(options.turns):
            measure(kind, rank, options, figures)
        if rank == 0:
            row(figures)
    end_ranks()


def main():
    parser = parser_of(__doc__, turns=7)
    parser.add_argument("--iterations", type=int, default=5, help="steps in a turn")
    parser.add_argument("--bucket-mb", type=int, default=4)
    parser.add_argument("--curve", type=int, default=8, help="steps whose loss is shown")
    parser.add_argument("--copy-back", action="store_true",
                        help="averages leave the buckets (gradient_as_bucket_view=False)")
    start(rank_main, parser.parse_args())


if __name__ == "__main__":
    main()
