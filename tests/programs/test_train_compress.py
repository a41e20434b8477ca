#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tutti-train --compress: bytes, accuracy, bits, and what it does not go together with."""
import math
import unittest

from training import DIGITS, TRAIN, TrainingTest

SIZES = '--epochs 20 --bucket 1 --verify'   # each layer is a bucket
RANKS = 4
WIDTHS = (64, 128, 64, 10)
LAYERS = [(WIDTHS[i], WIDTHS[i + 1]) for i in range(3)]
NUMBERS = [(rows + 1) * columns for rows, columns in LAYERS]
BLOCK = 128


def of_sum(size):
    """What a rank sends of an all-reduce of so many bytes."""
    return 2 * size * (RANKS - 1) / RANKS


def narrow(size):
    return sum(of_sum(size * numbers) for numbers in NUMBERS)


def in_blocks():
    return sum(of_sum(math.ceil(numbers / BLOCK) * (BLOCK + 4)) for numbers in NUMBERS)


def largest(share):
    """Of all ranks' blocks."""
    return sum(math.ceil(numbers * share) * 8 * (RANKS - 1) for numbers in NUMBERS)


def factors(rank):
    """What is not shorter as two factors goes as it is."""
    def layer(rows, columns):
        if rank * (rows + columns) >= rows * columns:
            return 4 * (rows + 1) * columns
        return 4 * (rank * (rows + columns) + columns)
    return sum(of_sum(layer(*shape)) for shape in LAYERS)


WAYS = {'bf16': narrow(2), 'fp16': narrow(2), 'fp8': in_blocks(), 'int8': in_blocks(), 'topk:0.01': largest(0.01),
        'topk:0.1': largest(0.1), 'powersgd:2': factors(2), 'powersgd:10': factors(10)}


class Compress(TrainingTest):
    def test_bytes_are_as_computed_and_accuracy_stays_within_a_point(self):
        plain = self.digits(RANKS, SIZES).end['test_accuracy']
        self.assertGreater(plain, 0.95)
        for how, size in WAYS.items():
            end = self.digits(RANKS, f'{SIZES} --compress {how}').end
            computed = size + of_sum(3 * 4)     # loss, hits and samples
            # whole bytes of each message, and what begins and ends the training
            self.assertAlmostEqual(end['sent_bytes'] / end['steps'], computed, delta=100 + 0.002 * computed, msg=how)
            self.assertGreaterEqual(end['test_accuracy'], plain - 0.01, how)

    def test_what_is_owed_is_paid(self):
        """What int8 rounds away in each step, and topk leaves out, comes later."""
        plain, rounded, few = (self.digits(RANKS, f'--epochs 20 {how}')
                               for how in ('', '--compress int8', '--compress topk:0.001'))
        self.assertAlmostEqual(rounded.train_losses[19], plain.train_losses[19], delta=0.05 * plain.train_losses[19])
        # 17 numbers of 17226 in each step: if the others were lost the loss would be ten times as high
        self.assertGreater(few.end['test_accuracy'], 0.9)
        self.assertLess(few.train_losses[19], 3 * plain.train_losses[19])

    def test_factors_that_vanish_begin_anew(self):
        """A layer of which nothing is active at first has no gradient, and factors that are 0."""
        log = self.digits(1, '--hidden 2 --batch 1 --lr 0.01 --epochs 5 --compress powersgd:1')
        self.assertLess(log.train_losses[4], 2.2)   # a guess has 2.3

    def test_none_has_the_bits_of_nothing_said(self):
        plain, none = (self.digits(3, f'--epochs 3 {how}') for how in ('', '--compress none'))
        self.assertEqual(none.bits, plain.bits)

    def test_the_same_ranks_have_the_same_bits_over_any_transport(self):
        """Floats of factors are added in the order of the algorithm."""
        for how in WAYS:
            other = {} if how.startswith('powersgd') else {'TUTTI_TRANSPORT': 'tcp'}
            one, two = (self.digits(3, f'--epochs 2 --bucket 4K --compress {how}', **env) for env in ({}, other))
            self.assertEqual(one.end['weights'][0], two.end['weights'][0], how)

    def test_one_rank_alone_is_not_rounded(self):
        """It sends nothing: narrow formats change nothing there."""
        plain, rounded, *_ = [self.digits(1, f'--epochs 2 {how}').end['weights'][0]
                              for how in ('', '--compress int8', '--compress topk:0.01', '--compress powersgd:2')]
        self.assertEqual(rounded, plain)

    def test_it_goes_with_optimisers_clipping_and_parts_of_a_batch(self):
        for more in '--optimizer adam', '--optimizer lamb', '--clip 1', '--accumulate 2':
            for how in 'int8', 'topk:0.1', 'powersgd:2':
                accuracy = self.digits(RANKS, f'{SIZES} --compress {how} {more}').end['test_accuracy']
                self.assertGreaterEqual(accuracy, 0.93, (how, more))

    def test_a_training_that_compresses_is_resumed_by_no_other(self):
        self.digits(2, '--epochs 1 --compress int8 --save ck')
        job = self.run_to_end(TRAIN, '--data', DIGITS, *'--epochs 2 --save ck --resume'.split(), cwd=self.dir, status=1)
        self.assertIn('other options', job.said)


if __name__ == '__main__':
    unittest.main()
