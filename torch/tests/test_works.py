"""Works: who waits for them, on which thread, and what their futures hold."""

import datetime
import gc
import threading
import time
import unittest

import torch
import torch.distributed as dist

import hymn_torch
import ranks


def check_work(rank, size):
    tensor = torch.full((4,), rank + 1.0)
    work = dist.all_reduce(tensor, async_op=True)
    assert work.wait() is True and work.is_completed()
    assert tensor.tolist() == [size * (size + 1) / 2] * 4
    work.wait()  # again

    work = dist.barrier(async_op=True)
    end = time.monotonic() + 20
    while not work.is_completed():
        assert time.monotonic() < end
    work.wait()


def check_futures(rank, size):
    """In any order, with what is chained to them; also when nobody waits for the work."""
    tensors = [torch.full((1000 * i + 1,), float(rank)) for i in range(8)]
    futures = [dist.all_reduce(t, async_op=True).get_future() for t in tensors]
    doubled = [f.then(lambda f: f.value()[0] * 2) for f in futures]
    for i in reversed(range(8)):
        expected = float(sum(range(size)))
        assert torch.equal(futures[i].wait()[0], torch.full((1000 * i + 1,), expected))
        assert torch.equal(doubled[i].wait(), torch.full((1000 * i + 1,), 2 * expected))
    assert dist.barrier(async_op=True).get_future().wait() == []
    outputs = [torch.zeros(2) for _ in range(size)]
    value = dist.all_gather(outputs, torch.full((2,), float(rank)), async_op=True).get_future().wait()
    assert [t.tolist() for t in value] == [[float(r)] * 2 for r in range(size)]
    work = dist.all_reduce(torch.ones(3), async_op=True)
    work.wait()
    assert work.get_future().done()
    strided = torch.ones(3, 4).t()
    dist.all_reduce(strided, async_op=True).get_future().wait()
    assert torch.equal(strided, torch.full((4, 3), float(size)))


def check_order_of_futures(rank, size):
    """One that ends late does not keep back one that ends early."""
    if size == 1:
        return
    late = torch.zeros(1)
    if rank == 0:
        receiving = dist.irecv(late, 1, tag=1).get_future()
    early = dist.all_reduce(torch.ones(1), async_op=True).get_future()
    assert early.wait()[0].item() == size
    if rank == 1:
        dist.send(torch.full((1,), 5.0), 0, tag=1)
    if rank == 0:
        assert receiving.wait()[0].item() == 5.0


def check_nested(rank, size):
    """A callback waits for another future, as torch's own hooks do."""

    def again(first):
        tensor = first.value()[0]
        return dist.all_reduce(tensor, async_op=True).get_future().wait()[0]

    futures = []
    for _ in range(5):
        futures.append(dist.all_reduce(torch.ones(1), async_op=True).get_future().then(again))
        assert futures[-1].wait().item() == size * size


