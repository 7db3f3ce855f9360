"""The part of torch.distributed.rpc (TensorPipe) in bench/rpc/run: what cases.hpp measures, by rpc_sync
and rpc_async of Python functions, with tensors as payload. Python's own time is in the figures.

    tensorpipe_driver.py SECONDS CALLERS IN_FLIGHT
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings

warnings.filterwarnings("ignore")
import torch
import torch.distributed.rpc as rpc

WORDS = (1 << 20) // 8
OTHER = "worker1"
lock = threading.Lock()
empty_calls = 0


def nothing():
    global empty_calls
    with lock:
        empty_calls += 1


def seen():
    return empty_calls


def take(payload):
    front, middle, back = payload[0].item(), payload[WORDS // 2].item(), payload[-1].item()
    return front + 2 * middle + 4 * back


class Caller:
    """What one thread calls with."""

    def __init__(self):
        self.payload = torch.full((WORDS,), 7, dtype=torch.int64)

    def empty(self, _):
        rpc.rpc_sync(OTHER, nothing)

    def take(self, number):
        self.payload[0], self.payload[WORDS // 2], self.payload[-1] = number, 3 * number, 5 * number
        if rpc.rpc_sync(OTHER, take, args=(self.payload,)) != 27 * number:
            raise RuntimeError("a payload was another one where it arrived")


def latency_us(call, seconds):
    """The median, and how many calls there have been; calls that do not count come first."""
    number = 0
    for limit in (seconds / 5, seconds):
        times = []
        end = time.perf_counter() + limit
        now = time.perf_counter()
        while now < end:
            number += 1
            call(number)
            after = time.perf_counter()
            times.append((after - now) * 1e6)
            now = after
    return statistics.median(times), number


def rate(make_call, callers, seconds):
    """Calls a second of all threads together, and how many there have been."""
    counts = [0] * callers
    failed = []
    start = time.perf_counter()

    def run(place):
        try:
            call = make_call()
            while time.perf_counter() - start < seconds:
                counts[place] += 1
                call(counts[place])
        except Exception as error:  # told by who has started the thread
            failed.append(error)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return sum(counts) / (time.perf_counter() - start), sum(counts)


def measure(seconds, callers, in_flight):
    def fly(_):
        torch.futures.wait_all([rpc.rpc_async(OTHER, nothing) for _ in range(in_flight)])

    empty_us, first = latency_us(Caller().empty, seconds)
    payload_us, _ = latency_us(Caller().take, seconds)
    empty_many, second = rate(lambda: Caller().empty, callers, seconds)
    payload_many, _ = rate(lambda: Caller().take, callers, seconds)
    flying, third = rate(lambda: fly, 1, seconds)
    if rpc.rpc_sync(OTHER, seen) != first + second + third * in_flight:
        raise RuntimeError("not all calls have arrived once")
    return {
        "empty_us": empty_us,
        "payload_us": payload_us,
        "empty_many": empty_many,
        "payload_many": payload_many,
        "in_flight": flying * in_flight,
    }


def run(rank, store, arguments):
    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{store}")
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2, rpc_backend_options=options)
    if rank == 0:
        print(json.dumps(measure(*arguments)), flush=True)
    rpc.shutdown()


def main():
    arguments = (float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    if len(sys.argv) > 4:
        return run(1, sys.argv[4], arguments)
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        other = subprocess.Popen([sys.executable, *sys.argv, store])
        run(0, store, arguments)
        other.wait()


if __name__ == "__main__":
    main()
