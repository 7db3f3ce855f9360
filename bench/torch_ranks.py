"""What the programs here that measure torch.distributed have in common: their ranks, and a way to count time."""

import argparse
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def parser_of(doc, turns):
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--turns", type=int, default=turns)
    parser.add_argument("--bind", action="store_true", help="each rank to a core of its own")
    return parser


def start(rank_main, options):
    """rank_main(rank, options) on so many processes, which end_ranks() ends."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(_begin, (rank_main, options, port), nprocs=options.ranks)


def _begin(rank, rank_main, options, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    if options.bind:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})
    rank_main(rank, options)


def begin_groups(rank, options):
    """A group of all ranks for each backend, by its name."""
    backends = options.backends.split(",")
    dist.init_process_group(backends[0], rank=rank, world_size=options.ranks)
    return {b: dist.new_group(list(range(options.ranks)), backend=b) for b in backends}


def end_ranks():
    dist.barrier()
    dist.destroy_process_group()


def slowest(value, op=dist.ReduceOp.MAX):
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor, op)
    return tensor.item()


def conditions(options):
    """Of a run, for the line before its figures."""
    bound = ", each bound to a core" if options.bind else ""
    return (f"{options.ranks} ranks{bound}, torch {torch.__version__}, {os.cpu_count()} cores, "
            f"{time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}; load {os.getloadavg()[0]:.1f}")


def cell(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f}–{max(values):.1f})"
