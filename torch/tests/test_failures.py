"""What goes wrong is told: by name, in time, as torch's errors; and nothing hangs."""

import datetime
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import torch
import torch.distributed as dist

import hymn_torch
import ranks


def error_of(call, *arguments):
    """The text of the DistBackendError that it raises, and after how many seconds."""
    began = time.monotonic()
    try:
        call(*arguments)
    except dist.DistBackendError as error:
        return str(error), time.monotonic() - began
    raise AssertionError("no DistBackendError")


def killed(rank, size):
    dist.barrier()
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return error_of(dist.all_reduce, torch.ones(100))


def shrunk(rank, size):
    """Those that are left go on, as the default group."""
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    error_of(dist.all_reduce, torch.ones(3))
    dist.shrink_group([1])
    dist.all_reduce(tensor := torch.ones(3))
    return dist.get_world_size(), tensor.tolist()


def monitored(rank, size):
    dist.barrier()
    if rank == 1:
        time.sleep(1.5)
        return None
    return error_of(lambda: dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.5)))


def torch_aborts(rank, size):
    """On one rank; the others hear of it."""
    group = dist.new_group(list(range(size)))
    if rank == 0:
        dist.distributed_c10d._abort_process_group(group)
        return dist.get_world_size()
    return error_of(lambda: dist.all_reduce(torch.ones(3), group=group))[0]


def missing(rank, size):
    dist.barrier()
    if rank == 1:
        time.sleep(4)
    return error_of(dist.all_reduce, torch.ones(100))


def missing_future(rank, size):
    if rank == 1:
        time.sleep(4)
        return None
    future = dist.all_reduce(torch.ones(100), async_op=True).get_future()
    try:
        future.wait()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("no error")


def different(rank, size):
    call = dist.all_reduce if rank == 0 else dist.broadcast
    return error_of(call, torch.ones(7), *([0] if rank else []))[0]


def line_number():
    return sys._getframe(1).f_lineno


def places(rank, size):
    """The lines of the last call that both have made, and of the one that rank 1 does not make."""
    completed = line_number() + 1
    dist.barrier()
    if rank == 1:
        time.sleep(3)
        return None
    called = line_number() + 2
    try:
        dist.all_reduce(torch.ones(5))
    except dist.DistBackendError as error:
        return completed, called, str(error)


def coalesced_place(rank, size):
    """The end of a scope is called by contextlib."""
    dist.barrier()
    if rank == 1:
        time.sleep(3)
        return None
    line = line_number() + 2
    try:
        with dist.distributed_c10d._coalescing_manager(device=torch.device("cpu")):
            dist.all_reduce(torch.ones(5))
    except dist.DistBackendError as error:
        return line, str(error)


def one_limit(rank, size):
    """Of a single call: the group's stays as it is."""
    if rank == 1:
        time.sleep(1.5)
        return None
    options = dist.AllreduceOptions()
    options.timeout = datetime.timedelta(seconds=0.5)
    group = dist.group.WORLD
    return error_of(lambda: group.allreduce([torch.ones(1)], options).wait())


def new_limit(rank, size):
    dist.barrier()
    if rank == 1:
        time.sleep(1.5)
        return None
    hymn_torch.set_timeout(datetime.timedelta(seconds=0.5))
    return error_of(dist.all_reduce, torch.ones(1))


def hook_of_failed(rank, size):
    """The hook is told of what has succeeded alone; nothing stays pending."""
    group = dist.group.WORLD
    told = []
    group._register_on_completion_hook(lambda info: told.append(str(info.op_type)))
    dist.barrier()
    if rank == 1:
        time.sleep(3)
        return None
    error_of(dist.all_reduce, torch.ones(3))
    group._wait_for_pending_works()
    return told


