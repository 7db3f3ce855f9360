"""Every collective with exact results, for all types, layouts and numbers of ranks."""

import unittest

import torch
import torch.distributed as dist

import ranks

NUMBERS = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
]
COMPLEX = [torch.complex64, torch.complex128]
MOVED = NUMBERS + COMPLEX + [torch.bool, torch.float8_e4m3fn, torch.float8_e5m2]


def values(rank, count, dtype=torch.float32, salt=0):
    """Small whole numbers, so that sums and products are exact in all types."""
    numbers = (torch.arange(count) * 7 + rank * 3 + salt) % 4
    if dtype is torch.bool:
        return numbers % 2 == 0
    if dtype.is_complex:
        return torch.complex(numbers.double(), (numbers + rank).double()).to(dtype)
    return numbers.float().to(dtype) if dtype.is_floating_point else numbers.to(dtype)


def blank(*shape, dtype):
    return torch.zeros(*shape).to(dtype)  # there are types in which torch cannot fill


def same(actual, expected):
    assert actual.dtype == expected.dtype and actual.shape == expected.shape, (actual, expected)
    bytes_of = [torch.view_as_real(t) if t.is_complex() else t for t in (actual, expected)]
    wide = [t.float() if t.dtype in (torch.float8_e4m3fn, torch.float8_e5m2) else t for t in bytes_of]
    assert torch.equal(*wide), f"{actual}, not {expected}"


def reduced(op, tensors):
    result = tensors[0].clone()
    for tensor in tensors[1:]:
        if op == dist.ReduceOp.SUM:
            result = result | tensor if result.dtype is torch.bool else result + tensor
        elif op == dist.ReduceOp.PRODUCT:
            result = result & tensor if result.dtype is torch.bool else result * tensor
        elif op == dist.ReduceOp.MIN:
            result = torch.minimum(result, tensor)
        elif op == dist.ReduceOp.MAX:
            result = torch.maximum(result, tensor)
        elif op == dist.ReduceOp.BAND:
            result = result & tensor
        elif op == dist.ReduceOp.BOR:
            result = result | tensor
        else:
            result = result ^ tensor
    return result


def ops_of(dtype):
    op = dist.ReduceOp
    if dtype.is_complex:
        return [op.SUM]
    if dtype.is_floating_point:
        return [op.SUM, op.PRODUCT, op.MIN, op.MAX]
    return [op.SUM, op.PRODUCT, op.MIN, op.MAX, op.BAND, op.BOR, op.BXOR]


def check_all_reduce(rank, size):
    for dtype in NUMBERS + COMPLEX + [torch.bool]:
        for op in ops_of(dtype):
            for count in (0, 1, 17, 5000):
                tensor = values(rank, count, dtype)
                dist.all_reduce(tensor, op)
                same(tensor, reduced(op, [values(r, count, dtype) for r in range(size)]))
    for dtype in (torch.float32, torch.float64, torch.int64):
        tensor = torch.full((9,), rank * size * 2, dtype=dtype)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        same(tensor, torch.full((9,), size * (size - 1), dtype=dtype))
    factor = dist._make_nccl_premul_sum(2.0 + rank)
    tensor = torch.ones(5)
    dist.all_reduce(tensor, factor)
    same(tensor, torch.full((5,), float(sum(2 + r for r in range(size)))))


def check_large(rank, size):
    count = 3_000_001
    tensor = values(rank, count, torch.float32)
    dist.all_reduce(tensor)
    same(tensor, reduced(dist.ReduceOp.SUM, [values(r, count) for r in range(size)]))


def check_broadcast(rank, size):
    for dtype in MOVED:
        for root in range(size):
            tensor = values(rank, 33, dtype, salt=rank)
            dist.broadcast(tensor, root)
            same(tensor, values(root, 33, dtype, salt=root))


def check_reduce(rank, size):
    for dtype in NUMBERS + [torch.bool]:
        for root in range(size):
            tensor = values(rank, 33, dtype)
            dist.reduce(tensor, root)
            if rank == root:
                all_of = [values(r, 33, dtype) for r in range(size)]
                same(tensor, reduced(dist.ReduceOp.SUM, all_of))


def check_all_gather(rank, size):
    for dtype in MOVED:
        outputs = [blank(3, 5, dtype=dtype) for _ in range(size)]
        dist.all_gather(outputs, values(rank, 15, dtype).view(3, 5))
        for r, output in enumerate(outputs):
            same(output, values(r, 15, dtype).view(3, 5))
        whole = blank(size * 15, dtype=dtype)
        dist.all_gather_into_tensor(whole, values(rank, 15, dtype))
        same(whole, torch.cat([values(r, 15, dtype) for r in range(size)]))
    uneven = [torch.zeros(r) for r in range(size)]
    dist.all_gather(uneven, values(rank, rank))
    for r, output in enumerate(uneven):
        same(output, values(r, r))


