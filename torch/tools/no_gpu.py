"""What test files of torch's see in place of GPUs: host memory that goes by other names."""

import contextlib
import types

import torch
from torch.testing._internal import common_distributed

DEVICES = 8  # enough for every test; all of them are the memory of the host


class Stream:
    """Of streams and of their events: all work is done when it has been asked for."""

    def __init__(self, *_args, **_kwargs):
        pass

    def nothing(self, *_args, **_kwargs):
        return self

    record = wait = wait_event = wait_stream = record_event = synchronize = nothing

    def query(self):
        return True


class Cuda:
    """torch.cuda, as far as test files ask for it. What is not here was not foreseen: an
    AttributeError says so."""

    Event = Stream
    _initialized = False
    nccl = types.SimpleNamespace(version=lambda: (2, 20, 5))

    def is_available(self):
        return True

    def device_count(self):
        return DEVICES

    def current_device(self):
        return 0

    def current_stream(self, *_):
        return Stream()

    def scope(self, *_):
        return contextlib.nullcontext()

    def nothing(self, *_args, **_kwargs):
        pass

    Stream = Stream
    device = stream = scope
    set_device = synchronize = empty_cache = init = manual_seed = nothing


def on_host(where):
    """A device, or anything else that a tensor may be asked to become."""
    if isinstance(where, bool):
        return where
    if isinstance(where, int) or (isinstance(where, str) and where.startswith("cuda")):
        return "cpu"
    if isinstance(where, torch.device) and where.type in ("cuda", "cpu"):
        return torch.device("cpu")
    return where


def device_ids(ids):
    """Modules in host memory have none; several are an error of the test's that it wants."""
    return ids if ids is not None and len(ids) > 1 else None


def lift_skips(seconds):
    """torch's helpers no longer skip what wants GPUs or NCCL. Ranks are forked, for each would
    load torch again, and wait so long for each other at most."""

    def as_it_is(*_):
        return lambda test: test

    for name in ("requires_nccl", "requires_nccl_version", "skip_if_lt_x_gpu",
                 "nccl_skip_if_lt_x_gpu", "require_n_gpus_for_nccl_backend"):
        setattr(common_distributed, name, as_it_is)
    if not hasattr(common_distributed, "skip_if_rocm"):  # it has another name in torch 2.15
        common_distributed.skip_if_rocm = lambda test: test
    common_distributed.init_multigpu_helper = lambda size, _backend: {r: [r] for r in range(size)}
    common_distributed.TIMEOUT_DEFAULT = seconds
    fork = torch.multiprocessing.get_context("fork").Process
    common_distributed.MultiProcessTestCase._spawn_processes = (
        lambda case: case._start_processes(fork))