def interrupted_hook(rank, size):
    """Ctrl-C ends the wait for what the other rank does not make."""
    group = dist.group.WORLD
    group._register_on_completion_hook(lambda info: None)
    dist.barrier()
    if rank == 1:
        time.sleep(6)
        dist.all_reduce(torch.ones(3))
        return None
    work = dist.all_reduce(torch.ones(3), async_op=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    try:
        group._wait_for_pending_works()
    except KeyboardInterrupt:
        seconds = time.monotonic() - began
    else:
        raise AssertionError("no KeyboardInterrupt")
    work.wait()
    return seconds


def aborted(rank, size):
    if rank == 0:
        threading.Timer(0.3, hymn_torch.abort, ("we stop here",)).start()
    text, seconds = error_of(dist.recv, torch.ones(1), (rank + 1) % size)
    assert seconds < 5, seconds
    again, _ = error_of(dist.barrier)
    return text, again


def patience(rank, size):
    """A wait's own limit leaves the operation as it is."""
    tensor = torch.ones(1)
    if rank == 0:
        time.sleep(1)
    work = dist.all_reduce(tensor, async_op=True)
    if rank == 1:
        text, seconds = error_of(work.wait, datetime.timedelta(seconds=0.2))
        assert seconds < 1 and "timeout" in text.lower(), (text, seconds)
    work.wait()
    return tensor.item()


def never_comes(rank, size, path):
    if rank == 1:
        return None
    return error_of(ranks.begin, path, 0, 2, "hymn", 2)


def has_gone(rank, size, path):
    """Rank 0 has begun a try, and does not see that rank 1 has come to it."""
    store = dist.FileStore(path)
    store.add("hymn/tries", 1)
    return error_of(hymn_torch._C.create, store, 1, 2, 0.5, "world", [], True)


def waits_for_first(rank, size, path):
    store = dist.FileStore(path)
    before = os.path.getsize(path)
    text, _ = error_of(hymn_torch._C.create, store, 1, 2, 1, "world", [], True)
    return text, os.path.getsize(path) - before


INTERRUPTED = """
import os, signal, threading, time
import torch, torch.distributed as dist, hymn_torch
signal.signal(signal.SIGINT, signal.default_int_handler)  # which jobs in the background begin without
dist.init_process_group("hymn", store=dist.FileStore({path!r}, 2), rank={rank}, world_size=2)
dist.barrier()
if {rank} == 0:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    dist.all_reduce(torch.ones(3))
else:
    time.sleep(1)
    dist.recv(torch.ones(1), 0)
"""


TRAIN = """
import os, signal, sys, threading
import torch, torch.distributed as dist, hymn_torch
path, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("hymn", store=dist.FileStore(path, 2), rank=rank, world_size=2)
dist.barrier()
if rank == 1:
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGKILL)).start()
    dist.recv(torch.ones(1), 0)  # line 8
dist.all_reduce(torch.ones(3))  # line 9
"""
HYMN = os.path.join(os.path.dirname(__file__), "../../build/bin/hymn")


def since_15(test):
    return unittest.skipUnless(hasattr(dist, "shrink_group"), "torch 2.15 has it")(test)


class Failures(unittest.TestCase):
    @since_15
    def test_shrunk(self):
        answers = ranks.run(shrunk, 3, may_be_gone=[1])
        self.assertEqual([answers[0], answers[2]], [(2, [2.0] * 3)] * 2)

    @since_15
    def test_monitored(self):
        text, seconds = ranks.run(monitored, 2)[0]
        self.assertLess(seconds, 5)
        self.assertIn("missing: rank 1", text)

    @since_15
    def test_torch_aborts(self):
        answers = ranks.run(torch_aborts, 2)
        self.assertEqual(answers[0], 2)
        self.assertIn("torch has aborted", answers[1])

    def test_killed(self):
        for size in (2, 3):
            answers = ranks.run(killed, size, may_be_gone=[size - 1])
            for text, seconds in answers[:-1]:
                self.assertLess(seconds, 5)
                self.assertIn(f"rank {size - 1}", text)
                self.assertRegex(text, "SIGKILL|dead|aborted")

    def test_missing(self):
        (text, seconds), late = ranks.run(missing, 2, seconds=1.5)
        self.assertLess(seconds, 5)
        self.assertIn("timeout", text)
        self.assertIn("missing: rank 1", text)
        self.assertIn("aborted", late[0])

    def test_missing_future(self):
        text = ranks.run(missing_future, 2, seconds=1.5)[0]
        self.assertIn("timeout", text)
        self.assertIn("rank 1", text)

    def test_different(self):
        for text in ranks.run(different, 2, seconds=5):
            self.assertIn("all_reduce", text)
            self.assertIn("broadcast", text)

    def test_places(self):
        completed, called, text = ranks.run(places, 2, seconds=1.5)[0]
        self.assertIn(f"at test_failures.py:{completed}, completed", text)  # of rank 1
        self.assertIn(f"(at test_failures.py:{called})", text)  # of rank 0

    def test_coalesced_place(self):
        line, text = ranks.run(coalesced_place, 2, seconds=1.5)[0]
        self.assertIn(f"at test_failures.py:{line}", text)

    def test_limits(self):
        for function in (one_limit, new_limit):
            text, seconds = ranks.run(function, 2)[0]
            self.assertLess(seconds, 5)
            self.assertIn("limit 0.500 s", text)

    def test_hook_of_failed(self):
        (told,) = ranks.run(hook_of_failed, 2, seconds=1.5)[:1]
        self.assertEqual([kind.rpartition(".")[2] for kind in told], ["BARRIER"])

    def test_interrupted_hook(self):
        self.assertLess(ranks.run(interrupted_hook, 2)[0], 4)

    def test_aborted(self):
        for text, again in ranks.run(aborted, 2):
            self.assertIn("we stop here", text)
            self.assertIn("we stop here", again)

    def test_patience(self):
        self.assertEqual(ranks.run(patience, 2), [2.0, 2.0])

    def test_never_comes(self):
        text, seconds = ranks.run(never_comes, 2, ranks.temporary_file(), backend=None)[0]
        self.assertLess(seconds, 10)
        self.assertIn("rank(s) 1", text)
        self.assertIn("timeout", text)

    def test_has_gone(self):
        text, seconds = ranks.run(has_gone, 1, ranks.temporary_file(), backend=None)[0]
        self.assertLess(seconds, 5)
        self.assertTrue(text.endswith("missing: rank(s) 0"), text)

    def test_waits_for_first(self):
        """It only reads the store, whose file grows with all that is written there."""
        text, written = ranks.run(waits_for_first, 1, ranks.temporary_file(), backend=None)[0]
        self.assertIn("missing: rank(s) 0", text)
        self.assertEqual(written, 0)

    def test_interrupted(self):
        path = ranks.temporary_file()
        began = time.monotonic()
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", INTERRUPTED.format(path=path, rank=rank)],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            for rank in range(2)
        ]
        outputs = [process.communicate(timeout=50)[0] for process in processes]
        self.assertLess(time.monotonic() - began, 25)
        self.assertIn("KeyboardInterrupt", outputs[0])
        self.assertIn("DistBackendError", outputs[1])
        self.assertIn("rank 0", outputs[1])

    def dumps_of_killed(self):
        """Where the dumps are of two ranks, the second of which is killed in a call."""
        path = ranks.temporary_file()
        folder = os.path.dirname(path)
        program = os.path.join(folder, "train.py")
        with open(program, "w") as file:
            file.write(TRAIN.lstrip())
        environment = {**os.environ, "HYMN_DUMP": os.path.join(folder, "dump"), "HYMN_DUMP_FORMAT": "torch"}
        processes = [
            subprocess.Popen([sys.executable, program, path, str(rank)], env=environment,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for rank in range(2)
        ]
        outputs = [process.communicate(timeout=50)[0] for process in processes]
        self.assertEqual(processes[1].returncode, -signal.SIGKILL)
        self.assertIn("rank 1", outputs[0])
        return folder

    def test_dumps(self):
        folder = self.dumps_of_killed()
        for rank, line in ((0, 9), (1, 8)):
            with open(os.path.join(folder, f"dump{rank}")) as file:
                last = json.load(file)["entries"][-1]
            places = [(os.path.basename(f["filename"]), f["line"]) for f in last["frames"]]
            self.assertIn(("train.py", line), places)

    @unittest.skipUnless(os.path.exists(HYMN), "the command hymn is not built")
    def test_trace(self):
        dumps = os.path.join(self.dumps_of_killed(), "dump")
        told = subprocess.run([HYMN, "trace", dumps], capture_output=True, text=True, timeout=50)
        self.assertEqual(told.returncode, 1, told.stdout + told.stderr)
        for line in (8, 9):
            self.assertIn(f"train.py:{line}", told.stdout)

    @since_15
    def test_flight_recorder_of_torch(self):
        """What torchfrtrace, torch's own analyser, says of the dumps."""
        dumps = os.path.join(self.dumps_of_killed(), "torch")
        analyser = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", dumps, "-p", "dump"]
        told = subprocess.run(analyser, capture_output=True, text=True, timeout=50)
        said = told.stdout + told.stderr
        self.assertEqual(told.returncode, 0, said)
        self.assertIn("hymn:all_reduce", said)
        self.assertIn("{1}", said)


if __name__ == "__main__":
    unittest.main()
