#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench/ddp.py, with a PyTorch and a tutti-train that answer what a test wants, and with the real tutti-train; its path
and the build directory are the arguments."""
import importlib.util
import os
import sys
import unittest

from launched import ProgramTest, arguments

DDP, BUILD = arguments(2)

RUN = '''#!/bin/sh
[ "$1 $3 $5" = "-n --bind --" ] || exit 99
TUTTI_SIZE=$2
export TUTTI_SIZE
shift 5
exec "$@"
'''
# a rank 0, whichever side's: after the first epoch each takes as many seconds as the test says
RANK = '''#!/usr/bin/env -S python3 -I -S
import json, os, sys, time
nan = float('nan')
told = {told!r}
if sys.argv[-1] == '--version':
    print(told['version'])
    print(told['errors'], file=sys.stderr)
    sys.exit(told['no_torch'])
words = dict(zip(sys.argv[told['first']::2], sys.argv[told['first'] + 1::2]))
with open({calls!r}, 'a') as file:
    print(json.dumps(dict(words, ranks=os.environ['TUTTI_SIZE'], side=told['side'])), file=file)
if told['hang']:
    time.sleep(60)
each = told['each'].get(words.get('--bucket'), told['each'][None])
ends = [9 + each * epoch for epoch in range(int(words['--epochs']))]
shown = {{'loss': told['loss'], 'accuracy': told['accuracy']}}
with open(words['--json'], 'w') as file:
    if told['side'] == 'torch':
        print(json.dumps(dict(shown, version=told['version'], rows=told['rows'], seconds=ends)), file=file)
    else:
        print(json.dumps(dict(event='start', version='0.1.0', train_samples=told['rows'])), file=file)
        for end in ends:
            print(json.dumps(dict(event='epoch', seconds=end, **{{'train_' + key: value for key, value in shown.items()}})),
                  file=file)
        print(json.dumps(dict(event='end')), file=file)
print(told['errors'], file=sys.stderr)
sys.exit(told['status'])
'''
USUAL = {'version': '2.9.9', 'errors': '', 'no_torch': 0, 'hang': False, 'each': {None: 1}, 'loss': 0.02, 'accuracy': 1,
         'rows': 1000, 'status': 0}


class Fakes(ProgramTest):
    def setUp(self):
        super().setUp()
        self.calls = self.path('calls')
        self.write('tools/run/tutti-run', RUN, 0o755)
        self.tutti()
        self.torch()

    def tutti(self, **told):
        told = dict(USUAL, side='tutti', first=1, **told)
        self.write('trainer/tutti-train', RANK.format(calls=self.calls, told=told), 0o755)

    def torch(self, **told):
        told = {**USUAL, 'side': 'torch', 'first': 2, **told}     # its first word is the program
        self.write('python', RANK.format(calls=self.calls, told=told), 0o755)

    def ddp(self, *words, status=0):
        return self.run_to_end(sys.executable, DDP, '--build', self.dir, '--python', self.path('python'), *words,
                               status=status)

    def one(self, *words, status=0):
        return self.ddp('-m', 'digits', '-d', 'float32', '-r', '2', '-n', '1', *words, status=status)

    def refuse(self, sentence, *words):
        done = self.one(*words, status=1)
        self.assertIn(sentence, done.err)
        return done


class Table(Fakes):
    def rows(self, done):
        self.assertEqual(done.err, '')
        return [line.split() for line in done.out.splitlines() if line and line[0] not in '#m']

    def test_the_ratio_is_that_of_samples_per_second_without_the_first_epoch(self):
        self.tutti(each={None: 2})
        self.torch(each={None: 3})
        done = self.one('-n', '2')
        self.assertEqual(self.rows(done), [['digits', 'float32', '2', 'default', '500', '(500–500)', '333', '(333–333)',
                                            '1.50', '(1.50–1.50)']])
        self.assertIn('PyTorch 2.9.9', done.out)
        self.assertIn('# slower than PyTorch: nowhere\n', done.out)
        self.assertIn('# less than 1.3 times as fast with 2 ranks in float32: nowhere\n', done.out)

    def test_points_that_miss_a_goal_are_named(self):
        self.tutti(each={None: 5})
        self.torch(each={None: 4})
        done = self.ddp('-n', '1', '-r', '1,2', '-d', 'float32', '-m', 'digits,4-3-2')
        self.assertEqual([row[:3] for row in self.rows(done)],
                         [[model, 'float32', ranks] for model in ('digits', '4-3-2') for ranks in '12'])
        self.assertIn('# slower than PyTorch: digits, float32, 1 rank: 0.80; digits, float32, 2 ranks: 0.80; '
                      '4-3-2, float32, 1 rank: 0.80; 4-3-2, float32, 2 ranks: 0.80\n', done.out)
        self.assertIn('in float32: digits, float32, 2 ranks: 0.80; 4-3-2, float32, 2 ranks: 0.80\n', done.out)

    def test_buckets_are_compared_in_turn(self):
        self.tutti(each={'64K': 2, '1M': 1, None: 7})
        self.torch(each={None: 2})
        done = self.one('--bucket', '64K,1M')
        self.assertEqual([(row[3], row[-2]) for row in self.rows(done)], [('64K', '1.00'), ('1M', '2.00')])
        self.assertIn('# bucket 64K: 2.000 times as long as the best bucket (geometric mean), at most 2.000\n', done.out)
        self.assertIn('# bucket 1M: 1.000 times', done.out)
        self.assertIn('in float32: digits, float32, 2 ranks, bucket 64K: 1.00\n', done.out)

    def test_all_run_in_turn_and_each_second_time_in_reverse(self):
        self.one('-n', '3', '--bucket', '8K,9K')
        self.assertEqual([call.get('--bucket', call['side']) for call in self.objects_of('calls')],
                         ['8K', '9K', 'torch', 'torch', '9K', '8K', '8K', '9K', 'torch'])

    def test_both_sides_train_the_same(self):
        self.ddp(*'-m 7-20-30-5 -d float64 -r 4 -n 1 --batch 16 --steps 9 --epochs 4'.split())
        mine, theirs = self.objects_of('calls')
        for name in 'ranks', '--epochs', '--batch', '--lr', '--momentum', '--weight-decay', '--seed':
            self.assertEqual(mine[name], theirs[name])
        self.assertEqual((mine['ranks'], mine['--epochs'], mine['--batch']), ('4', '4', '16'))
        self.assertEqual((mine['--data'], mine['--hidden'], mine['--dtype']), ('synthetic:144x7x5', '20,30', 'f64'))
        self.assertEqual((theirs['--data'], theirs['--widths'], theirs['--dtype']), ('144', '7-20-30-5', 'float64'))

    def test_every_run_is_written(self):
        self.one('-n', '2', '--bucket', '64K', '--json', self.path('runs'))
        runs = self.objects_of('runs')
        self.assertEqual([(run['library'], run['bucket'], run['repetition']) for run in runs],
                         [('tutti', '64K', 0), ('pytorch', None, 0), ('pytorch', None, 1), ('tutti', '64K', 1)])
        self.assertEqual([run['samples_per_s'] for run in runs], [1000] * 4)

    def test_tutti_train_alone_needs_no_pytorch(self):
        self.torch(no_torch=77)
        done = self.one('--no-torch')
        self.assertEqual(self.rows(done), [['digits', 'float32', '2', 'default', '1000', '(1000–1000)']])
        self.assertNotIn('PyTorch', done.out)


class Missing(Fakes):
    def test_without_pytorch_it_is_skipped(self):
        self.torch(no_torch=77, version='skipped: needs PyTorch (pip install torch)')
        done = self.one(status=77)
        self.assertEqual((done.out, done.err), ('skipped: needs PyTorch (pip install torch)\n', ''))

    def test_a_pytorch_that_cannot_be_imported_is_an_error(self):
        self.torch(no_torch=1, errors='ImportError: libtorch.so')
        self.refuse('cannot import PyTorch:\nImportError: libtorch.so')

    def test_a_missing_program_is_named(self):
        os.remove(self.path('trainer/tutti-train'))
        self.refuse('tutti-train was not found: run "meson setup build')
        self.refuse('--python: /nowhere was not found', '--python', '/nowhere')
        self.tutti()
        self.refuse('--json: cannot write "/nowhere/runs": No such file', '--json', '/nowhere/runs')


class Refused(Fakes):
    def test_arguments(self):
        for words, sentence in [(['--models', 'mnist'], '"mnist" was found, expected digits, or the widths'),
                                (['--models', '784'], '"784" was found, expected digits'),
                                (['--dtype', 'float16'], '"float16" was found, expected some of float32,float64'),
                                (['--ranks', '1,65'], '"1,65" was found, expected numbers from 1 to 64'),
                                (['--epochs', '1'], '"1" was found, expected a whole number from 2'),
                                (['--bucket', '64k'], '"64k" was found, expected bytes, such as 64K or 1M'),
                                (['--batch', '3'], '--batch: found 3 for 4 ranks, expected a sample for each rank')]:
            self.assertIn(sentence, self.ddp(*words, status=2).err)
        self.assertFalse(os.path.exists(self.calls))

    def test_losses_that_differ(self):
        self.torch(loss=0.03)
        self.refuse('digits, float32, 2 ranks: one run ends with a loss of 0.02, and another with 0.03; expected no '
                    'more than 25% between them')
        self.torch(loss=0.024)
        self.one()

    def test_a_side_that_did_not_learn(self):
        self.torch(accuracy=0.89)
        self.refuse('pytorch ends with an accuracy of 0.890, expected 0.9 at least')
        for loss in float('nan'), 24:
            self.torch(loss=loss)
            self.refuse('pytorch ends with a loss of', '-m', '4-3-10')
        self.torch(loss=2.4, accuracy=0.1)      # data that are made up are not learned in so few steps
        self.one('-m', '4-3-10')

    def test_other_data(self):
        self.torch(rows=999)
        self.refuse('40 epochs of 1000 samples, and another 40 of 999; expected the same')

    def test_a_run_that_fails_or_hangs(self):
        self.torch(status=3, errors='connection reset')
        done = self.refuse(' with 2 ranks ended with status 3\n')
        self.assertIn('connection reset', done.err)
        self.torch(hang=True)
        self.refuse(' with 2 ranks did not end in 0.3 s (--limit)', '--limit', '0.3')


class Real(ProgramTest):
    def ddp(self, line):
        done = self.run_to_end(sys.executable, DDP, '--build', BUILD, '--json', self.path('runs'), *line.split())
        self.assertEqual(done.err, '')
        return self.objects_of('runs')

    def test_tutti_train_is_timed_and_learns(self):
        runs = self.ddp('--no-torch -m digits,20-8-4 -n 1 -r 1,2 -d float32 --bucket 4K --epochs 6')
        self.assertEqual([(run['model'], run['ranks']) for run in runs],
                         [('digits', 1), ('digits', 2), ('20-8-4', 1), ('20-8-4', 2)])
        self.assertTrue(all(len(run['seconds']) == 6 and run['samples_per_s'] > 0 for run in runs))

    @unittest.skipUnless(importlib.util.find_spec('torch'), 'PyTorch is not installed')
    def test_pytorch_is_timed_and_learns_the_same(self):
        runs = self.ddp('-m digits -n 1 -r 1,3 -d float64 --batch 62 --epochs 4')
        self.assertEqual([run['library'] for run in runs], ['tutti', 'pytorch'] * 2)


if __name__ == '__main__':
    unittest.main()
