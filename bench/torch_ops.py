#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Time torch.distributed's all_reduce over tutti and over Gloo, in turn, over sizes."""
import argparse
import json

from torch_ranks import BACKENDS, dist, in_turn, run, show, summary, timed, torch, versions
from pictures import picture_name, write_picture, write_whole

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
            for name in in_turn(repetition):
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
        for name in BACKENDS:
            graphs += [f'${name}{ranks} << EOD', *(f'{p["bytes"]} {p[name]["seconds"]}' for p in points), 'EOD']
        graphs.append('plot ' + ', '.join(f'${name}{ranks} with linespoints lt {i + 1} notitle'
                                          for i, name in enumerate(BACKENDS)))
    write_picture(path, 'torch.distributed.all_reduce, float32: time of a call', versions(), {'tutti': 1, 'Gloo': 2}, 340, graphs)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('-r', '--ranks', type=lambda text: [int(word) for word in text.split(',')], default=[2, 4])
    parser.add_argument('-b', '--begin', type=int, default=8, help='bytes (8)')
    parser.add_argument('-e', '--end', type=int, default=16 << 20, help='bytes (16777216)')
    parser.add_argument('-f', '--factor', type=int, default=8, help='from one size to the next (8)')
    parser.add_argument('-n', '--repetitions', type=int, default=9)
    parser.add_argument('--plot', type=picture_name, help='write a picture, .svg or .png; needs gnuplot')
    parser.add_argument('--json', help='write the figures')
    args = parser.parse_args()
    sizes = [args.begin]
    while sizes[-1] * args.factor <= args.end:
        sizes.append(sizes[-1] * args.factor)
    results = {ranks: run(time_sizes, ranks, sizes, args.repetitions) for ranks in args.ranks}
    print(f'# dist.all_reduce, float32; lower quartile of {args.repetitions} runs in turn; {versions()}')
    table(results)
    if args.json:
        write_whole(args.json, json.dumps(results, indent=1).encode())
    if args.plot:
        draw(args.plot, results)


if __name__ == '__main__':
    main()
