"""Tensors on GPUs, as far as a machine without one can tell: what runs on which stream, in which
order, and what is refused (gpu_double.cpp). No GPU has run this."""

import contextlib
import datetime
import logging
import os
import subprocess
import sys
import time
import types
import unittest
from unittest import mock

import torch
import torch.distributed as dist
from torch.utils import cpp_extension

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 120
STREAM, HANDLE = 7, 0x700


def build(package):
    """The double of GPUs, which is to be found before hymn's own functions are."""
    folder = os.path.join(os.path.dirname(package), "gpu_double")
    os.makedirs(folder, exist_ok=True)
    flags = sys.getdlopenflags()
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
    try:
        return cpp_extension.load(
            "gpu_double", [os.path.join(HERE, "gpu_double.cpp")], build_directory=folder,
            extra_cflags=["-O0", "-g0"],
            extra_include_paths=[os.path.join(os.path.dirname(package), "hymn", "include")])
    finally:
        sys.setdlopenflags(flags)


def await_end(work):
    end = time.monotonic() + 20
    while not work.is_completed():
        assert time.monotonic() < end, "it does not end"


@contextlib.contextmanager
def raises(kind, *texts):
    try:
        yield
    except kind as error:
        for text in texts:
            assert text in str(error), f"'{text}' is not in: {error}"
    else:
        raise AssertionError(f"no {kind}")


def check_order(double, rank):
    """A collective comes after the current stream, on one of its own; wait() holds the current
    stream up, and not the host."""
    host = torch.full((4,), rank + 1.0)
    double.set_reached(False)
    work = dist.all_reduce(double.on_gpu(host), async_op=True)
    begun = [f"stream {STREAM} after 0", f"all_reduce on {HANDLE:#x}"]
    assert double.take_notes() == begun
    work.wait()
    assert double.take_notes() == ["stream 0 after 7"]
    time.sleep(0.05)
    assert not work.is_completed(), "what follows on its stream has not been done"
    double.set_reached(True)
    await_end(work)
    assert host.tolist() == [3.0] * 4
    double.take_notes()

    work = dist.all_reduce(double.on_gpu(host), async_op=True)
    work.wait(datetime.timedelta(seconds=20))
    assert host.tolist() == [6.0] * 4, "the host has not waited"
    assert double.take_notes() == [*begun, "host after 7"]


def check_future(double, rank):
    """It has its value at once, in the order of the stream."""
    host = torch.full((4,), rank + 1.0)
    work = dist.all_reduce(double.on_gpu(host), async_op=True)
    double.take_notes()
    called = []
    work.get_future().then(lambda future: called.append(future.value()[0].device)).wait()
    assert called == [torch.device("cuda", 0)]
    assert f"stream 9 after {STREAM}" in double.take_notes()
    await_end(work)


def check_messages(double, rank):
    """The host waits until the tensor is ready: no message holds up another one on a stream."""
    mine, theirs = torch.full((4,), float(rank)), torch.full((4,), -1.0)
    works = [dist.isend(double.on_gpu(mine), 1 - rank), dist.irecv(double.on_gpu(theirs), 1 - rank)]
    assert double.take_notes() == ["host after 0"] * 2
    for work in works:
        work.wait()
    assert theirs.tolist() == [1.0 - rank] * 4


def check_other_gpus(double, rank):
    """Tensors on another GPU than hymn's choice have a group there, which all ranks make together."""
    import hymn_torch
    uses = hymn_torch.uses()
    host = torch.full((4,), rank + 1.0)
    with raises(ValueError, "a message of a tensor on cuda:1, but hymn has chosen GPU 0"):
        dist.isend(double.on_gpu(host, 1), 1 - rank)
    begun = [f"stream {STREAM} after 0", f"all_reduce on {HANDLE:#x}"]
    for i, made in enumerate((["group on 1"], [])):
        work = dist.all_reduce(double.on_gpu(host, 1), async_op=True)
        assert double.take_notes() == made + begun
        work.wait()
        await_end(work)
        assert host.tolist() == [3.0 * 2**i] * 4
        double.take_notes()
    assert hymn_torch.uses() == uses + 1, "it was asked where tensors are, and no more"
    mine, theirs = torch.full((4,), float(rank)), torch.full((4,), -1.0)
    works = [dist.isend(double.on_gpu(mine, 1), 1 - rank),
             dist.irecv(double.on_gpu(theirs, 1), 1 - rank)]
    for work in works:
        work.wait()
    assert theirs.tolist() == [1.0 - rank] * 4
    double.take_notes()
    # One rank's tensor alone is elsewhere: the group names the other's, too.
    group = dist.new_group([0, 1])
    total = torch.full((2,), rank + 1.0)
    work = dist.all_reduce(double.on_gpu(total, rank), group=group, async_op=True)
    assert double.take_notes() == [f"group on {rank}", *begun]
    await_end(work)
    assert total.tolist() == [3.0] * 2
    group._get_backend(torch.device("cuda")).give_up("the test wants it so")
    with raises(Exception, "the test wants it so"):
        dist.all_reduce(double.on_gpu(total, rank), group=group)
    double.take_notes()


