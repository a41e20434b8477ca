# SPDX-License-Identifier: BSD-3-Clause
"""An asynchronous training again, by NumPy: from what each server made updates of, in which order (moments.c), follow
the weights of its end.

    replay.py UPDATES SERVERS LOG DATA      writes the largest difference of a weight"""
import gzip
import json
import math
import sys

import numpy as np

from local_sgd import order_of_epoch, shuffled

updates, servers, log, data = sys.argv[1], int(sys.argv[2]), *sys.argv[3:]
with open(log) as file:
    said = json.loads(file.readline())
WORKERS, BATCH, WIDTHS = said['ranks'] - servers, said['batch'], [said['features'], *said['hidden'], said['classes']]


def mean(table):
    return np.array([math.fsum(column) for column in table.T]) / len(table)


def layers(flat):
    """Weights and biases, the last layer first."""
    for rows, columns in zip(WIDTHS[:0:-1], WIDTHS[-2::-1]):
        yield flat[:rows * columns].reshape(rows, columns), flat[rows * columns:rows * (columns + 1)]
        flat = flat[rows * (columns + 1):]


def gradients(flat, rows, batch):
    inputs, out = [x[rows]], []
    for w, b in list(layers(flat))[::-1]:
        logits = inputs[-1] @ w.T + b
        inputs.append(np.maximum(logits, 0))
    delta = np.exp(logits - logits.max(axis=1, keepdims=True))
    delta /= delta.sum(axis=1, keepdims=True)
    delta[np.arange(len(rows)), labels[rows]] -= 1
    for (w, _), lower in zip(layers(flat), inputs[-2::-1]):
        out += [(delta.T @ lower).ravel() / batch, delta.sum(axis=0) / batch]
        delta = delta @ w * (lower > 0)
    return np.concatenate(out)


def samples(epoch, task):
    """Those of a task, and how many its batch has."""
    step, part = divmod(task, WORKERS)
    batch = orders[epoch - 1][step * BATCH:(step + 1) * BATCH]
    return np.array_split(np.array(batch, int), WORKERS)[part], len(batch)


def rate(step):
    peak, warmup = said['lr'] * BATCH / 64, int(said['warmup_epochs'] * steps)
    done = (step - warmup) / (steps * said['epochs'] - warmup)
    return peak * (step + 1) / warmup if step < warmup else peak * (1 + math.cos(math.pi * done)) / 2


def update(server, epoch, tasks):
    weights, v, momentum = shards[server][-1], velocity[server], said['momentum']
    part = sum(len(rows) / batch for rows, batch in (samples(epoch, task) for task in tasks))
    g = sum(known[epoch, task][server] for task in tasks) / part + said['weight_decay'] * weights
    if said['optimizer'] == 'adagrad':
        v += part * g ** 2
        g /= np.sqrt(v) + 1e-10
    else:   # of sgd momentum is 0
        v *= momentum ** part
        v += (1 - momentum ** part) / (1 - momentum) * g
        g = v
    shards[server].append(weights - rate((epoch - 1) * steps + tasks[0] // WORKERS) * part * g)


def is_computed(epoch, task):
    """Its gradients, if the weights are there that its worker had."""
    had = versions[epoch, task]
    if (epoch, task) not in known and all(had[s] < len(shards[s]) for s in range(servers)):
        flat = np.concatenate([shards[s][had[s]] for s in range(servers)])
        known[epoch, task] = np.split(gradients(flat, *samples(epoch, task)), ends)
    return (epoch, task) in known


with gzip.open(data, 'rt') as file:
    table = np.array([[float(field) for field in line.split(',')] for line in file])
order = shuffled(range(len(table)), said['seed'], 1)
train, x, labels = order[len(table) // 5:], table[:, :-1], table[:, -1].astype(int)
x = x - mean(x[train])
deviation = np.sqrt(mean(x[train] ** 2))
x = np.where(deviation > 0, x / np.where(deviation > 0, deviation, 1), 0).astype(np.float32).astype(float)
orders = [order_of_epoch(train, epoch, said['seed']) for epoch in range(said['epochs'])]
steps, known, versions = -(-len(train) // BATCH), {}, {}
parts = np.array_split(np.fromfile(f'{updates}.start'), servers)
ends = np.cumsum([len(part) for part in parts])[:-1]
shards, velocity = [[part] for part in parts], [part * 0 for part in parts]
waiting = []    # of each server: updates to be made, as epoch and tasks
for server in range(servers):
    with open(f'{updates}.{server}') as file:
        lines = [[int(word) for word in line.split()] for line in file]
    for epoch, *pairs in lines:
        for task, version in zip(pairs[::2], pairs[1::2]):
            versions.setdefault((epoch, task), {})[server] = version
    waiting.append([(epoch, pairs[::2]) for epoch, *pairs in lines])
while any(waiting):
    server = next(s for s in range(servers) if waiting[s] and all([is_computed(waiting[s][0][0], task)
                                                                    for task in waiting[s][0][1]]))
    update(server, *waiting[server].pop(0))
print(np.abs(np.concatenate([shard[-1] for shard in shards]) - np.fromfile(f'{updates}.end')).max())
