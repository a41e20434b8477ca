# SPDX-License-Identifier: BSD-3-Clause
"""What bench/ddp_compare.py and bench/torch_ops.py share: ranks with a group of each backend, and how figures are told.

Ranks are forked from a process that has loaded PyTorch. Each makes a group of tutti and one of Gloo of the same
ranks, and times both in turn, so that whatever else the machine does meets both.
"""
import multiprocessing
import os
import statistics
import sys
import tempfile
import time

from machine import lower_quartile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../tools/plot'))  # pictures

BACKENDS = ['tutti', 'gloo']
SKIPPED = 77

try:
    import torch
    import torch.distributed as dist
    import tutti
except ModuleNotFoundError as error:
    if error.name not in ('torch', 'tutti'):
        raise
    print(f'skipped: needs the package {error.name}; install it by pip, or set PYTHONPATH to that of a build '
          '(BUILD/bindings/python/package)')
    sys.exit(SKIPPED)
os.environ.setdefault('GLOO_SOCKET_IFNAME', 'lo')   # Gloo looks up the host's name otherwise
import tutti.torch  # noqa: E402


def _rank_main(body, rank, size, path, pipe, arguments):
    torch.set_num_threads(1)
    dist.init_process_group('gloo', store=dist.FileStore(path, size), rank=rank, world_size=size)
    groups = {name: dist.new_group(backend=name) for name in BACKENDS}
    result = body(groups, *arguments)
    if rank == 0:
        pipe.send(result)
    dist.barrier()
    dist.destroy_process_group()


def run(body, size, *arguments, limit_s=1200):
    """`body(groups, …)` in `size` ranks; returns what it returns in rank 0."""
    tutti.torch._extension()    # built and loaded before the fork
    context = multiprocessing.get_context('fork')
    mine, theirs = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as directory:
        ranks = [context.Process(target=_rank_main, daemon=True, args=(
            body, rank, size, os.path.join(directory, 'store'), theirs, arguments)) for rank in range(size)]
        for process in ranks:
            process.start()
        theirs.close()
        try:
            if not mine.poll(limit_s):
                sys.exit(f'{size} ranks did not end in {limit_s:g} s')
            result = mine.recv()
            for process in ranks:
                process.join(limit_s)
            return result
        except EOFError:
            sys.exit(f'{size} ranks ended before the measurement; their errors are above')
        finally:
            for process in ranks:
                process.kill()


def in_turn(repetition):
    """The backends in an order that every second repetition reverses."""
    return BACKENDS if repetition % 2 == 0 else BACKENDS[::-1]


def timed(groups, name, call, times):
    """Seconds of one of `times` calls; the same, and the longest of all ranks, on every rank."""
    dist.barrier(groups[name])
    begun = time.perf_counter()
    for _ in range(times):
        call()
    seconds = torch.tensor([(time.perf_counter() - begun) / times], dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)      # by the group that is not timed
    return seconds.item()


def summary(times):
    """The lower quartile stands for the time: what comes between only adds."""
    return {'seconds': lower_quartile(times), 'median': statistics.median(times), 'least': min(times)}


def show(seconds):
    return f'{seconds * 1e6:.1f} µs' if seconds < 1e-3 else f'{seconds * 1e3:.2f} ms'


def versions():
    return f'PyTorch {torch.__version__}, tutti {tutti.torch._extension().version()}, {machine()}, ' \
           f'{time.strftime("%Y-%m-%d")}'


def machine():
    with open('/proc/cpuinfo') as file:
        models = [line.split(':', 1)[1].strip() for line in file if line.startswith('model name')]
    return f'{len(os.sched_getaffinity(0))} cores, {models[0] if models else "unknown processor"}'
