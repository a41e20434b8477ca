#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""One rank of PyTorch's side of bench/ddp.py: DistributedDataParallel over Gloo, on one thread. tutti-run starts it.

Only the epochs are timed. The data are tensors before that, and a rank gathers its samples once in an epoch. Rank 0
writes an object with the seconds since the start at the end of each epoch, the loss over the last epoch, and the
accuracy of the final model. Exit status 77: there is no PyTorch.
"""
import argparse
import csv
import gzip
import json
import os
import sys
import time

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != 'torch':
        raise
    print('skipped: needs PyTorch (pip install torch)')
    sys.exit(77)

import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

DTYPES = {'float32': torch.float32, 'float64': torch.float64}


def read(path):
    """Features and labels of a CSV file."""
    with (gzip.open if path.endswith('.gz') else open)(path, 'rt') as file:
        rows = [[float(field) for field in row] for row in csv.reader(file)]
    table = torch.tensor(rows, dtype=torch.float64)
    return table[:, :-1], table[:, -1].long()


def make_up(rows, features, classes):
    """Normal numbers, and what a random map says of them."""
    x = torch.randn(rows, features, dtype=torch.float64)
    return x, (x @ torch.randn(features, classes, dtype=torch.float64)).argmax(1)


def standardise(x):
    """Mean 0 and variance 1; 0 where a feature is constant."""
    deviation = x.std(0, unbiased=False)
    return (x - x.mean(0)) / torch.where(deviation > 0, deviation, torch.inf)


def make_model(widths, dtype):
    """He's initial weights, as tutti-train has them."""
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        linear = torch.nn.Linear(inputs, outputs, dtype=dtype)
        torch.nn.init.kaiming_normal_(linear.weight, nonlinearity='relu')
        torch.nn.init.zeros_(linear.bias)
        layers += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def make_optimizer(parameters, args):
    options = {'lr': args.lr, 'momentum': args.momentum, 'weight_decay': args.weight_decay}
    try:
        return torch.optim.SGD(parameters, fused=True, **options)
    except (TypeError, RuntimeError):       # old ones are fused on GPUs only
        return torch.optim.SGD(parameters, **options)


def loss_of(outputs, labels, batch, size):
    """Its mean over the ranks is the mean over the batch, also where slices are uneven."""
    if batch % size == 0:
        return F.cross_entropy(outputs, labels)
    return F.cross_entropy(outputs, labels, reduction='sum') * (size / batch)


def slices(order, args):
    """This rank's slice of each batch; the first ranks have the samples that are left over."""
    return [batch.tensor_split(args.size)[args.rank] for batch in order.split(args.batch)]


def train_epoch(model, optimizer, x, y, args):
    """Returns the loss of each step."""
    rows, losses = len(x), []
    mine = slices(torch.randperm(rows), args)
    counts, chosen = [len(part) for part in mine], torch.cat(mine)
    parts = zip(x[chosen].split(counts), y[chosen].split(counts))
    for step, (inputs, labels) in enumerate(parts):
        batch = min(args.batch, rows - step * args.batch)
        loss = loss_of(model(inputs), labels, batch, args.size)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


def mean_loss(losses, rows, args):
    """Over the samples of an epoch."""
    sizes = torch.tensor([min(args.batch, rows - first) for first in range(0, rows, args.batch)])
    total = (torch.stack(losses).double() * sizes).sum() / args.size
    if args.size > 1:
        dist.all_reduce(total)
    return total.item() / rows


def train(model, x, y, args):
    """DDP has its default buckets. One rank has nothing to reduce, and is faster without DDP."""
    trained = DistributedDataParallel(model, gradient_as_bucket_view=True) if args.size > 1 else model
    optimizer, seconds = make_optimizer(model.parameters(), args), []
    if args.size > 1:
        dist.barrier()
    start = time.monotonic()
    for _ in range(args.epochs):
        losses = train_epoch(trained, optimizer, x, y, args)
        seconds.append(time.monotonic() - start)
    loss = mean_loss(losses, len(x), args)
    with torch.no_grad():
        accuracy = (model(x).argmax(1) == y).double().mean().item()
    return {'version': torch.__version__, 'rows': len(x), 'seconds': seconds, 'loss': loss, 'accuracy': accuracy}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    add = parser.add_argument
    add('--version', action='version', version=torch.__version__)
    add('--data', required=True, help='a CSV file, the label last; or a number of rows to make up')
    add('--widths', required=True, type=lambda text: [int(width) for width in text.split('-')],
        help='of all layers, such as 64-128-64-10')
    add('--dtype', required=True, choices=list(DTYPES))
    add('--epochs', type=int, required=True)
    add('--batch', type=int, required=True, help='of all ranks together')
    add('--lr', type=float, required=True)
    add('--momentum', type=float, required=True)
    add('--weight-decay', type=float, required=True)
    add('--seed', type=int, required=True)
    add('--json', required=True, help='what rank 0 writes; ranks meet at a file beside it')
    args = parser.parse_args()
    args.rank, args.size = int(os.environ['TUTTI_RANK']), int(os.environ['TUTTI_SIZE'])
    return args


def main():
    args = parse_arguments()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)        # the same data, weights and order for all ranks
    made_up = args.data.isdigit()
    x, y = make_up(int(args.data), args.widths[0], args.widths[-1]) if made_up else read(args.data)
    model = make_model(args.widths, DTYPES[args.dtype])
    if args.size > 1:
        dist.init_process_group('gloo', init_method=f'file://{os.path.abspath(args.json)}.store', rank=args.rank,
                                world_size=args.size)
    result = train(model, standardise(x).to(DTYPES[args.dtype]), y, args)
    if args.rank == 0:
        with open(args.json, 'w') as file:
            print(json.dumps(result), file=file)
    if args.size > 1:
        dist.destroy_process_group()


if __name__ == '__main__':
    main()
