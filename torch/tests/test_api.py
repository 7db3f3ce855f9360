"""Every public call of torch.distributed: what Gloo answers on the CPU hymn answers, too.

A call that is new in torch, and not here, is a failure.
"""

import datetime
import unittest
import warnings

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
import torch.distributed.nn.functional as with_gradients

import ranks

SECONDS = datetime.timedelta(seconds=20)


def mine(rank, count=4):
    return torch.arange(count, dtype=torch.float32) + 10 * rank


def blanks(size, count=4):
    return [torch.zeros(count) for _ in range(size)]


def whole(rank, size):
    """A block for each rank."""
    return torch.cat([mine(rank) + 100 * r for r in range(size)])


def other(rank, size):
    return (rank + 1) % size, (rank - 1) % size


# One function for each call, by its name: what it returns is compared.


def all_gather(rank, size):
    dist.all_gather(outputs := blanks(size), mine(rank))
    return outputs


def all_gather_coalesced(rank, size):
    outputs = [blanks(size), blanks(size, 3)]
    dist.all_gather_coalesced(outputs, [mine(rank), mine(rank, 3)])
    return outputs


def all_gather_single(rank, size, call="all_gather_single"):
    getattr(dist, call)(output := torch.zeros(4 * size), mine(rank))
    return output


def all_gather_into_tensor(rank, size):
    return all_gather_single(rank, size, "all_gather_into_tensor")


def all_gather_object(rank, size):
    dist.all_gather_object(objects := [None] * size, {"rank": rank})
    return objects


def all_reduce(rank, size):
    results = []
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        dist.all_reduce(tensor := mine(rank), op)
        results.append(tensor)
    for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
        dist.all_reduce(tensor := mine(rank).long(), op)
        results.append(tensor)
    return results


def all_reduce_coalesced(rank, size):
    dist.all_reduce_coalesced(tensors := [mine(rank), mine(rank, 7)])
    return tensors


def all_to_all(rank, size):
    dist.all_to_all(outputs := blanks(size), list(whole(rank, size).chunk(size)))
    return outputs


def all_to_all_single(rank, size):
    dist.all_to_all_single(output := torch.zeros(4 * size), whole(rank, size))
    return output


def barrier(rank, size):
    return dist.barrier(async_op=True).wait()


