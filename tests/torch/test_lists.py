#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Lists of tensors of random shapes, types and layouts, in every operation of the backend that takes lists. Before half
of the calls one rank makes a wrong one: it is refused before anything is sent, so the right one ends on all ranks.

    TEST_SEED=SEED test_lists.py        the seed that a failure names; without it a new one"""
from __future__ import annotations

import os
import random
import unittest
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.distributed as dist

from ranks import on_ranks

SEED = int(os.environ.get('TEST_SEED', random.SystemRandom().randrange(10**6)))
CALLS = 500
KINDS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
         torch.float64, torch.complex64, torch.complex128, torch.float8_e5m2, torch.bool]


class Case(NamedTuple):
    """A call of all ranks: for each of them, the lists that it gives, and what it is to have at the end."""
    inputs: list
    outputs: list
    call: Callable          # of the backend, (outputs, inputs)
    initial: list = None    # of the outputs, which are changed in place
    one_size: bool = False  # a rank sees by itself that one tensor is not as large as the others


# ---------------------------------------------------------------- what is drawn, alike on all ranks


def shape_of(d):
    return [d.choice([0, 1, 2, 3, 5]) for _ in range(d.randrange(4))]


def shapes_of(d, least, most):
    return [shape_of(d) for _ in range(d.randint(least, most))]


def tensor_of(d, kind, shape):
    """Small numbers: every type has the sum of three."""
    most = d.choice([1, 3])
    numbers = [d.randrange(most) for _ in range(torch.Size(shape).numel())]
    return torch.tensor(numbers, dtype=torch.int64).reshape(shape).to(kind)


def tensors_of(d, kind, shapes):
    return [tensor_of(d, kind, shape) for shape in shapes]


# ---------------------------------------------------------------- the same elements in memory, and what lies around them


def dense(tensor):
    return tensor.clone()


def transposed(tensor):
    order = list(range(tensor.dim()))[::-1]
    return tensor.permute(order).clone(memory_format=torch.contiguous_format).permute(order)


def with_gaps(tensor):
    view = torch.ones([*tensor.shape, 2], dtype=tensor.dtype)[..., 1]
    return view.copy_(tensor)


def inside(tensor):
    view = torch.ones(tensor.numel() + 7, dtype=tensor.dtype)[3:3 + tensor.numel()].view(tensor.shape)
    return view.copy_(tensor)


def conjugated(tensor):
    return tensor.conj().resolve_conj().clone().conj()


def repeated(tensor):
    """For inputs alone."""
    same = tensor.dim() > 0 and len(set(tensor.to(torch.complex128).reshape(-1).tolist())) == 1
    return tensor[:1].clone().expand(tensor.shape) if same else tensor.clone()


LAYOUTS = dense, transposed, with_gaps, inside, conjugated


def around(tensor):
    """The elements of its memory that are not its own."""
    tensor.fill_(1)
    return torch.tensor([], dtype=tensor.dtype).set_(tensor.untyped_storage())


def wrong_ways(tensors, others, case):
    """What no rank takes, whatever the others give."""
    ways = {
        'one too many': lambda d, one: [one, one],
        'one is missing': lambda d, one: [],
        'sparse': lambda d, one: [torch.eye(2).to_sparse()],
        'of another device': lambda d, one: [torch.empty_like(one, device='meta')],
    }
    if case.initial:    # any number of them
        del ways['one too many'], ways['one is missing']
    if others or len(tensors) > 1:
        ways['of another type'] = lambda d, one: [one.to(d.choice([kind for kind in KINDS if kind != one.dtype]))]
        if case.one_size:
            ways['of another size'] = lambda d, one: [torch.zeros(one.numel() + 1, dtype=one.dtype)]
    return ways


# ---------------------------------------------------------------- operations


def backend():
    return dist.group.WORLD._get_backend(torch.device('cpu'))


def options_of(kind, root):
    options = kind()
    options.rootRank = root
    return options


def added(tensors):
    whole = torch.stack([tensor.to(torch.complex128) for tensor in tensors]).sum(0)
    return (whole if tensors[0].is_complex() else whole.real).to(tensors[0].dtype)


def all_gather(d, kind, size):
    given = tensors_of(d, kind, shapes_of(d, size, size))
    return Case([[one] for one in given], [given] * size, lambda o, i: backend().allgather([o], i))


def all_gather_coalesced(d, kind, size):
    shapes = shapes_of(d, 1, 3)
    given = [tensors_of(d, kind, shapes) for _ in range(size)]
    return Case(given, [sum(given, [])] * size, lambda o, i: backend().allgather_coalesced(
        [o[first:first + len(shapes)] for first in range(0, len(o), len(shapes))], i))


def all_reduce_coalesced(d, kind, size):
    shapes = shapes_of(d, 2, 3)
    given = [tensors_of(d, kind, shapes) for _ in range(size)]
    return Case([[]] * size, [[added(of_all) for of_all in zip(*given)]] * size,
                lambda o, i: backend().allreduce_coalesced(o), initial=given)


def gather(d, kind, size):
    root = d.randrange(size)
    given = tensors_of(d, kind, [shape_of(d)] * size)
    return Case([[one] for one in given], [given if rank == root else [] for rank in range(size)],
                lambda o, i: backend().gather([o] if dist.get_rank() == root else [], i,
                                              options_of(dist.GatherOptions, root)), one_size=True)


def scatter(d, kind, size):
    root = d.randrange(size)
    given = tensors_of(d, kind, [shape_of(d)] * size)
    return Case([given if rank == root else [] for rank in range(size)], [[one] for one in given],
                lambda o, i: backend().scatter(o, [i] if dist.get_rank() == root else [],
                                               options_of(dist.ScatterOptions, root)), one_size=True)


def reduce_scatter(d, kind, size):
    shapes = shapes_of(d, size, size)
    given = [tensors_of(d, kind, shapes) for _ in range(size)]
    return Case(given, [[added(of_all)] for of_all in zip(*given)], lambda o, i: backend().reduce_scatter(o, [i]))


def all_to_all(d, kind, size):
    given = [tensors_of(d, kind, shapes_of(d, size, size)) for _ in range(size)]
    return Case(given, list(zip(*given)), lambda o, i: backend().alltoall(o, i))


OPERATIONS = (all_gather, all_gather_coalesced, all_reduce_coalesced, gather, scatter, reduce_scatter, all_to_all)


class RandomLists(unittest.TestCase):
    def same(self, found, expected):
        self.assertTrue(torch.equal(found.to(torch.complex128), expected.to(torch.complex128)),
                        f'found {found}, expected {expected}')

    def refused(self, d, case, lists):
        """A wrong call of one rank; all draw what is wrong with it."""
        rank, victim = dist.get_rank(), d.randrange(dist.get_world_size())
        of_victim = case.outputs[victim], case.inputs[victim]
        side = d.choice([side for side in range(2) if of_victim[side]])
        ways = wrong_ways(of_victim[side], of_victim[1 - side], case)
        way, place = d.choice(sorted(ways)), d.randrange(len(of_victim[side]))
        wrong, one = list(lists), of_victim[side][place]
        changed = ways[way](d, one)
        if rank != victim:
            return
        wrong[side] = [*lists[side][:place], *changed, *lists[side][place + 1:]]
        with self.assertRaises((RuntimeError, TypeError, ValueError), msg=f'{way}, {["outputs", "inputs"][side]}'):
            case.call(*wrong).wait()

    def one_call(self, d):
        rank, size = dist.get_rank(), dist.get_world_size()
        case = d.choice(OPERATIONS)(d, d.choice(KINDS), size)
        own = random.Random(d.random() + rank)      # layouts are each rank's own
        initial = case.initial[rank] if case.initial else map(torch.zeros_like, case.outputs[rank])
        outputs = [own.choice(LAYOUTS)(one) for one in initial]
        inputs = [own.choice([*LAYOUTS, repeated])(one) for one in case.inputs[rank]]
        if d.random() < 0.5:
            self.refused(d, case, (outputs, inputs))
        case.call(outputs, inputs).wait()
        for found, expected in [*zip(outputs, case.outputs[rank]), *zip(inputs, case.inputs[rank])]:
            self.same(found, expected)
        for found in outputs:
            self.same(around(found), torch.ones(1).expand(around(found).numel()))

    def calls(self):
        d = random.Random(SEED)
        for number in range(CALLS):
            try:
                self.one_call(d)
            except BaseException:
                print(f'rank {dist.get_rank()}: TEST_SEED={SEED}, call {number}', flush=True)
                raise

    @on_ranks(2)
    def test_random_lists_of_two_ranks_right_and_wrong(self):
        self.calls()

    @on_ranks(3)
    def test_random_lists_of_three_ranks_right_and_wrong(self):
        self.calls()


if __name__ == '__main__':
    unittest.main()
