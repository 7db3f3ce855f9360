"""The backend "hymn" of torch.distributed: `import hymn_torch`, then `init_process_group("hymn")`.

docs/torch.md tells what it has, and what it has not.
"""

import atexit
import functools
import logging
import multiprocessing.util
import os

import torch  # noqa: F401  (the extension needs its libraries)
import torch.distributed as dist

from . import _C

__all__ = ["abort", "hymn_version", "set_timeout", "uses"]


_ends_in = None  # the process that has been told what to do at its end


def _end_with_process():
    """While all libraries are there: a process that has not called destroy_process_group leaves its
    groups in good order, and the other ranks hear of it."""
    global _ends_in
    if _ends_in == os.getpid():
        return
    _ends_in = os.getpid()
    atexit.register(_C.shut_down)
    # Processes that multiprocessing has forked know this end alone.
    multiprocessing.util.Finalize(None, _C.shut_down, exitpriority=-10)


def _create(options, _process_group_options):
    if getattr(options, "enable_reconfigure", False):
        raise NotImplementedError("hymn: process groups that are reconfigured are not supported")
    _end_with_process()
    ranks = list(options.global_ranks_in_group)  # none: the default group
    has_all = not ranks or options.group_size == dist.get_world_size()
    try:
        return _C.create(
            options.store,
            options.group_rank,
            options.group_size,
            options.timeout.total_seconds(),
            options.group_id,
            ranks,
            has_all,
        )
    except BaseException:
        # The next try must have the name that it has on ranks that have not tried yet: torch counts
        # names, and begins anew at the end of the default group alone.
        if not ranks:
            dist.distributed_c10d._world.group_count = 0
        raise


@functools.cache
def _say_that_gpus_are_untested():
    logging.getLogger(__name__).info(
        "collectives of tensors on GPUs have not been run on a GPU yet (docs/torch.md)")


def _make_stream(gpu):
    """For the collectives of a group on this GPU: its number among torch's, and CUDA's handle."""
    _say_that_gpus_are_untested()
    stream = torch.cuda.Stream(gpu)
    return stream.stream_id, stream.cuda_stream


def _backend(group):
    group = group or dist.distributed_c10d._get_default_group()
    backends = [group._get_backend(device) for device in group._device_types]
    for backend in backends:
        if isinstance(backend, _C.Backend):
            return backend
    raise ValueError(f"the process group's backend is {backends[0].name()}, not hymn")


def abort(reason, group=None):
    """Gives a process group up on all its ranks: what is in flight there, and all later calls, end
    with a DistBackendError that carries the reason."""
    _backend(group).give_up(reason)


def set_timeout(timeout, group=None):
    """The limit (a timedelta) of the operations that this rank starts from now on."""
    _backend(group)._set_default_timeout(timeout)


def uses(path="", group=None):
    """How many operations of this rank's went by a path of hymn's ("shm", "tcp"; "": any)."""
    return _backend(group).uses(path)


def hymn_version():
    return _C.hymn_version()


def _devices():
    """What a plain "hymn" serves. CUDA is asked for its GPUs in a way that does not start it, for
    processes may be forked later."""
    return ["cpu", "cuda"] if torch.cuda.device_count() > 0 else ["cpu"]


# hymn's capital is that of torch's other backends: dist.Backend.HYMN.
dist.Backend.register_backend("hymn", _create, extended_api=True, devices=_devices())
