#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the reference steps of tutti-train's optimisers, which test_train_model compares with.

  optimizer_steps.py >optimizer_steps.json

Needs PyTorch, whose torch.optim makes the steps of those that it has. The steps of LARS (You et al. 2017,
arXiv:1708.03888, algorithm 1) and LAMB (You et al. 2020, arXiv:1904.00962, algorithm 2) are those of the papers, of
one layer. All numbers are float64.
"""
import json

import torch

WEIGHTS = [0.5, -1.25, 2.0, 0.0, -0.03125]
GRADIENTS = [[0.25, -0.5, 0.125, 1.0, 0.0], [-0.75, 0.25, 0.5, 0.5, 0.0], [0.1, 0.2, -0.3, 0.4, 1e-3],
             [3.0, -2.0, 0.0, -1.0, 1e-6], [0.5, 0.5, 0.5, 0.5, 0.5], [-0.01, 0.02, -0.03, 0.04, -2.0]]
DECAY, MOMENTUM, BETA2, EPSILON, TRUST = 0.01, 0.8, 0.95, 1e-6, 0.02


def by_torch(make):
    """The weights after each step of an optimiser of PyTorch's."""
    w = torch.tensor(WEIGHTS, dtype=torch.float64, requires_grad=True)
    optimizer = make([w])
    for gradient in GRADIENTS:
        w.grad = torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
        yield w.detach().tolist()


def norm(x):
    return float(torch.linalg.vector_norm(x))


def lars(rate):
    w, v = torch.tensor(WEIGHTS, dtype=torch.float64), torch.zeros(len(WEIGHTS), dtype=torch.float64)
    for gradient in GRADIENTS:
        g = torch.tensor(gradient, dtype=torch.float64)
        local = TRUST * norm(w) / (norm(g) + DECAY * norm(w))
        v = MOMENTUM * v + rate * local * (g + DECAY * w)
        w = w - v
        yield w.tolist()


def lamb(rate):
    w, m = torch.tensor(WEIGHTS, dtype=torch.float64), torch.zeros(len(WEIGHTS), dtype=torch.float64)
    v = torch.zeros_like(m)
    for t, gradient in enumerate(GRADIENTS, 1):
        g = torch.tensor(gradient, dtype=torch.float64)
        m = MOMENTUM * m + (1 - MOMENTUM) * g
        v = BETA2 * v + (1 - BETA2) * g * g
        r = m / (1 - MOMENTUM**t) / ((v / (1 - BETA2**t)).sqrt() + EPSILON) + DECAY * w
        w = w - rate * norm(w) / norm(r) * r
        yield w.tolist()


def main():
    optim, betas = torch.optim, (MOMENTUM, BETA2)
    of_rate = {
        'sgd': (0.1, lambda w: optim.SGD(w, 0.1, weight_decay=DECAY)),
        'momentum': (0.1, lambda w: optim.SGD(w, 0.1, momentum=MOMENTUM, weight_decay=DECAY)),
        'nesterov': (0.1, lambda w: optim.SGD(w, 0.1, momentum=MOMENTUM, weight_decay=DECAY, nesterov=True)),
        'adagrad': (0.1, lambda w: optim.Adagrad(w, 0.1, weight_decay=DECAY, eps=1e-10)),
        'adam': (0.1, lambda w: optim.Adam(w, 0.1, betas=betas, eps=EPSILON, weight_decay=DECAY)),
        'adamw': (0.1, lambda w: optim.AdamW(w, 0.1, betas=betas, eps=EPSILON, weight_decay=DECAY)),
    }
    found = [{'optimizer': name, 'rate': rate, 'steps': list(by_torch(make))} for name, (rate, make) in of_rate.items()]
    found += [{'optimizer': 'lars', 'rate': 5, 'steps': list(lars(5))},
              {'optimizer': 'lamb', 'rate': 0.05, 'steps': list(lamb(0.05))}]
    lines = ',\n  '.join(json.dumps(one) for one in found)
    head = json.dumps({'decay': DECAY, 'momentum': MOMENTUM, 'beta2': BETA2, 'epsilon': EPSILON, 'trust': TRUST,
                       'weights': WEIGHTS, 'gradients': GRADIENTS})
    print(f'{head[:-1]},\n "optimizers": [\n  {lines}]}}')


if __name__ == '__main__':
    main()
