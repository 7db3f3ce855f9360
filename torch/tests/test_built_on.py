"""What torch builds on process groups: each against the same without any, in one process."""

import copy
import unittest

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as checkpoint
import torch.distributed.rpc as rpc
from torch.distributed._tensor import Replicate, Shard, distribute_tensor
from torch.distributed.algorithms import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import ranks

try:
    from torch.distributed.fsdp import fully_shard
except ImportError:  # FSDP2, which needs GPUs where it is not public
    fully_shard = None

CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def net():
    torch.manual_seed(1)
    layers = torch.nn.Linear(12, 24), torch.nn.ReLU(), torch.nn.Linear(24, 8)
    return torch.nn.Sequential(*layers).double()


def data(batches, seed=2):
    torch.manual_seed(seed)
    return torch.randn(batches, 4, 12).double(), torch.randn(batches, 4, 8).double()


def loss_of(model, inputs, targets):
    return torch.nn.functional.mse_loss(model(inputs), targets)


def train(model, optimizer, batches):
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def trained_alone(size, steps, make_optimizer):
    """With all data in one process: the mean over equal batches is that over all."""
    model = net()
    inputs, targets = (tensor.view(steps, 4 * size, -1) for tensor in data(steps * size))
    train(model, make_optimizer(model.parameters()), zip(inputs, targets))
    return model


def own_batches(rank, size, steps):
    inputs, targets = data(steps * size)
    return [(inputs[i * size + rank], targets[i * size + rank]) for i in range(steps)]


def same_parameters(some, others):
    for one, other in zip(some, others):
        assert torch.allclose(one, other, **CLOSE), (one - other).abs().max()


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


def fsdp(rank, size):
    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP):
        model = FullyShardedDataParallel(
            net(), sharding_strategy=strategy, device_id=torch.device("cpu"), use_orig_params=True
        )
        train(model, sgd(model.parameters()), own_batches(rank, size, 4))
        with FullyShardedDataParallel.summon_full_params(model):
            whole = [p.detach().clone() for p in model.parameters()]
        same_parameters(whole, trained_alone(size, 4, sgd).parameters())