def check_refusals(double, rank):
    tensor = double.on_gpu(torch.ones(4))
    double.set_has_gpus(False)  # hymn itself is told of the stream
    with raises(NotImplementedError, "a stream is given", "cpu:hymn,cuda:nccl"):
        dist.all_reduce(tensor)
    double.set_has_gpus(True)
    with raises(NotImplementedError, "of a tensor on a GPU cannot be gathered"):
        with dist._coalescing_manager(device=tensor.device):
            dist.all_reduce(tensor)
    with raises(ValueError, "tensors on"):
        dist.all_gather_into_tensor(torch.empty(8), tensor)


def of_rank(rank, path):
    package = os.path.join(os.environ["PYTHONPATH"].split(":")[0], "hymn_torch")
    double = build(package)
    import hymn_torch
    import ranks
    double.use(os.path.join(os.path.dirname(package), "hymn", "lib", "libhymn.so"))
    told = []
    log = logging.getLogger("hymn_torch")
    log.setLevel(logging.INFO)
    log.addHandler(types.SimpleNamespace(level=0, handle=lambda record: told.append(record)))
    ranks.begin(path, rank, 2, "cpu:hymn,cuda:hymn")
    stream = types.SimpleNamespace(stream_id=STREAM, cuda_stream=HANDLE)
    with (mock.patch.object(torch.cuda, "Stream", lambda gpu: stream),
          mock.patch.object(torch.Tensor, "__repr__", lambda _: "a tensor")):  # torch logs errors so
        host = torch.ones(3)
        dist.all_reduce(host)
        assert host.tolist() == [2.0] * 3 and not told and not double.take_notes()
        before = hymn_torch.uses()
        check_order(double, rank)
        assert hymn_torch.uses() == before + 3, "GPUs have another group than the host"
        for check in (check_future, check_messages, check_other_gpus, check_refusals):
            check(double, rank)
    assert [record.levelno for record in told] == [logging.INFO] and "not been run" in told[0].msg
    dist.destroy_process_group()


def beside_another(rank, size, path):
    """hymn carries what is in the memory of the host. NCCL's backend makes no object where no GPU is;
    Gloo stands for it."""
    import hymn_torch
    import ranks
    if dist.is_nccl_available() and torch.cuda.device_count() == 0:
        with raises((ValueError, RuntimeError)):
            ranks.begin(path + ".nccl", rank, size, "cpu:hymn,cuda:nccl")
    ranks.begin(path, rank, size, "cpu:hymn,cuda:gloo")
    everybody = dist.group.WORLD
    assert type(everybody._get_backend(torch.device("cuda"))).__name__ == "ProcessGroupGloo"
    for group in (everybody, dist.new_group(list(range(size)))):
        before = hymn_torch.uses("", group)
        total = torch.tensor([rank])
        dist.all_reduce(total, group=group)
        answers = [None] * size
        dist.all_gather_object(answers, rank, group=group)
        assert total.item() == sum(range(size)) and answers == list(range(size))
        dist.barrier(group=group)
        assert hymn_torch.uses("", group) > before
    dist.destroy_process_group()


class Gpus(unittest.TestCase):
    def test_beside_another_backend(self):
        import ranks
        ranks.run(beside_another, 2, ranks.temporary_file(), backend=None)

    def test_devices(self):
        import hymn_torch
        for gpus, devices in ((0, ["cpu"]), (2, ["cpu", "cuda"])):
            with mock.patch.object(torch.cuda, "device_count", lambda gpus=gpus: gpus):
                self.assertEqual(hymn_torch._devices(), devices)

    @unittest.skipIf(os.environ.get("TORCH_SANITIZE"), "symbols of the sanitizers' own come first")
    @unittest.skipUnless(cpp_extension.is_ninja_available(), "there is no ninja")
    def test_order_of_streams(self):
        import hymn_torch
        import ranks
        build(os.path.dirname(hymn_torch.__file__))  # once, for both
        path = ranks.temporary_file()
        processes = [
            subprocess.Popen([sys.executable, "-m", "test_gpus", str(rank), path], text=True,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for rank in range(2)
        ]
        try:
            for process in processes:
                _, errors = process.communicate(timeout=LIMIT)
                self.assertEqual(process.returncode, 0, errors)
        finally:
            for process in processes:
                process.kill()
                process.communicate()


if __name__ == "__main__":
    of_rank(int(sys.argv[1]), sys.argv[2])