def check_gather_scatter(rank, size):
    for dtype in MOVED:
        for root in range(size):
            outputs = [blank(7, dtype=dtype) for _ in range(size)] if rank == root else None
            dist.gather(values(rank, 7, dtype), outputs, root)
            if rank == root:
                for r, output in enumerate(outputs):
                    same(output, values(r, 7, dtype))
            output = blank(7, dtype=dtype)
            inputs = [values(r, 7, dtype, salt=root) for r in range(size)] if rank == root else None
            dist.scatter(output, inputs, root)
            same(output, values(rank, 7, dtype, salt=root))


def check_reduce_scatter(rank, size):
    for dtype in NUMBERS + [torch.bool]:
        for op in ops_of(dtype):
            inputs = [values(rank, 6, dtype, salt=r) for r in range(size)]
            expected = reduced(op, [values(r, 6, dtype, salt=rank) for r in range(size)])
            output = blank(6, dtype=dtype)
            dist.reduce_scatter(output, inputs, op)
            same(output, expected)
            output = blank(6, dtype=dtype)
            dist.reduce_scatter_tensor(output, torch.cat(inputs), op)
            same(output, expected)


def check_all_to_all(rank, size):
    for dtype in MOVED:
        outputs = [blank(r + 1, dtype=dtype) for r in range(size)]
        inputs = [values(rank, rank + 1, dtype, salt=r) for r in range(size)]
        dist.all_to_all(outputs, inputs)
        for r, output in enumerate(outputs):
            same(output, values(r, r + 1, dtype, salt=rank))
        output = blank(size * 4, dtype=dtype)
        dist.all_to_all_single(output, torch.cat([values(rank, 4, dtype, salt=r) for r in range(size)]))
        same(output, torch.cat([values(r, 4, dtype, salt=rank) for r in range(size)]))
        # rank r sends r + s rows of two elements to rank s
        inputs = [values(rank, 2 * (rank + r), dtype, salt=r).view(-1, 2) for r in range(size)]
        output = blank(sum(r + rank for r in range(size)), 2, dtype=dtype)
        dist.all_to_all_single(
            output, torch.cat(inputs), [r + rank for r in range(size)], [rank + r for r in range(size)]
        )
        same(output, torch.cat([values(r, 2 * (r + rank), dtype, salt=rank).view(-1, 2) for r in range(size)]))


def check_coalesced(rank, size):
    def inputs_of(r):
        return [values(r, 5), values(r, 3, torch.int64), values(r, 0), values(r, 70, salt=1)]

    tensors = inputs_of(rank)
    dist.group.WORLD.allreduce_coalesced(tensors).wait()
    for i, tensor in enumerate(tensors):
        same(tensor, reduced(dist.ReduceOp.SUM, [inputs_of(r)[i] for r in range(size)]))
    group = dist.group.WORLD
    outputs = [torch.zeros(size * t.numel(), dtype=t.dtype) for t in inputs_of(0)]
    group.allgather_into_tensor_coalesced(outputs, inputs_of(rank)).wait()
    for i, output in enumerate(outputs):
        same(output, torch.cat([inputs_of(r)[i] for r in range(size)]))
    whole = [torch.cat([values(rank, 4, salt=r) for r in range(size)]) for _ in range(2)]
    parts = [torch.zeros(4) for _ in range(2)]
    group.reduce_scatter_tensor_coalesced(parts, whole).wait()
    for part in parts:
        same(part, reduced(dist.ReduceOp.SUM, [values(r, 4, salt=rank) for r in range(size)]))
    wholes = [torch.zeros(2 * size), torch.zeros(size, dtype=torch.int64)]  # in place, two types
    own = [whole.chunk(size)[rank].fill_(rank + 1) for whole in wholes]
    group.allgather_into_tensor_coalesced(wholes, own).wait()
    for whole in wholes:
        assert whole.tolist() == [r + 1 for r in range(size) for _ in range(len(whole) // size)]
    group.reduce_scatter_tensor_coalesced(own, wholes).wait()
    for part in own:
        assert part.tolist() == [size * (rank + 1)] * len(part)
    a, b = torch.full((3,), rank + 1.0), torch.full((4, 2), rank + 2.0).t()
    with dist.distributed_c10d._coalescing_manager(device=torch.device("cpu"), async_ops=True) as all_of:
        dist.all_reduce(a)
        dist.all_reduce(b)
    all_of.wait()
    same(a, torch.full((3,), float(sum(range(1, size + 1)))))
    same(b.contiguous(), torch.full((2, 4), float(sum(range(2, size + 2)))))
    group._start_coalescing(torch.device("cpu"))
    group._end_coalescing(torch.device("cpu")).wait()  # of nothing
    group._start_coalescing(torch.device("cpu"))
    dist.all_reduce(a, async_op=True)  # is never made: something else went wrong
    before = a.clone()
    group._start_coalescing(torch.device("cpu"))
    dist.all_reduce(b, async_op=True)
    group._end_coalescing(torch.device("cpu")).wait()
    same(a, before)
    same(b.contiguous(), torch.full((2, 4), float(size * sum(range(2, size + 2)))))


def check_sparse(rank, size):
    def of(r):
        rows = torch.tensor([[r, r + 1, r]])  # one of them twice
        return torch.sparse_coo_tensor(rows, values(r, 12).view(3, 4), (size + 1, 4))

    expected = sum(of(r).to_dense() for r in range(size))
    tensor = of(rank)
    dist.all_reduce(tensor)
    same(tensor.to_dense(), expected)
    work = dist.all_reduce(tensor := of(rank).coalesce(), async_op=True)
    assert work.get_future().wait()[0] is not None
    same(tensor.to_dense(), expected)
    empty = torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0, 4), (size + 1, 4))
    tensor = of(rank) if rank == 0 else empty
    dist.all_reduce(tensor)
    same(tensor.to_dense(), of(0).to_dense())


