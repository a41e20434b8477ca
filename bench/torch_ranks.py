# SPDX-License-Identifier: BSD-3-Clause
"""What bench/ddp_compare.py and bench/torch_ops.py share: ranks with a group of each backend, and how figures are told.

Ranks are forked from a process that has loaded PyTorch. Each makes a group of tutti and one of Gloo of the same
ranks, and times both in turn, so that whatever else the machine does meets both.
"""
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time

from arguments import Parser, number, numbers
from machine import lower_quartile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../tools/plot'))
from pictures import picture_name, write_picture, write_whole  # noqa: E402

BACKENDS = ['tutti', 'gloo']
LOOKS = {'tutti': 1, 'gloo': 2}     # line types
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


def parser_of(description, ranks):
    """The options that both programs have."""
    parser = Parser(description=description)
    parser.add_argument('-r', '--ranks', type=numbers(1, 1024), default=ranks)
    parser.add_argument('-n', '--repetitions', type=number(1, 1000000), default=9)
    parser.add_argument('--plot', type=picture_name, help='write a picture, .svg or .png; needs gnuplot')
    parser.add_argument('--json', help='write the figures')
    return parser


def write(args, results, draw):
    if args.json:
        write_whole(args.json, json.dumps(results, indent=1).encode())
    if args.plot:
        draw(args.plot, results)


def write_graphs(path, heading, body, graphs):
    write_picture(path, heading, versions(), {'tutti': 1, 'Gloo': 2}, body, graphs)


def show(seconds):
    return f'{seconds * 1e6:.1f} µs' if seconds < 1e-3 else f'{seconds * 1e3:.2f} ms'


def versions():
    return f'PyTorch {torch.__version__}, tutti {tutti.torch._extension().version()}, {machine()}, ' \
           f'{time.strftime("%Y-%m-%d")}'


def machine():
    with open('/proc/cpuinfo') as file:
        models = [line.split(':', 1)[1].strip() for line in file if line.startswith('model name')]
    return f'{len(os.sched_getaffinity(0))} cores, {models[0] if models else "unknown processor"}'
