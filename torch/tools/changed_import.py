"""Imports modules of a folder with other devices and backends than they name.

"cuda" reads "cpu", "nccl" and "gloo" read the backend to be tested, and torch.cuda is no_gpu.Cuda.
Lines keep their numbers, so that tracebacks are those of the file.
"""

import ast
import datetime
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types

import torch.distributed as dist

import no_gpu

BACKENDS = ("nccl", "gloo")


def name(identifier):
    return ast.Name(identifier, ast.Load())


def call(function, argument):
    return ast.Call(name(function), [argument], [])


def is_name(node, *names):
    """`name` or `anything.name`."""
    return getattr(node, "id", getattr(node, "attr", None)) in names


class Changes(ast.NodeTransformer):
    def __init__(self, backend):
        self.backend = backend

    def string(self, text):
        if text in BACKENDS:
            return self.backend
        return "cpu" if text == "cuda" or text.startswith("cuda:") else text

    def visit_Constant(self, node):
        return ast.Constant(self.string(node.value)) if isinstance(node.value, str) else node

    def visit_JoinedStr(self, node):
        first = node.values[0] if node.values else None
        if isinstance(first, ast.Constant) and first.value.startswith("cuda:"):
            return ast.Constant("cpu")
        for value in node.values:  # text within is not a name of its own
            if isinstance(value, ast.FormattedValue):
                self.visit(value)
        return node

    def visit_BinOp(self, node):
        """"cuda:" + str(i), "cuda:%d" % i"""
        left = node.left.value if isinstance(node.left, ast.Constant) else None
        if isinstance(left, str) and left.startswith("cuda:"):
            return ast.Constant("cpu")
        return self.generic_visit(node)

    def visit_List(self, node):
        """Parameters of a test: it runs once where it would run for both."""
        values = [getattr(element, "value", None) for element in node.elts]
        if "cpu" in values and "cuda" in values:
            node.elts = [e for e, v in zip(node.elts, values) if v != "cuda"]
        return self.generic_visit(node)

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load) and node.id in ("TEST_CUDA", "TEST_MULTIGPU"):
            return ast.Constant(True)
        return node

    def visit_Attribute(self, node):
        node = self.generic_visit(node)
        if is_name(node.value, "torch") and node.attr == "cuda":
            return name("_no_cuda")
        if is_name(node.value, "Backend") and node.attr.lower() in BACKENDS:
            return ast.Constant(self.backend)
        return name("_process_group") if node.attr == "ProcessGroupNCCL" else node

    def visit_Call(self, node):
        node = self.generic_visit(node)
        if is_name(node.func, "is_nccl_available"):
            return ast.Constant(True)
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "cuda":  # of a tensor or a module
                return ast.Call(ast.Attribute(node.func.value, "cpu", ast.Load()), [], [])
            if node.func.attr == "to" and node.args:
                node.args[0] = call("_on_host", node.args[0])
        is_ddp = is_name(node.func, "DistributedDataParallel", "DDP")
        # The device of a process group is that of NCCL's communicator.
        node.keywords = [k for k in node.keywords if k.arg != "device_id"]
        for keyword in node.keywords:
            if keyword.arg == "device":
                keyword.value = call("_on_host", keyword.value)
            elif keyword.arg == "device_ids" and is_ddp:
                keyword.value = call("_device_ids", keyword.value)
        is_device = (isinstance(node.func, ast.Attribute) and node.func.attr == "device"
                     and is_name(node.func.value, "torch"))
        return call("_on_host", node) if is_device else node


def process_group_maker(backend):
    """What stands for ProcessGroupNCCL: a group that is made without torch.distributed's own."""

    def make(store, rank, size, options=None, timeout=None):
        timeout = timeout or getattr(options, "_timeout", None) or datetime.timedelta(seconds=60)
        if backend == "gloo":
            return dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
        import hymn_torch

        return hymn_torch._C.create(store, rank, size, timeout.total_seconds(), "", [], True)

    make.Options = types.SimpleNamespace
    return make


class Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname, path, backend):
        super().__init__(fullname, path)
        self.backend = backend

    def get_code(self, fullname):  # the file's own code may be cached
        tree = ast.parse(self.get_data(self.path), self.path)
        changed = ast.fix_missing_locations(Changes(self.backend).visit(tree))
        return compile(changed, self.path, "exec", dont_inherit=True)

    def exec_module(self, module):
        module._no_cuda = no_gpu.Cuda()
        module._on_host = no_gpu.on_host
        module._device_ids = no_gpu.device_ids
        module._process_group = process_group_maker(self.backend)
        super().exec_module(module)


class Finder(importlib.abc.MetaPathFinder):
    def __init__(self, folder, backend):
        self.folder = folder
        self.backend = backend

    def find_spec(self, fullname, _path=None, _target=None):
        path = os.path.join(self.folder, fullname + ".py")
        if "." in fullname or not os.path.exists(path):
            return None
        loader = Loader(fullname, path, self.backend)
        return importlib.util.spec_from_file_location(fullname, path, loader=loader)


def install(folder, backend):
    sys.meta_path.insert(0, Finder(folder, backend))
