"""Starts ranks as processes, and brings back what each has to say.

Ranks are forked from a server that has torch loaded already, so that hundreds of them are cheap.
"""

import atexit
import multiprocessing
import os
import shutil
import tempfile
import time
import traceback
from datetime import timedelta

import torch.distributed as dist

import hymn_torch  # noqa: F401

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "hymn_torch", "ranks"])

LIMIT = 60  # seconds, for what should take a few


def begin(path, rank, size, backend="hymn", seconds=20):
    """The default process group, over a file: a free port may be taken before it is used."""
    dist.init_process_group(
        backend,
        store=dist.FileStore(path, size),
        timeout=timedelta(seconds=seconds),
        rank=rank,
        world_size=size,
    )


def _rank_main(function, rank, size, path, backend, seconds, arguments, answers):
    try:
        if backend:
            begin(path, rank, size, backend, seconds)
        answers.put((rank, True, function(rank, size, *arguments)))
        if backend and dist.is_initialized():
            dist.destroy_process_group()
    except BaseException:  # all of it is the answer
        answers.put((rank, False, traceback.format_exc()))


def run(function, size, *arguments, backend="hymn", seconds=20, may_be_gone=()):
    """Calls function(rank, size, *arguments) on so many ranks of a process group; what each has
    returned. Raises where one has raised. Ranks of `may_be_gone` owe no answer (None)."""
    answers = _context.Queue()
    path = temporary_file()
    ranks = [
        _context.Process(
            target=_rank_main,
            args=(function, rank, size, path, backend, seconds, arguments, answers),
        )
        for rank in range(size)
    ]
    for process in ranks:
        process.start()
    returned = [None] * size
    failed = []
    owed = size - len(may_be_gone)
    end = time.monotonic() + LIMIT
    try:
        while owed > 0:
            try:
                rank, ok, answer = answers.get(timeout=max(end - time.monotonic(), 0.01))
            except Exception:
                raise AssertionError(
                    f"{owed} of {size} ranks did not answer in {LIMIT} s" + "".join(failed)
                ) from None
            if rank in may_be_gone:
                continue
            owed -= 1
            returned[rank] = answer
            if not ok:
                failed.append(f"\nrank {rank}:\n{answer}")
        for rank, process in enumerate(ranks):
            process.join(max(end - time.monotonic(), 0.01))
            if process.exitcode is None:
                failed.append(f"\nrank {rank} does not end")
            elif process.exitcode != 0 and rank not in may_be_gone:
                failed.append(f"\nrank {rank} has ended with {process.exitcode}")
    finally:
        for process in ranks:
            if process.exitcode is None:
                process.kill()
                process.join()
    if failed:
        raise AssertionError("".join(failed))
    return returned


def temporary_file():
    """Goes with its folder when the tests have ended."""
    folder = tempfile.mkdtemp(prefix="hymn_torch_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return os.path.join(folder, "store")
