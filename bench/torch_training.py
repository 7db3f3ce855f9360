#!/usr/bin/env python3
"""Training and decoding over backends of torch.distributed beside each other on the CPUs of this host.

    python bench/torch_training.py [--ranks 2] [--backends hymn,gloo] [--jobs ddp_block,decode]

Each job has a model of its own for each backend; these take turns, so that what the machine does to
one it does to the other. A turn takes about --seconds; its figure is the time of one step, or token,
on the slowest rank. The table has the medians of the turns, with the least and the greatest. Every
step has another batch, and every decoding another prompt. Before the first and after the last turn
results are compared with those of one process that has the data of all ranks.
"""

import contextlib
import copy
import statistics
import time
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._tensor import Replicate
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import hymn_torch
from torch_ranks import begin_groups, cell, conditions, end_ranks, parser_of, slowest, start

RATE = 0.05  # of plain gradient descent, so that a step is easily made again
BATCHES = 8  # of each rank, which take turns


def block():
    """A layer of a transformer: 790 thousand parameters."""
    return nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True)


def two_blocks():
    return nn.Sequential(block(), block())


def convolutions():
    """230 thousand parameters, and buffers, which DDP sends before each step."""
    def layer(inputs, outputs):
        convolution = nn.Conv2d(inputs, outputs, 3, padding=1)
        return convolution, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)

    layers = *layer(3, 32), *layer(32, 64), *layer(64, 128)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 64))


def with_ddp(module, group):
    return DistributedDataParallel(module, process_group=group)


def with_fsdp(module, group):
    return FullyShardedDataParallel(
        module, group, auto_wrap_policy=ModuleWrapPolicy({nn.TransformerEncoderLayer}),
        device_id=torch.device("cpu"), use_orig_params=True)


def loss_of(model, batch):
    inputs, targets = batch
    return nn.functional.mse_loss(model(inputs), targets)


def assert_close(some, others, what):
    for one, other in zip(some, others, strict=True):
        wrong_by = (one - other).abs().max()
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5), f"{what} is wrong by {wrong_by}"


class Training:
    """Steps of one model, over one group."""

    unit, per_second = "ms a step", False

    def __init__(self, make, wrap, shapes, rank, ranks, group):
        torch.manual_seed(1)
        self.alone = make()
        self.model = wrap(copy.deepcopy(self.alone), group)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE)
        self.batches = [[self.batch(shapes, r, i) for i in range(BATCHES)] for r in range(ranks)]
        self.rank, self.steps = rank, 0

    @staticmethod
    def batch(shapes, rank, number):
        random = torch.Generator().manual_seed(1000 * rank + number)
        return [torch.randn(shape, generator=random) for shape in shapes]

    def run(self, count):
        for _ in range(count):
            self.optimizer.zero_grad()
            loss_of(self.model, self.batches[self.rank][self.steps % BATCHES]).backward()
            self.optimizer.step()
            self.steps += 1

    def parameters(self):
        whole = contextlib.nullcontext()
        if isinstance(self.model, FullyShardedDataParallel):
            whole = FullyShardedDataParallel.summon_full_params(self.model)
        with whole:
            return [p.detach().clone() for p in self.model.parameters()]

    def check(self):
        """One more step, which this process makes alone, too, with the batches of all ranks."""
        mine = list(self.alone.parameters())
        with torch.no_grad():
            for parameter, value in zip(mine, self.parameters(), strict=True):
                parameter.copy_(value)
        self.alone.zero_grad()
        for batches in self.batches:
            (loss_of(self.alone, batches[self.steps % BATCHES]) / len(self.batches)).backward()
        before = [p.detach().clone() for p in mine]
        torch.optim.SGD(mine, lr=RATE).step()
        self.run(1)
        after = self.parameters()
        assert not torch.equal(before[0], after[0]), "a step has changed nothing"
        assert_close(after, [p.detach() for p in mine], "a step")


class Attention(nn.Module):
    """Of one token to those before it."""

    def __init__(self, width, heads):
        super().__init__()
        self.of_head = width // heads
        self.queries, self.keys, self.values, self.out = (nn.Linear(width, width) for _ in range(4))
        self.forget()

    def forget(self):
        self.kept = None

    def split(self, tensor):
        """As many heads as this rank has: batch, head, token, values."""
        return tensor.view(tensor.shape[0], 1, -1, self.of_head).transpose(1, 2)

    def forward(self, x):
        new = torch.stack((self.split(self.keys(x)), self.split(self.values(x))))
        self.kept = new if self.kept is None else torch.cat((self.kept, new), dim=3)
        seen = nn.functional.scaled_dot_product_attention(self.split(self.queries(x)), *self.kept)
        return self.out(seen.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class Transformer(nn.Module):
    def __init__(self, width=256, heads=8, layers=4, words=2048):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, token):
        x = self.embedding(token)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)

    def forget(self):
        for layer in self.layers:
            layer.attention.forget()