def check_strided(rank, size):
    """Elements that do not lie one after the other: transposed, every second one, of a slice."""
    total = sum(range(1, size + 1))
    transposed = torch.full((4, 6), rank + 1.0).t()
    dist.all_reduce(transposed)
    same(transposed.contiguous(), torch.full((6, 4), float(total)))
    base = torch.zeros(20)
    base[::2] = rank + 1
    dist.all_reduce(base[::2])
    same(base[::2].contiguous(), torch.full((10,), float(total)))
    assert not base[1::2].any()
    # one rank's layout is not the others'
    mixed = torch.arange(12.0).view(3, 4)
    mixed = mixed if rank % 2 == 0 else mixed.t().contiguous().t()
    dist.all_reduce(mixed)
    same(mixed.contiguous(), torch.arange(12.0).view(3, 4) * size)
    outputs = [torch.zeros(4, 3).t() for _ in range(size)]
    dist.all_gather(outputs, (torch.arange(12.0).view(4, 3) + rank).t())
    for r, output in enumerate(outputs):
        same(output.contiguous(), (torch.arange(12.0).view(4, 3) + r).t().contiguous())
    column = torch.zeros(5, 3)
    column[:, 1] = float(rank)
    dist.broadcast(column[:, 1], size - 1)
    same(column[:, 1].contiguous(), torch.full((5,), float(size - 1)))
    leaf = torch.ones(3, 2, requires_grad=True)
    with torch.no_grad():
        dist.all_reduce(leaf.t())
    same(leaf.detach(), torch.full((3, 2), float(size)))


def check_messages(rank, size):
    if size == 1:
        return
    to, source = (rank + 1) % size, (rank - 1) % size
    for dtype in MOVED:
        received = blank(9, dtype=dtype)
        sending = dist.isend(values(rank, 9, dtype), to, tag=5)
        dist.recv(received, source, tag=5)
        sending.wait()
        same(received, values(source, 9, dtype))
    sends = [dist.P2POp(dist.isend, torch.full((2,), float(rank)), to)]
    got = torch.zeros(2, 2)[:, 0]
    for work in dist.batch_isend_irecv([*sends, dist.P2POp(dist.irecv, got, source)]):
        work.wait()
    same(got.contiguous(), torch.full((2,), float(source)))
    dist.barrier()
    if rank > 0:
        dist.send(torch.tensor([rank * 10]), 0)
    else:
        seen = set()
        for _ in range(size - 1):
            number = torch.zeros(1, dtype=torch.int64)
            from_rank = dist.recv(number)
            assert number.item() == from_rank * 10
            seen.add(from_rank)
        assert seen == set(range(1, size))


def check_objects(rank, size):
    everybody = [None] * size
    dist.all_gather_object(everybody, {"rank": rank, "text": "x" * rank * 100})
    assert [o["rank"] for o in everybody] == list(range(size))
    shared = [rank, "of all"] if rank == 0 else [None, None]
    dist.broadcast_object_list(shared, 0)
    assert shared == [0, "of all"]
    gathered = [None] * size if rank == size - 1 else None
    dist.gather_object((rank,), gathered, size - 1)
    assert rank != size - 1 or gathered == [(r,) for r in range(size)]
    mine = [None]
    dist.scatter_object_list(mine, [f"for {r}" for r in range(size)] if rank == 0 else None, 0)
    assert mine == [f"for {rank}"]


def check_barrier(rank, size):
    for _ in range(20):
        dist.barrier()
    assert dist.barrier(async_op=True).wait()


CHECKS = [f for name, f in sorted(globals().items()) if name.startswith("check_")]


def all_checks(rank, size):
    for check in CHECKS:
        check(rank, size)


class Collectives(unittest.TestCase):
    def test_1(self):
        ranks.run(all_checks, 1)

    def test_2(self):
        ranks.run(all_checks, 2)

    def test_3(self):
        ranks.run(all_checks, 3)

    def test_4(self):
        ranks.run(all_checks, 4)


if __name__ == "__main__":
    unittest.main()