def shard(model, mesh, **options):
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def fsdp2(rank, size):
    """Over all ranks; of four also over two pairs, each of which has all parameters."""
    meshes = [init_device_mesh("cpu", (size,))]
    if size == 4:
        meshes.append(init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards")))
    expected = trained_alone(size, 4, sgd)
    for mesh in meshes:
        for reshard in (True, False):
            model = shard(net(), mesh, reshard_after_forward=reshard)
            assert all(p.to_local().numel() < p.numel() for p in model.parameters())
            train(model, sgd(model.parameters()), own_batches(rank, size, 4))
            same_parameters([p.full_tensor() for p in model.parameters()], expected.parameters())


def fsdp2_with_tensor_parallel(rank, size):
    """Pairs have the layers in parts, of which each rank has a shard."""
    mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("data", "tensor"))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model = shard(parallelize_module(net(), mesh["tensor"], plan), mesh["data"])
    train(model, sgd(model.parameters()), own_batches(rank // 2, size // 2, 4))
    expected = trained_alone(size // 2, 4, sgd)
    same_parameters([p.full_tensor() for p in model.parameters()], expected.parameters())


def zero(rank, size):
    model = DistributedDataParallel(net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    train(model, optimizer, own_batches(rank, size, 4))
    same_parameters(model.parameters(), trained_alone(size, 4, adam).parameters())
    optimizer.consolidate_state_dict(to=0)
    if rank == 0:
        assert len(optimizer.state_dict()["state"]) == 4


def joined(rank, size):
    """Rank r has r + 1 batches: the gradients of those that have none are zero."""
    model = DistributedDataParallel(net())
    inputs, targets = data(size)
    optimizer = sgd(model.parameters())
    with Join([model], divide_by_initial_world_size=True):
        train(model, optimizer, [(inputs[i], targets[i]) for i in range(rank + 1)])
    alone = net()
    optimizer = sgd(alone.parameters())
    for i in range(size):
        optimizer.zero_grad()
        (loss_of(alone, inputs[i], targets[i]) * (size - i) / size).backward()
        optimizer.step()
    if rank == size - 1:  # the one that has made all steps
        same_parameters(model.parameters(), alone.parameters())


def tensor_parallel(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    alone = net()
    parallel = parallelize_module(net(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    inputs, targets = data(1)
    for _ in range(3):
        for model in (alone, parallel):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            train(model, optimizer, [(inputs[0], targets[0])])
    whole = [p.full_tensor() for p in parallel.parameters()]
    same_parameters(whole, alone.parameters())


def sequence_parallel(rank, size):
    """Each rank has a part of the sequence, and of the layers."""
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(6)
    layers = torch.nn.LayerNorm(12), torch.nn.Linear(12, 24), torch.nn.ReLU(), torch.nn.Linear(24, 12)
    alone = torch.nn.Sequential(*layers).double()
    plan = {
        "0": SequenceParallel(),
        "1": ColwiseParallel(input_layouts=Shard(1)),
        "3": RowwiseParallel(output_layouts=Shard(1)),
    }
    parallel = parallelize_module(copy.deepcopy(alone), mesh, plan)
    whole = torch.randn(3, 8, 12).double()  # batch, sequence, values
    mine = whole.chunk(size, dim=1)[rank]
    alone(whole).square().sum().backward()
    output = parallel(mine)
    assert torch.allclose(output, alone(whole).chunk(size, dim=1)[rank], **CLOSE)
    output.square().sum().backward()
    gradients = [p.grad.full_tensor() for p in parallel.parameters()]
    same_parameters(gradients, [p.grad for p in alone.parameters()])


def parallel_loss(rank, size):
    """A loss over classes of which each rank has some; torch has it of floats alone."""
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(3)
    alone = torch.nn.Sequential(torch.nn.Linear(12, 8))
    plan = {"0": ColwiseParallel(use_local_output=False)}
    parallel = parallelize_module(copy.deepcopy(alone), mesh, plan)
    inputs, labels = data(1)[0][0].float(), torch.tensor([0, 3, 7, 5])
    expected = torch.nn.functional.cross_entropy(alone(inputs), labels)
    expected.backward()
    with loss_parallel():
        loss = torch.nn.functional.cross_entropy(parallel(inputs), labels)
        loss.backward()
    assert torch.allclose(loss.full_tensor(), expected)
    for one, other in zip(parallel.parameters(), alone.parameters()):
        assert torch.allclose(one.grad.full_tensor(), other.grad, rtol=1e-4, atol=1e-6)


def dtensors(rank, size):
    shape = (2, size // 2) if size > 2 else (size,)
    mesh = init_device_mesh("cpu", shape)
    torch.manual_seed(4)
    a, b = torch.randn(8, 12).double(), torch.randn(12, 16).double()
    rows = [Shard(0)] * mesh.ndim
    columns = [Shard(1)] * mesh.ndim
    everywhere = [Replicate()] * mesh.ndim
    left = distribute_tensor(a, mesh, rows)
    for placements in (everywhere, columns):
        right = distribute_tensor(b, mesh, placements)
        assert torch.allclose((left @ right).full_tensor(), a @ b, **CLOSE)
    moved = left.redistribute(mesh, columns)
    assert torch.equal(moved.full_tensor(), a)
    partial = distribute_tensor(a, mesh, columns) @ distribute_tensor(b, mesh, rows)
    assert torch.allclose(partial.redistribute(mesh, rows).full_tensor(), a @ b, **CLOSE)


def functional_collectives(rank, size):
    group = dist.group.WORLD
    of_ranks = [torch.arange(6.0).view(3, 2) + r for r in range(size)]
    mine, total, gathered = of_ranks[rank], sum(of_ranks), torch.cat(of_ranks)
    assert torch.equal(functional.all_reduce(mine, "sum", group), total)
    assert torch.equal(functional.all_gather_tensor(mine, 0, group), gathered)
    scattered = functional.reduce_scatter_tensor(gathered, "sum", 0, group)
    assert torch.equal(scattered, mine * size)
    assert torch.equal(functional.broadcast(mine, size - 1, group), of_ranks[-1])
    pieces = functional.all_to_all_single(gathered, [3] * size, [3] * size, group)
    assert torch.equal(pieces, mine.repeat(size, 1))
    reduced = functional.all_reduce_coalesced([mine, mine.long()], "sum", group)
    assert torch.equal(reduced[0], total) and torch.equal(reduced[1], total.long())
    # with gradients: those of a gather are reduced, and the other way
    leaf = mine.clone().requires_grad_()
    (functional.all_gather_tensor_autograd(leaf, 0, group) * 2).sum().backward()
    assert torch.equal(leaf.grad, torch.full((3, 2), 2.0 * size))
    leaf = gathered.clone().requires_grad_()
    scattered = functional.reduce_scatter_tensor_autograd(leaf, "sum", 0, group)
    (scattered * (rank + 1)).sum().backward()
    factors = torch.arange(1.0, size + 1).repeat_interleave(6)
    assert torch.equal(leaf.grad.flatten(), factors)


def checkpoints(rank, size, folder):
    """Saved by all ranks, and loaded by a model with other parameters."""
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(5)
    whole = torch.randn(8, 4)
    state = {"sharded": distribute_tensor(whole, mesh, [Shard(0)]), "step": torch.tensor(7)}
    checkpoint.save(state, checkpoint_id=folder)
    blank = distribute_tensor(torch.zeros(8, 4), mesh, [Shard(1)])
    other = {"sharded": blank, "step": torch.tensor(0)}
    checkpoint.load(other, checkpoint_id=folder)
    assert torch.equal(other["sharded"].full_tensor(), whole)
    assert other["step"].item() == 7


def total_of_all(value):
    tensor = torch.tensor([value])
    dist.all_reduce(tensor)
    return tensor.item()


def remote(rank, size, path):
    """Calls of others' functions, beside collectives and in them."""
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{path}", num_worker_threads=4)
    rpc.init_rpc(f"rank{rank}", rank=rank, world_size=size, rpc_backend_options=options)
    other = f"rank{(rank + 1) % size}"
    answer = rpc.rpc_sync(other, torch.add, args=(torch.ones(2), 3))
    assert torch.equal(answer, torch.full((2,), 4.0))
    assert total_of_all(rank) == size * (size - 1) // 2
    asked = rpc.rpc_async(other, total_of_all, args=(rank,))  # all are asked, so all take part
    assert asked.wait() == size * (size - 1) // 2
    rpc.shutdown()


class BuiltOn(unittest.TestCase):
    def check(self, function, *arguments, sizes=(2, 4)):
        for size in sizes:
            with self.subTest(size=size):
                ranks.run(function, size, *arguments)

    def test_fsdp(self):
        self.check(fsdp)

    @unittest.skipUnless(fully_shard, "this torch has FSDP2 on GPUs alone")
    def test_fsdp2(self):
        self.check(fsdp2)

    @unittest.skipUnless(fully_shard, "this torch has FSDP2 on GPUs alone")
    def test_fsdp2_with_tensor_parallel(self):
        self.check(fsdp2_with_tensor_parallel, sizes=(4,))

    @unittest.skipUnless(fully_shard, "an assertion of this torch's own fails")
    def test_sequence_parallel(self):
        self.check(sequence_parallel)

    def test_zero(self):
        self.check(zero)

    def test_join(self):
        self.check(joined)

    def test_tensor_parallel(self):
        self.check(tensor_parallel)

    def test_parallel_loss(self):
        self.check(parallel_loss)

    def test_dtensors(self):
        self.check(dtensors)

    def test_functional_collectives(self):
        self.check(functional_collectives)

    def test_checkpoints(self):
        for size in (2, 4):
            ranks.run(checkpoints, size, ranks.temporary_file() + ".d")

    def test_remote(self):
        for size in (2, 4):
            ranks.run(remote, size, ranks.temporary_file())


if __name__ == "__main__":
    unittest.main()