def batch_isend_irecv(rank, size):
    to, source = other(rank, size)
    operations = [
        dist.P2POp(dist.irecv, received := torch.zeros(4), source),
        dist.P2POp(dist.isend, mine(rank), to),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return received


def broadcast(rank, size):
    dist.broadcast(tensor := mine(rank), size - 1)
    return tensor


def broadcast_object_list(rank, size):
    dist.broadcast_object_list(objects := [rank, "of", {rank}], 0)
    return objects


def destroy_process_group(rank, size):
    group = dist.new_group(list(range(size)))
    dist.destroy_process_group(group)
    try:
        dist.barrier(group)
    except ValueError as error:
        return str(error)


def gather(rank, size):
    dist.gather(mine(rank), outputs := blanks(size) if rank == 0 else None, 0)
    return outputs


def gather_single(rank, size, call="gather_single"):
    output = torch.zeros(4 * size) if rank == 0 else None
    getattr(dist, call)(mine(rank), output, 0)
    return output


def gather_into_tensor(rank, size):
    return gather_single(rank, size, "gather_into_tensor")


def gather_object(rank, size):
    dist.gather_object({rank}, objects := [None] * size if rank == 0 else None, 0)
    return objects


def get_group_rank(rank, size):
    group = dist.new_group(list(range(size)))
    return dist.get_group_rank(group, rank), dist.get_global_rank(group, 0)


get_global_rank = get_group_rank


def get_process_group_ranks(rank, size):
    return dist.get_process_group_ranks(dist.group.WORLD)


def get_rank(rank, size):
    return dist.get_rank(), dist.get_world_size(), dist.get_pg_count() > 0


get_world_size = get_pg_count = get_rank


def isend(rank, size):
    to, source = other(rank, size)
    sending = dist.isend(mine(rank), to, tag=3)
    dist.irecv(received := torch.zeros(4), source, tag=3).wait()
    sending.wait()
    return received


irecv = isend


def send(rank, size):
    received = torch.zeros(4)
    if rank == 0:
        dist.send(mine(rank), 1)
        return dist.recv(received, 1), received
    if rank == 1:
        source = dist.recv(received)
        dist.send(mine(rank), 0)
        return source, received


recv = send


def send_object_list(rank, size):
    if rank == 0:
        dist.send_object_list(["x", 3], 1)
    if rank == 1:
        return dist.recv_object_list(objects := [None, None], 0), objects


recv_object_list = send_object_list


def monitored_barrier(rank, size):
    return dist.monitored_barrier(timeout=SECONDS, wait_all_ranks=True)


def new_group(rank, size):
    group = dist.new_group([0, 1])
    if rank < 2:
        dist.all_reduce(tensor := mine(rank), group=group)
        return tensor


def new_subgroups(rank, size):
    group, _ = dist.new_subgroups(2)
    dist.all_reduce(tensor := mine(rank), group=group)
    return tensor


def new_subgroups_by_enumeration(rank, size):
    group, _ = dist.new_subgroups_by_enumeration([[0, 1], [2, 3]][: size // 2])
    dist.all_reduce(tensor := mine(rank), group=group)
    return tensor


def record_comm(rank, size):
    with dist.record_comm("named"):
        return all_reduce(rank, size)


def reduce(rank, size):
    dist.reduce(tensor := mine(rank), 0)
    return tensor if rank == 0 else None


def reduce_scatter(rank, size):
    dist.reduce_scatter(output := torch.zeros(4), list(whole(rank, size).chunk(size)))
    return output


def reduce_scatter_single(rank, size, call="reduce_scatter_single"):
    getattr(dist, call)(output := torch.zeros(4), whole(rank, size))
    return output


def reduce_scatter_tensor(rank, size):
    return reduce_scatter_single(rank, size, "reduce_scatter_tensor")


def scatter(rank, size):
    inputs = list(whole(rank, size).chunk(size)) if rank == 0 else None
    dist.scatter(output := torch.zeros(4), inputs, 0)
    return output


def scatter_object_list(rank, size):
    inputs = [f"for {r}" for r in range(size)] if rank == 0 else None
    dist.scatter_object_list(objects := [None], inputs, 0)
    return objects


def set_timeout(rank, size):
    group = dist.new_group(list(range(size)))
    dist.set_timeout(datetime.timedelta(seconds=7), group)
    return dist.all_reduce(mine(rank), group=group, async_op=True).wait()


def split_group(rank, size):
    """Halves, all in another order, and a part of each; torch counts the calls of each rank."""
    everybody, half, results = list(range(size)), size // 2, []
    for parts in ([everybody[:half], everybody[half:]], [everybody[::-1]]):
        group = dist.split_group(None, parts)
        dist.broadcast(tensor := mine(rank), group_src=0, group=group)
        results.append((group.rank(), group.size(), tensor))
        last = dist.split_group(group, [[group.size() - 1]])
        if group.rank() == group.size() - 1:
            dist.all_reduce(tensor := mine(rank), group=last)
            results.append((last.rank(), tensor))
        else:
            results.append(last == dist.GroupMember.NON_GROUP_MEMBER)
    return results


def shrink_group(rank, size):
    """The last rank stays out, and knows no names of groups any more: torch counts the calls."""
    group = dist.new_group(list(range(size)))
    if rank == size - 1:
        return None
    group = dist.shrink_group([size - 1], group)
    dist.all_reduce(tensor := mine(rank), group=group)
    return group.rank(), group.size(), tensor


def supports_complex(rank, size):
    dist.all_reduce(tensor := torch.complex(mine(rank), mine(rank)))
    return tensor, c10d.supports_complex(dist.ReduceOp.SUM)


# What is not public by its name, and used all the same.


def more_abort(rank, size):
    group = dist.new_group(list(range(size)))
    c10d._abort_process_group(group)
    dist.barrier()  # the others are there still


def more_coalescing(rank, size):
    inputs = [mine(rank), mine(rank) + 1]
    with c10d._coalescing_manager():
        for tensor in inputs:
            dist.all_reduce(tensor)
    outputs = blanks(2, 4 * size)
    with c10d._coalescing_manager():
        for output, tensor in zip(outputs, inputs):
            dist.all_gather_into_tensor(output, tensor)
    parts = blanks(2)
    with c10d._coalescing_manager():
        for part, tensor in zip(parts, outputs):
            dist.reduce_scatter_tensor(part, tensor)
    return inputs, outputs, parts


def more_gradients(rank, size):
    """Collectives that know their own gradients."""
    results = []

    def note(call, *arguments, count=4):
        leaf = torch.ones(count, requires_grad=True)
        result = call(leaf * (rank + 1), *arguments)
        parts = list(result) if isinstance(result, (tuple, list)) else [result]
        sum((part * (rank + 2)).sum() for part in parts if part is not None).backward()
        results.append((parts, leaf.grad))

    note(with_gradients.all_reduce)
    note(with_gradients.broadcast, 0)
    note(with_gradients.all_gather)
    note(with_gradients.gather, 0)
    note(lambda t: with_gradients.scatter(list(t.chunk(size)), 0), count=4 * size)
    note(lambda t: with_gradients.reduce_scatter(torch.zeros(4), list(t.chunk(size))), count=4 * size)
    return results


def more_all_to_all_with_gradients(rank, size):
    leaf = whole(rank, size).requires_grad_()
    outputs = with_gradients.all_to_all(blanks(size), list((2 * leaf).chunk(size)))
    sum((output * (rank + 1)).sum() for output in outputs).backward()
    return outputs, leaf.grad


def more_hooks(rank, size):
    """Before and after each call."""
    group, told = dist.new_group(list(range(size))), []
    group.register_pre_hook(1, lambda told_of: told.append(str(told_of.name)))
    group.register_post_hook(1, lambda told_of: told.append(told_of.work is not None))
    dist.all_reduce(mine(rank), group=group)
    dist.broadcast(mine(rank), 0, group=group)
    return told


def more_merge(rank, size):
    """Each rank by itself, and then all of them together."""
    alone = dist.new_group([rank], use_local_synchronization=True)
    store = dist.PrefixStore("merged", c10d._get_default_store())
    merged = alone.merge_remote_group(store, size, SECONDS, "merged")
    merged.allreduce([tensor := torch.ones(3)]).wait()
    return merged.size(), tensor


def more_numbers(rank, size):
    """Sequence numbers: that they count."""
    before = dist.group.WORLD._get_sequence_number_for_group()
    dist.all_reduce(mine(rank))
    return dist.group.WORLD._get_sequence_number_for_group() - before


def more_options(rank, size):
    group = dist.new_group(list(range(size)), timeout=datetime.timedelta(seconds=17))
    return group._get_backend(torch.device("cpu")).options._timeout


def more_pg_timeout(rank, size):
    c10d._set_pg_timeout(SECONDS)
    return barrier(rank, size)


def more_reconfigure(rank, size):
    return dist.group.WORLD.get_reconfigure_handle() != ""


def more_works(rank, size):
    work = dist.all_reduce(tensor := mine(rank), async_op=True)
    future = work.get_future().then(lambda done: done.value()[0] * 2)
    doubled = future.wait()
    work.wait()
    return doubled, tensor, work.is_completed(), work.is_success(), work.exception()


LOCAL = {  # they do not ask the backend, or are used by all else here
    "get_backend", "get_backend_config", "get_backend_impl", "get_debug_level",
    "get_default_backend_for_device", "get_node_local_rank", "group", "init_process_group",
    "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
    "reduce_op",
}  # fmt: skip
REFUSED = {"more_reconfigure"}  # groups whose processes are exchanged while they live
if not hasattr(dist, "set_timeout"):  # older ones ask their own backends alone
    REFUSED |= {"monitored_barrier", "more_numbers", "more_options"}

CALLS = {name: f for name, f in globals().items() if callable(f) and hasattr(c10d, name)}
CALLS.update((name, f) for name, f in globals().items() if name.startswith("more_"))
PUBLIC = {name for name in c10d.__all__ if name[0].islower() and callable(getattr(c10d, name))}


def plain(answer):
    """To be sent, and compared."""
    if isinstance(answer, torch.Tensor):
        return answer.detach().resolve_conj().tolist()
    if isinstance(answer, (list, tuple)):
        return [plain(part) for part in answer]
    return answer


def sweep(rank, size):
    warnings.simplefilter("ignore")
    answers = {}
    for name in sorted(CALLS, key=lambda name: (name == "shrink_group", name)):  # it comes last
        try:
            answers[name] = "gives", plain(CALLS[name](rank, size))
        except Exception as error:
            answers[name] = "refuses", f"{type(error).__name__}: {error}"
        dist.barrier()
    return answers


class Api(unittest.TestCase):
    def test_all_are_asked(self):
        self.assertEqual(PUBLIC - LOCAL - set(CALLS), set())

    def test_answers(self):
        for size in (2, 4):
            both = zip(ranks.run(sweep, size, backend="gloo"), ranks.run(sweep, size))
            for rank, (of_gloo, of_hymn) in enumerate(both):
                for name, (kind, answer) in of_hymn.items():
                    with self.subTest(call=name, rank=rank, size=size):
                        if name in REFUSED:
                            self.assertEqual(kind, "refuses", answer)
                        elif of_gloo[name][0] == "gives":
                            self.assertEqual((kind, answer), of_gloo[name])


if __name__ == "__main__":
    unittest.main()
