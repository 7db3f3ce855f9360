"""The backend "hymn" of torch.distributed: `import hymn_torch`, then `init_process_group("hymn")`.

docs/torch.md tells what it has, and what it has not.
"""

import atexit

import torch  # noqa: F401  (the extension needs its libraries)
import torch.distributed as dist

from . import _C

__all__ = ["abort", "hymn_version", "uses"]


def _create(options, _process_group_options):
    ranks = list(options.global_ranks_in_group)  # none: the default group
    has_all = not ranks or options.group_size == dist.get_world_size()
    return _C.create(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout.total_seconds(),
        options.group_id,
        ranks,
        has_all,
    )


def _backend(group):
    group = group or dist.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu"))
    if not isinstance(backend, _C.Backend):
        raise ValueError(f"the process group's backend is {backend.name()}, not hymn")
    return backend


def abort(reason, group=None):
    """Gives a process group up on all its ranks: what is in flight there, and all later calls, end
    with a DistBackendError that carries the reason."""
    _backend(group).give_up(reason)


def uses(path="", group=None):
    """How many operations of this rank's went by a path of hymn's ("shm", "tcp"; "": any)."""
    return _backend(group).uses(path)


def hymn_version():
    return _C.hymn_version()


# hymn's capital is that of torch's other backends: dist.Backend.HYMN.
dist.Backend.register_backend("hymn", _create, extended_api=True, devices=["cpu"])
# While all libraries are there: a process that has not called destroy_process_group leaves its
# groups in good order, and the other ranks hear of it.
atexit.register(_C.shut_down)
