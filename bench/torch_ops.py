#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Time torch.distributed's all_reduce over tutti and over Gloo, in turn, over sizes."""
from arguments import number
from machine import in_turn
from torch_ranks import (BACKENDS, LOOKS, dist, parser_of, run, show, summary, timed, torch, versions, write,
                         write_graphs)
from pictures import plotted

SECONDS = 0.05      # of each point and repetition


def time_sizes(groups, sizes, repetitions):
    found = []
    for size in sizes:
        tensor = torch.ones(max(1, size // 4))
        times = {name: [] for name in BACKENDS}

        def call(group):
            return lambda: dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=group)
        for name in BACKENDS:       # connections, algorithms, and how many calls fill the time
            timed(groups, name, call(groups[name]), 5)
        counts = {name: max(1, min(5000, int(SECONDS / timed(groups, name, call(groups[name]), 5))))
                  for name in BACKENDS}
        for repetition in range(repetitions):
            for name in in_turn(BACKENDS, repetition):
                times[name].append(timed(groups, name, call(groups[name]), counts[name]))
        found.append({'bytes': size, **{name: summary(times[name]) for name in BACKENDS}})
    return found


def table(results):
    print('| ranks | bytes | tutti | Gloo | Gloo / tutti |\n|---:|---:|---:|---:|---:|')
    for ranks, points in results.items():
        for point in points:
            ours, theirs = (point[name]['seconds'] for name in BACKENDS)
            print(f'| {ranks} | {point["bytes"]} | {show(ours)} | {show(theirs)} | {theirs / ours:.1f} |')


def draw(path, results):
    graphs = []
    for column, (ranks, points) in enumerate(results.items()):
        graphs += [f'eval graph({column}, {len(results)}, 20, 300)', f"set title '{ranks} ranks'",
                   f'eval bytes({points[0]["bytes"]}, {points[-1]["bytes"]})', 'eval times']
        times = {name: {point['bytes']: point[name]['seconds'] for point in points} for name in BACKENDS}
        graphs += plotted(f'times{ranks}', times, LOOKS)
    write_graphs(path, 'torch.distributed.all_reduce, float32: time of a call', 340, graphs)


def main():
    parser = parser_of(__doc__, [2, 4])
    parser.add_argument('-b', '--begin', type=int, default=8, help='bytes (8)')
    parser.add_argument('-e', '--end', type=int, default=16 << 20, help='bytes (16777216)')
    parser.add_argument('-f', '--factor', type=number(2, 1 << 20), default=8, help='from one size to the next (8)')
    args = parser.parse_args()
    sizes = [args.begin]
    while sizes[-1] * args.factor <= args.end:
        sizes.append(sizes[-1] * args.factor)
    results = {ranks: run(time_sizes, ranks, sizes, args.repetitions) for ranks in args.ranks}
    print(f'# dist.all_reduce, float32; lower quartile of {args.repetitions} runs in turn; {versions()}')
    table(results)
    write(args, results, draw)


if __name__ == '__main__':
    main()
