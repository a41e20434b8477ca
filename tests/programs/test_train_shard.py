#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tutti-train --shard: the bits of a training without it, and a part of its memory."""
import struct
import unittest

from training import DIGITS, TrainingTest


def rows(count, *columns):
    """Lines of CSV: 1 to `count`, and these columns."""
    return ''.join(f'{number},{",".join(map(str, columns))}\n' for number in range(1, count + 1))


class Shard(TrainingTest):
    def has_the_same_bits(self, ranks, options):
        """Weights and losses of training bit for bit; those of validation are added in another order."""
        whole, parts = (self.log_of_ranks(ranks, options + more) for more in ('', ' --shard'))
        self.assertEqual(parts.bits, whole.bits, options)
        self.assert_losses(parts, whole, 1e-6)
        self.assertAlmostEqual(parts.end['test_accuracy'], whole.end['test_accuracy'], delta=1e-12)

    def test_rows_of_other_ranks_give_the_same_bits(self):
        lines = self.lines_of_digits()
        self.write('data', ''.join(lines))
        for way in ('--epochs 2 --batch 53 --verify', '--epochs 2 --sync zero1 --dtype f64',
                    '--epochs 2 --sync local --every 3', '--epochs 2 --shares 1,3,0.5',
                    '--epochs 2 --accumulate 2', '--batch all --epochs 20'):
            self.has_the_same_bits(3, f'--data data {way}')
        self.has_the_same_bits(1, '--data data --epochs 1')
        self.has_the_same_bits(8, '--data data --epochs 1 --test-fraction 0.5')
        self.write('train', ''.join(lines[:900]))
        self.write('test', ''.join(lines[-897:]))
        self.has_the_same_bits(4, '--data train --test-data test --epochs 2')
        self.has_the_same_bits(3, '--data synthetic:1001x7x3 --epochs 2')

    def test_idx_files_are_read_in_parts(self):
        """301 samples of two pixels, whose label is whether the first is lighter."""
        pixels = [(i * 7 % 101, i * 3 % 97) for i in range(1, 302)]
        self.write('x', struct.pack('>4B3I', 0, 0, 8, 3, 301, 1, 2) + bytes(value for pair in pixels for value in pair))
        self.write('y', struct.pack('>4BI', 0, 0, 8, 1, 301) + bytes(a > b for a, b in pixels))
        self.has_the_same_bits(3, '--data x --labels y --batch 16 --epochs 3')

    def test_each_rank_reads_and_keeps_a_part(self):
        options = '--data synthetic:40000x256x10 --hidden 32 --epochs 1'
        whole = 40000 * 256 * 4
        log = self.log_of_ranks(4, options)
        self.assertEqual((log.of_ranks('read'), log.of_ranks('rows_sent')), ([whole] * 4, [0] * 4))
        memory = max(log.of_ranks('memory'))
        log = self.log_of_ranks(4, f'{options} --shard')
        self.assertIn('MB read, at most 10.24 by a rank', self.last.said)
        self.assertEqual(log.of_ranks('read'), [whole / 4] * 4)
        self.assertGreater(min(log.of_ranks('read_seconds')), 0)
        # an eighth of an epoch comes and goes beside what each keeps
        self.assertGreaterEqual(memory - max(log.of_ranks('memory')), 0.5 * whole)
        # of 32000 to train on three quarters are elsewhere, or so
        self.assertAlmostEqual(sum(log.of_ranks('rows_sent')) / ((256 + 1) * 4), 24000, delta=500)

    def test_it_is_resumed_by_others_and_resumes_others(self):
        """The sums of gradients are of other ranks then; the samples are the same."""
        self.write('data', ''.join(self.lines_of_digits()))
        options = '--epochs 6 --dtype f64'
        whole = self.log_of_ranks(2, f'--data data {options}')
        for killed, resumed in ('', '--shard'), ('--shard', ''):
            self.kill_when_saved(3, f'{options} {killed}', data='data')
            log = self.log_of_ranks(2, f'--data data {options} --save ck --resume {resumed}')
            self.assertIn('resumed after epoch 3', self.last.said)
            self.assert_close(log.train_losses, whole.train_losses, 1e-9)

    def test_what_has_no_parts_is_refused(self):
        self.refuses(2, f'--data {DIGITS} --shard', 'all ranks: ', 'found a gzip stream with --shard')
        said = self.ranks(2, '--data synthetic:100x4x2 --shard', status=1, run='--min-ranks 1').said
        self.assertIn("found --shard with tutti-run's --min-ranks or --restart", said)

    def test_a_wrong_part_ends_all_ranks(self):
        for text, ranks, options, words in (
                (rows(100, 1) + rows(100, 0) + '5,6,1\n', 4, '--batch 8',
                 ['rank 3: data: line ', 'found 3 fields, expected 2 as in line 1']),
                (rows(100, 1) + rows(100, 5, 0), 2, '--batch 8', ['found 3 fields, expected 2']),
                ('100000,0\n2,1,1\n', 2, '--batch 2 --test-fraction 0',
                 ['all ranks: data: found 1 features in the part of rank 0 and 2 in that of rank 1']),
                (rows(100, 0) + rows(100, 3), 3, '', ['all ranks: data: label out of range: found 3, but no sample']),
                (rows(100, 0), 3, '', ['all ranks: data: found label 0 on every sample']),
                ('', 3, '', ['all ranks: data: found no row']),
                ('1,0\n2,1\n', 3, '', ['too few samples'])):
            self.write('data', text)
            self.refuses(ranks, f'--data data --shard {options}', *words)
        self.refuses_unequal(2, 'exec "$0" --shard --data synthetic:400x16x$((2 + TUTTI_RANK * 500))',
                             'rank 1 reads other data than rank 0')
        for rank in 0, 1:   # of the same length
            self.write(f'data{rank}', ''.join(f'{number},{rank}\n' for number in range(1000, 1401)))
        self.refuses_unequal(2, 'exec "$0" --shard --data data$TUTTI_RANK',
                             'rank 1 reads other data than rank 0: another file')


if __name__ == '__main__':
    unittest.main()
