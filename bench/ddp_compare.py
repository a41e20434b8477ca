#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Time a training step under PyTorch's DistributedDataParallel on CPUs over tutti and over Gloo, in turn.

Three models are trained: a multilayer perceptron of 20 million weights, a small convolutional network, a small
transformer. Each rank has one thread and the same number of samples. Both backends train from the same weights on the
same data, and have to come to the same losses.
"""
import math

from arguments import some_of
from machine import in_turn
from torch_ranks import (BACKENDS, LOOKS, dist, parser_of, run, show, summary, timed, torch, versions, write,
                         write_graphs)
from pictures import plotted

import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TOLERANCE = 1e-3    # between the losses of the two, whose sums have different orders


class Transformer(nn.Module):
    def __init__(self, words=1000, width=128, heads=4, layers=2, length=64):
        super().__init__()
        self.words, self.position = nn.Embedding(words, width), nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, words)

    def forward(self, text):
        return self.out(self.layers(self.words(text) + self.position)).flatten(0, 1)


def mlp():
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 3072), nn.ReLU(), nn.Linear(3072, 1024))
    return model, torch.randn(16, 1024), torch.randint(1024, (16,))


def convolutional():
    model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
                          nn.Linear(2048, 256), nn.ReLU(), nn.Linear(256, 10))
    return model, torch.randn(8, 3, 32, 32), torch.randint(10, (8,))


def transformer():
    return Transformer(), torch.randint(1000, (4, 64)), torch.randint(1000, (4 * 64,))


MODELS = {'mlp': mlp, 'conv': convolutional, 'transformer': transformer}
TITLES = {'mlp': 'perceptron', 'conv': 'convolutional', 'transformer': 'transformer'}


def make_step(name, group):
    """One training step of a model of its own, which returns the loss. One rank trains without DDP."""
    torch.manual_seed(1)
    model, _, _ = MODELS[name]()
    torch.manual_seed(2 + dist.get_rank())
    _, inputs, wanted = MODELS[name]()
    trained = DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True) \
        if dist.get_world_size() > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(trained(inputs), wanted)
        loss.backward()
        optimizer.step()
        return loss.item()
    return step


def time_model(groups, name, steps, repetitions):
    made = {backend: make_step(name, groups[backend]) for backend in BACKENDS}
    times = {backend: [] for backend in BACKENDS}
    losses = {backend: [step() for _ in range(2)][-1] for backend, step in made.items()}
    for repetition in range(repetitions):
        for backend in in_turn(BACKENDS, repetition):
            times[backend].append(timed(groups, backend, made[backend], steps))
    losses = {backend: step() for backend, step in made.items()}
    if not math.isclose(*losses.values(), rel_tol=TOLERANCE):
        raise SystemExit(f'{name}: the losses after the same steps are {losses}, expected equal ones')
    return {backend: summary(times[backend]) for backend in BACKENDS}


def time_models(groups, names, steps, repetitions):
    return {name: time_model(groups, name, steps, repetitions) for name in names}


def table(results):
    print('| model | ranks | tutti | Gloo | Gloo / tutti |\n|---|---:|---:|---:|---:|')
    for name in next(iter(results.values())):
        for ranks, found in results.items():
            ours, theirs = (found[name][backend]['seconds'] for backend in BACKENDS)
            print(f'| {name} | {ranks} | {show(ours)} | {show(theirs)} | {theirs / ours:.2f} |')


def draw(path, results):
    graphs, names = [], list(next(iter(results.values())))
    for column, name in enumerate(names):
        graphs += [f'eval graph({column}, {len(names)}, 20, 300)', f"set title '{TITLES[name]}'",
                   f'unset logscale; set xrange [{min(results) - 0.3}:{max(results) + 0.3}]',
                   'set xtics nomirror (' + ', '.join(f'"{ranks}" {ranks}' for ranks in results) + ')',
                   "set format y '%.0s %cs'; set yrange [0:*]; set xlabel 'ranks'"]
        times = {backend: {ranks: found[name][backend]['seconds'] for ranks, found in results.items()}
                 for backend in BACKENDS}
        graphs += plotted(name, times, LOOKS)
    write_graphs(path, 'DistributedDataParallel on CPUs: time of a step', 350, graphs)


def main():
    parser = parser_of(__doc__.split('\n')[0], [1, 2, 4])
    parser.add_argument('-m', '--models', type=some_of(MODELS), default=list(MODELS), help='some of ' + ','.join(MODELS))
    parser.add_argument('--steps', type=int, default=5, help='of one repetition (5)')
    args = parser.parse_args()
    results = {ranks: run(time_models, ranks, args.models, args.steps, args.repetitions) for ranks in args.ranks}
    print(f'# a step of training; lower quartile of {args.repetitions} runs of {args.steps} steps in turn; {versions()}')
    table(results)
    write(args, results, draw)


if __name__ == '__main__':
    main()