def check_threads(rank, size):
    """Two threads and a future wait for the same work, while other threads call other groups."""
    for _ in range(30):
        tensor = torch.full((20000,), 1.0)
        work = dist.all_reduce(tensor, async_op=True)
        future = work.get_future()
        results = []

        def wait(work=work, results=results):
            results.append(work.wait())

        threads = [threading.Thread(target=wait) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert future.wait()[0][0].item() == size
        for thread in threads:
            thread.join(20)
        assert results == [True, True]


def check_dropped(rank, size):
    """Works that nobody keeps go on, with their tensors."""
    for i in range(50):
        dist.all_reduce(torch.full((5000,), float(i)), async_op=True)
        if size > 1 and rank == 0:
            dist.isend(torch.full((100,), float(i)).t(), 1, tag=i)
    gc.collect()
    if rank == 1:
        for i in range(50):
            received = torch.zeros(100)
            dist.recv(received, 0, tag=i)
            assert torch.equal(received, torch.full((100,), float(i)))
    dist.barrier()


def check_gil(rank, size):
    """Other threads run while one waits."""
    if size == 1:
        return
    counted = [0]
    stop = threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    if rank == 0:
        time.sleep(0.5)
        dist.barrier()
    else:
        dist.barrier()
        assert counted[0] > 50, counted
    stop.set()
    thread.join()


def check_refused(rank, size):
    """Misuse is told before anything is sent, and nothing is broken by it."""

    def fails(kind, words, call, *arguments):
        try:
            call(*arguments)
        except kind as error:
            assert words in str(error), str(error)
        else:
            raise AssertionError(f"no {kind.__name__} with {words!r}")

    fails(NotImplementedError, "float8", dist.all_reduce, torch.zeros(2, dtype=torch.float8_e5m2))
    fails(NotImplementedError, "boolean", dist.all_reduce, torch.zeros(2, dtype=torch.bool), dist.ReduceOp.AVG)
    fails(NotImplementedError, "bitwise", dist.all_reduce, torch.zeros(2), dist.ReduceOp.BAND)
    fails(ValueError, "as many elements", dist.all_gather_into_tensor, torch.zeros(3 * size), torch.zeros(2))
    fails(ValueError, "one for each rank", dist.group.WORLD.allgather, [[torch.zeros(2)] * (size + 1)], [torch.zeros(2)])
    fails(ValueError, "two types", dist.group.WORLD.allgather, [[torch.zeros(2)] * size], [torch.zeros(2, dtype=torch.int32)])
    fails(ValueError, "do not add up", dist.all_to_all_single, torch.zeros(4), torch.zeros(4), None, [9] + [0] * (size - 1))
    if size > 1:
        other = (rank + 1) % size
        fails(ValueError, "tag 99999", dist.send, torch.zeros(1), other, None, 99999)
    # Of several types none is sent where one is refused: whole ranks may call it alone.
    group = dist.group.WORLD
    before = hymn_torch.uses()
    options = dist.AllreduceCoalescedOptions()
    options.reduceOp = dist.ReduceOp.AVG
    fails(NotImplementedError, "boolean", group.allreduce_coalesced, [torch.ones(2), torch.zeros(2, dtype=torch.bool)], options)
    base = torch.ones(4)
    options.reduceOp = dist.ReduceOp.SUM
    fails(ValueError, "another one uses", group.allreduce_coalesced, [torch.ones(2).long(), base, base[1:]], options)
    fails(ValueError, "another one uses", group.allreduce_coalesced, [base, base.view(torch.int32)], options)
    # The second writes the input of the first, which lies in the storage of the first's output, too.
    space = torch.zeros(2 * size)
    outputs = [space[size:], space[:size].view(torch.int32)]
    fails(ValueError, "another one uses", group.allgather_into_tensor_coalesced, outputs, [space[:1], torch.zeros(1, dtype=torch.int32)])
    if rank == 0:  # whose second list is wrong
        base = torch.zeros(5)
        inputs = [torch.ones(2), base[:3]]
        rest = [torch.zeros(3) for _ in range(size - 1)]
        for own, words in ((torch.zeros(4), "own output"), (base[1:4], "overlaps")):
            outputs = [[torch.zeros(2) for _ in range(size)], [own, *rest]]
            fails(ValueError, words, group.allgather_coalesced, outputs, inputs)
    assert hymn_torch.uses() == before
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert tensor[0].item() == size
    assert hymn_torch.uses() > 0 and hymn_torch.hymn_version()


def check_hook(rank, size):
    """A hook is told of all that has completed, whoever has waited, and if nobody has."""
    group = dist.new_group(list(range(size)))
    seen = []
    group._register_on_completion_hook(
        lambda info: seen.append((info.op_type, info.seq, info.active_duration.total_seconds()))
    )
    for i in range(20):
        dist.all_reduce(torch.ones(1000), group=group, async_op=i % 2 == 0)
    dist.broadcast(torch.ones(3), 0, group=group)
    group._wait_for_pending_works()
    seen.sort(key=lambda info: info[1])
    first = seen[0][1]
    assert [seq for _, seq, _ in seen] == list(range(first, first + 21)), seen
    kinds = [str(op_type).rpartition(".")[2] for op_type, _, _ in seen]
    assert kinds == ["ALLREDUCE"] * 20 + ["BROADCAST"], kinds
    assert all(0 <= seconds < 20 for _, _, seconds in seen)
    dist.destroy_process_group(group)


def check_hook_raises(rank, size):
    """What a hook raises is told on stderr, and neither ends the operation nor the hook."""
    group = dist.new_group(list(range(size)))
    told = []

    def hook(info):
        told.append(info.seq)
        raise RuntimeError("the hook is at fault")

    group._register_on_completion_hook(hook)
    for _ in range(3):
        tensor = torch.ones(2)
        dist.all_reduce(tensor, group=group)
        assert tensor.tolist() == [size] * 2
    group._wait_for_pending_works()
    assert len(told) == 3, told
    dist.destroy_process_group(group)


def check_hook_of_coalesced(rank, size):
    """Calls that are gathered are told of as one; one that is refused is not told of."""
    group = dist.new_group(list(range(size)))
    kinds = []
    group._register_on_completion_hook(lambda info: kinds.append(str(info.op_type)))
    group._start_coalescing(torch.device("cpu"))
    parts = [group.allreduce([torch.ones(3)]) for _ in range(4)]
    work = group._end_coalescing(torch.device("cpu"))
    while not all(part.is_completed() for part in parts):  # theirs is the end of all
        pass
    work.wait()
    try:
        dist.all_reduce(torch.zeros(2), dist.ReduceOp.BAND, group=group)
    except NotImplementedError:
        pass
    group._wait_for_pending_works()
    assert [kind.rpartition(".")[2] for kind in kinds] == ["COALESCED"], kinds
    dist.destroy_process_group(group)


def check_limit_of_gathered(rank, size):
    """The limit of a call does not count where it is gathered."""
    group = dist.group.WORLD
    options = dist.AllreduceOptions()
    options.timeout = datetime.timedelta(seconds=7)
    tensors = [torch.ones(3), torch.ones(5)]
    group._start_coalescing(torch.device("cpu"))
    for tensor in tensors:
        group.allreduce([tensor], options)
    group._end_coalescing(torch.device("cpu")).wait()
    assert all(torch.equal(t, torch.full_like(t, size)) for t in tensors), tensors


def check_profiler(rank, size):
    with torch.profiler.profile() as profile:
        dist.all_reduce(torch.ones(4))
    names = {event.key for event in profile.key_averages()}
    assert "hymn:all_reduce" in names, names


CHECKS = [f for name, f in sorted(globals().items()) if name.startswith("check_")]


def all_checks(rank, size):
    for check in CHECKS:
        check(rank, size)


class Works(unittest.TestCase):
    def test_1(self):
        ranks.run(all_checks, 1)

    def test_2(self):
        ranks.run(all_checks, 2)

    def test_4(self):
        ranks.run(all_checks, 4)


if __name__ == "__main__":
    unittest.main()
