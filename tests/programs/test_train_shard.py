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
        self.refuses(2, '--data synthetic:100x4x2 --shard', "found --shard with tutti-run's --min-ranks or --restart",
                     run='--min-ranks 1')

    def is_judged_alike(self, words, ranks=3, options='--data data'):
        """By one rank and by parts: as refused with the same message, one line, or as accepted (words '')."""
        for job, way in (1, ''), (ranks, '--shard'):
            if not words:
                self.log_of_ranks(job, f'{options} {way} --batch 8 --epochs 1')
            else:
                self.refuses(job, f'{options} {way}', words if job == 1 else f'all ranks: {words}')

    def test_parts_are_judged_as_one_rank_judges_all(self):
        numbers = [(number, number * 7 % 13, number % 2) for number in range(200)]
        lines = [','.join(map(str, row)) + '\n' for row in numbers]
        half = len(lines) // 2
        slow, slower = (''.join(f'{1700000000 + number * rise},{number % 2}\n' for number in range(4000))
                        for rise in (20, 2))
        for text, words in (
                # blank lines at the end of a part, and at that of the file
                (lines[:half] + ['\n'] * 200 + lines[half:], 'data: line 101: found a blank line, expected 3 fields'),
                (lines + ['\n', '\r\n'] * 200, ''),
                # a header of numbers, whose label is no other line's, or that of a line of the last part
                (['0,1,2\n'] + lines, 'data: line 1: found the numbers of the fields, from 0 to 2, and label 2 on no'),
                (['0,1,2\n'] + lines + ['5,6,2\n'], ''),
                # what float32 holds of the whole file, and not of a part of it
                (slow, ''),
                (slower, 'data: field 1: found numbers from'),
                # fields, numbers and labels of the last part, and those of several parts
                (lines + ['5,6\n'], 'data: line 201: found 2 fields, expected 3 as in line 1'),
                (lines[:half] + ['5,x,1\n'] + lines[half:] + ['5,y,1\n'], "data: line 101, field 2: found 'x', expected"),
                ('100000,0\n2,1,1\n', 'data: line 2: found 3 fields, expected 2 as in line 1'),
                (rows(100, 0) + rows(100, 3), 'data: label out of range: found 3, but no sample'),
                (rows(100, 0), 'data: found label 0 on every sample'),
                ('', 'data: found no row at the start'),
                ('1,0\n2,1\n', 'data: too few samples')):
            self.write('data', ''.join(text))
            self.is_judged_alike(words)

    def test_what_is_wrong_with_idx_files_is_one_error(self):
        self.write('x', struct.pack('>4B3I', 0, 0, 8, 3, 90, 1, 2) + bytes(range(180)))
        self.write('y', struct.pack('>4BI', 0, 0, 12, 1, 90) + struct.pack('>90i', *range(70000, 70090)))
        for options, words in (('', 'x: is an IDX file; give the file of its labels with --labels'),
                               ('--labels x', 'x: found 3 dimensions of type 0x08, expected labels'),
                               ('--labels y', 'y: row 0: found label 70000, expected an integer from 0 to 65535')):
            self.is_judged_alike(words, options=f'--data x {options}')

    def test_other_files_than_those_of_rank_0_are_named(self):
        self.refuses_unequal(2, 'exec "$0" --shard --data synthetic:400x16x$((2 + TUTTI_RANK * 500))',
                             'rank 1 reads other data than rank 0')
        for rank in 0, 1:   # of the same length
            self.write(f'data{rank}', ''.join(f'{number},{rank}\n' for number in range(1000, 1401)))
        self.refuses_unequal(2, 'exec "$0" --shard --data data$TUTTI_RANK',
                             'rank 1 reads other data than rank 0: another file')


if __name__ == '__main__':
    unittest.main()