class Decoding:
    """Tokens of a transformer whose layers all ranks have a part of: two all_reduces in each layer,
    and an all_gather of what the words get."""

    unit, per_second = "tokens/s", True
    BATCH = 2

    def __init__(self, rank, ranks, group):
        torch.manual_seed(2)
        self.alone = Transformer().eval()
        # Without a name of its own a mesh is taken for any other of the same ranks.
        mesh = DeviceMesh.from_group(group, "cpu", mesh_dim_names=(dist.get_backend(group),))
        plan = self.plan(len(self.alone.layers))
        self.model = parallelize_module(copy.deepcopy(self.alone), mesh, plan)
        self.prompts = 0

    @staticmethod
    def plan(layers):
        plan = {"head": ColwiseParallel(output_layouts=Replicate())}
        for i in range(layers):
            for name in ("attention.queries", "attention.keys", "attention.values", "up"):
                plan[f"layers.{i}.{name}"] = ColwiseParallel()
            for name in ("attention.out", "down"):
                plan[f"layers.{i}.{name}"] = RowwiseParallel()
        return plan

    @torch.no_grad()
    def decode(self, model, count):
        """What the words got each time: the next token is the best of them."""
        model.forget()
        token = torch.full((self.BATCH, 1), self.prompts % 2048) + torch.arange(self.BATCH).unsqueeze(1)
        scores = []
        for _ in range(count):
            scores.append(model(token % 2048))
            token = scores[-1].argmax(-1)
        return scores

    def run(self, count):
        self.prompts += 1
        self.decode(self.model, count)

    def check(self):
        self.prompts += 1
        assert_close(self.decode(self.model, 16), self.decode(self.alone, 16), "decoding")


JOBS = {
    "ddp_block": ("DDP, a transformer block",
                  lambda *of: Training(block, with_ddp, ((2, 32, 256), (2, 32, 256)), *of)),
    "ddp_convolutions": ("DDP, a convolution net",
                         lambda *of: Training(convolutions, with_ddp, ((4, 3, 32, 32), (4, 64)), *of)),
    "fsdp": ("FSDP, two transformer blocks",
             lambda *of: Training(two_blocks, with_fsdp, ((2, 32, 256), (2, 32, 256)), *of)),
    "decode": ("tensor parallel, decoding", Decoding),
}


def turn(job, count):
    """Seconds of one step."""
    dist.barrier()
    began = time.perf_counter()
    job.run(count)
    return slowest((time.perf_counter() - began) / count)


def calls_of_hymn(groups):
    return hymn_torch.uses("", groups["hymn"]) if "hymn" in groups else 0


def compare(make, options, rank, groups):
    """The figures of each backend."""
    jobs = {b: make(rank, options.ranks, group) for b, group in groups.items()}
    counts, figures = {}, {b: [] for b in jobs}
    for backend, job in jobs.items():
        before = calls_of_hymn(groups)
        job.check()
        is_hymn = calls_of_hymn(groups) > before
        assert is_hymn == (backend == "hymn"), f"{backend}'s job uses another backend"
        turn(job, 3)
        counts[backend] = max(3, min(100, int(options.seconds / turn(job, 5))))
    for _ in range(options.turns):
        for backend, job in jobs.items():
            seconds = turn(job, counts[backend])
            figures[backend].append(Decoding.BATCH / seconds if job.per_second else 1e3 * seconds)
    for job in jobs.values():
        job.check()
    return figures, job


def row(title, job, figures):
    """The last cell is how many times as fast the first backend is."""
    medians = [statistics.median(values) for values in figures.values()]
    cells = [cell(values) for values in figures.values()]
    ratio = medians[0] / medians[-1] if job.per_second else medians[-1] / medians[0]
    return f"| {title}, {job.unit} | " + " | ".join(cells) + f" | {ratio:.2f} |"


def rank_main(rank, options):
    warnings.filterwarnings("ignore", "DTensor random operators")  # there are none
    groups = begin_groups(rank, options)
    backends = list(groups)
    if rank == 0:
        print(f"{conditions(options)}; hymn {hymn_torch.hymn_version()}; median (least–greatest) of "
              f"{options.turns} turns")
        print("| job | " + " | ".join(backends) + f" | {backends[0]} is so many times as fast |")
        print("|---|" + "---|" * (len(backends) + 1), flush=True)
    for name in options.jobs.split(","):
        title, make = JOBS[name]
        figures, job = compare(make, options, rank, groups)
        if rank == 0:
            print(row(title, job, figures), flush=True)
    end_ranks()


def main():
    parser = parser_of(__doc__, turns=7)
    parser.add_argument("--backends", default="hymn,gloo")
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--seconds", type=float, default=1.0, help="how long a turn takes")
    start(rank_main, parser.parse_args())


if __name__ == "__main__":
    main()
