# SPDX-License-Identifier: BSD-3-Clause
"""Local SGD (Stich 2019) and DiLoCo (Douillard et al. 2023) of several ranks by one process: the reference of
tutti-train --sync local. It shares no code with it, and follows the formulas and docs/reference/trainer.md. The model is
a softmax regression (--hidden none) of samples that are standardised already; numbers are float64."""
import math

MASK = 2**64 - 1


class Random:
    """splitmix64 (Steele, Lea, Flood 2014), from which all that is drawn follows."""

    def __init__(self, seed, purpose):
        self.state = seed
        self.state = self.next() ^ purpose
        self.state = self.next()

    def next(self):
        self.state = (self.state + 0x9e3779b97f4a7c15) & MASK
        z = self.state
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & MASK
        z = (z ^ z >> 27) * 0x94d049bb133111eb & MASK
        return z ^ z >> 31

    def unit(self):
        return ((self.next() >> 11) + 1) / 2**53

    def normal(self):
        radius = math.sqrt(-2 * math.log(self.unit()))
        return radius * math.cos(2 * math.pi * self.unit())


def shuffled(items, seed, purpose):
    items, random = list(items), Random(seed, purpose)
    for left in range(len(items), 1, -1):
        other = (random.next() >> 32) * left >> 32
        items[other], items[left - 1] = items[left - 1], items[other]
    return items


def order_of_epoch(items, epoch, seed=1):
    return shuffled(items, seed, 3 + epoch)


def first_weights(features, classes, seed=1):
    """Of each class, and its bias behind them."""
    random = Random(seed, 2)
    return [[math.sqrt(2 / features) * random.normal() for _ in range(features)] + [0.0] for _ in range(classes)]


def slices(items, ranks):
    each, more = divmod(len(items), ranks)
    firsts = [rank * each + min(rank, more) for rank in range(ranks + 1)]
    return [items[first:end] for first, end in zip(firsts, firsts[1:])]


def loss_and_gradient(weights, samples):
    """Sums over the samples: the cross entropy, and its gradient."""
    loss, gradient = 0.0, [[0.0] * len(row) for row in weights]
    for x, label in samples:
        x = [*x, 1.0]
        shares = [math.exp(sum(map(float.__mul__, row, x))) for row in weights]
        loss -= math.log(shares[label] / sum(shares))
        for c, row in enumerate(gradient):
            error = shares[c] / sum(shares) - (c == label)
            gradient[c] = [g + error * value for g, value in zip(row, x)]
    return loss, gradient


def each(formula, *matrices):
    return [[formula(*numbers) for numbers in zip(*rows)] for rows in zip(*matrices)]


class Rank:
    def __init__(self, weights, velocity):
        self.weights, self.velocity, self.samples = weights, velocity, 0

    def step(self, samples, rate, momentum, decay):
        """By the mean gradient of its own slice. The loss of the slice, before that."""
        loss, gradient = loss_and_gradient(self.weights, samples)
        if samples:
            self.velocity = each(lambda v, g, w: momentum * v + g / len(samples) + decay * w, self.velocity, gradient,
                                 self.weights)
            self.weights = each(lambda w, v: w - rate * v, self.weights, self.velocity)
        self.samples += len(samples)
        return loss


def mean(ranks, name):
    """A rank's part is its share of the samples."""
    total = sum(rank.samples for rank in ranks)
    return each(lambda *numbers: sum(n * rank.samples / total for n, rank in zip(numbers, ranks)),
                *(getattr(rank, name) for rank in ranks))


def local_sgd(samples, ranks, every, epochs, batch, rate, momentum=0.9, decay=0.003, outer=None):
    """The mean loss of each epoch's steps, and that of the average at its end. `outer`: rate, momentum, nesterov?"""
    weights = first_weights(len(samples[0][0]), 1 + max(label for _, label in samples))
    velocity = outer_velocity = each(lambda w: 0.0, weights)
    trained, tested = [], []
    for epoch in range(epochs):
        order, loss = order_of_epoch(samples, epoch), 0.0
        batches = [order[i:i + batch] for i in range(0, len(order), batch)]
        for first in range(0, len(batches), every):
            ahead = [Rank(weights, velocity) for _ in range(ranks)]
            for of_all in batches[first:first + every]:
                loss += sum(rank.step(own, rate, momentum, decay) for rank, own in zip(ahead, slices(of_all, ranks)))
            last, weights, velocity = weights, mean(ahead, 'weights'), mean(ahead, 'velocity')
            if outer:   # the way back to the last average is a gradient
                r, m, nesterov = outer
                way = each(float.__sub__, last, weights)
                outer_velocity = each(lambda v, d: m * v + d, outer_velocity, way)
                weights = each(lambda w, v, d: w - r * (d + m * v if nesterov else v), last, outer_velocity, way)
        trained.append(loss / len(samples))
        tested.append(loss_and_gradient(weights, samples)[0] / len(samples))
    return trained, tested
