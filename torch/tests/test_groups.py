"""Process groups: who makes them, in which order, and their end."""

import datetime
import time
import unittest

import torch
import torch.distributed as dist

import hymn_torch
import ranks


def total(group, value):
    tensor = torch.tensor([value])
    dist.all_reduce(tensor, group=group)
    return tensor.item()


def sub_groups(rank, size):
    """Every rank asks for all groups, as torch wants it; then for its own alone."""
    pairs = {}
    for low in range(size):
        for high in range(low + 1, size):
            group = dist.new_group([high, low])
            if rank in (low, high):
                pairs[low, high] = group
    for (low, high), group in pairs.items():
        assert total(group, rank) == low + high
        root = torch.tensor([rank])
        dist.broadcast(root, high, group=group)
        assert root.item() == high
        other = high if rank == low else low
        got = torch.tensor([-1])
        if rank == low:
            dist.send(torch.tensor([rank]), other, group=group)
            assert dist.recv(got, None, group=group) == other
        else:
            assert dist.recv(got, other, group=group) == other
            dist.send(torch.tensor([rank]), other, group=group)
        assert got.item() == other
    return len(pairs)


def local_groups(rank, size):
    """Members alone make their groups, each rank its own list of them."""
    chain = [(0, 1), (1, 2), (2, 3)]
    mine = [pair for pair in chain if rank in pair]
    if rank == 3:
        mine.reverse()
    for pair in mine:
        group = dist.new_group(list(pair), use_local_synchronization=True)
        assert total(group, rank) == sum(pair)
    dist.barrier()


def again(rank, size, path):
    """Group after group, and world after world, in one process."""
    for round_ in range(3):
        group = dist.new_group(list(range(size)), timeout=datetime.timedelta(seconds=15))
        half = dist.new_group([0, size - 1])
        assert total(group, 1) == size
        if rank in (0, size - 1):
            assert total(half, 1) == 2
        dist.destroy_process_group(group)
        assert total(None, rank) == size * (size - 1) / 2
        dist.destroy_process_group()
        ranks.begin(f"{path}{round_}", rank, size)
    return total(None, 1)


def over_one_file(rank, size, path):
    """The same store for every world: what an earlier one has left there is not taken for new."""
    for _ in range(3):
        store = dist.FileStore(path)  # told how many use it, the last of them removes the file
        dist.init_process_group(
            "hymn",
            store=store,
            rank=rank,
            world_size=size,
            timeout=datetime.timedelta(seconds=20),
        )
        assert total(None, 1) == size
        dist.destroy_process_group()
        del store
    return True


def second_try(rank, size, path):
    """Each rank in turn comes alone, and gives up; then all come together."""

    def begin(seconds):
        store = dist.FileStore(path)
        dist.init_process_group(
            "hymn",
            store=store,
            rank=rank,
            world_size=size,
            timeout=datetime.timedelta(seconds=seconds),
        )

    texts = []
    for alone in range(size):
        if rank == alone:
            try:
                begin(0.5)
            except dist.DistBackendError as error:
                texts.append(str(error))
        else:
            time.sleep(1)
        begin(30)
        assert total(None, 1) == size
        dist.barrier()
        dist.destroy_process_group()
    return texts


def beside_gloo(rank, size):
    """hymn for some groups of a job whose default is another backend."""
    first = dist.new_group([0, 2], backend="hymn")
    if rank in (0, 2):
        assert total(first, rank) == 2
        root = torch.tensor([rank])
        dist.broadcast(root, 2, group=first)
        assert root.item() == 2
    whole = dist.new_group(list(range(size)), backend="hymn")
    assert total(whole, rank) == size * (size - 1) / 2
    second = dist.new_group([1, 2], backend="hymn")
    if rank in (1, 2):
        assert total(second, rank) == 3
        assert hymn_torch.uses("shm", second) > 0
    assert total(None, 1) == size
    try:
        hymn_torch.uses()
    except ValueError as error:
        assert "not hymn" in str(error)
    else:
        raise AssertionError("gloo's group was taken for hymn's")


def for_devices(rank, size):
    """The default group by a list of devices."""
    assert total(None, 1) == size and hymn_torch.uses() == 1


def in_detail(rank, size, path):
    """torch's own checks, before each call (TORCH_DISTRIBUTED_DEBUG)."""
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    ranks.begin(path, rank, size)
    assert total(None, rank) == size * (size - 1) / 2
    dist.destroy_process_group()
    dist.set_debug_level(dist.DebugLevel.OFF)


def with_workers(rank, size):
    """Processes that a rank has forked leave its groups alone."""
    data = torch.utils.data.DataLoader(torch.arange(64), batch_size=8, num_workers=2)
    for batch in data:
        assert total(None, int(batch.sum())) == size * int(batch.sum())


def left_open(rank, size):
    """Neither destroy_process_group nor an error: the process just ends."""
    group = dist.new_group([0, 1])
    if rank < 2:
        assert total(group, 1) == 2
    assert total(None, 1) == size


def undestroyed(rank, size, path):
    ranks.begin(path, rank, size)
    left_open(rank, size)


class Groups(unittest.TestCase):
    def test_sub_groups(self):
        self.assertEqual(ranks.run(sub_groups, 4), [3] * 4)

    def test_local_groups(self):
        ranks.run(local_groups, 4)

    def test_again(self):
        self.assertEqual(ranks.run(again, 3, ranks.temporary_file()), [3] * 3)

    def test_over_one_file(self):
        path = ranks.temporary_file()
        self.assertEqual(ranks.run(over_one_file, 2, path, backend=None), [True] * 2)

    def test_second_try(self):
        path = ranks.temporary_file()
        (first,), (second,) = ranks.run(second_try, 2, path, backend=None)
        self.assertIn("missing: rank(s) 1", first)
        self.assertIn("missing: rank(s) 0", second)

    def test_beside_gloo(self):
        ranks.run(beside_gloo, 3, backend="gloo")

    def test_for_devices(self):
        ranks.run(for_devices, 2, backend="cpu:hymn")

    def test_in_detail(self):
        ranks.run(in_detail, 2, ranks.temporary_file(), backend=None)

    def test_with_workers(self):
        ranks.run(with_workers, 2)

    def test_left_open(self):
        ranks.run(undestroyed, 2, ranks.temporary_file(), backend=None)


if __name__ == "__main__":
    unittest.main()
