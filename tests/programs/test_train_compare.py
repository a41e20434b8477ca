#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trainings side by side: `tutti-train report` on logs that are written here, and `tutti-train compare`."""
import filecmp
import glob
import gzip
import json
import os
import re
import shutil
import signal
import sys
import unittest

from launched import children_of, ends_of
from training import DIGITS, TRAIN, TrainingTest

sys.path.append(os.path.dirname(TRAIN))
from compare import LINE_MOST, Log, modes_of     # noqa: E402

GNUPLOT = unittest.skipUnless(shutil.which('gnuplot'), 'gnuplot was not found')
START = {'event': 'start', 'data': 'd/digits.csv', 'dtype': 'f64', 'sync': 'allreduce', 'ranks': 1, 'parameters': 10,
         'batch': 64, 'train_samples': 640, 'stages': 1}
EPOCH = {'event': 'epoch', 'seconds': 0.5, 'train_loss': 0.25, 'test_loss': None, 'test_accuracy': None}
LOSS = {'event': 'loss', 'seconds': 0.75}
END = {'event': 'end', 'seconds': 2, 'samples_per_s': 100, 'blocked_share': 0, 'sent_bytes': 0, 'steps': 20,
       'steps_begun': 20, 'algorithm': '', 'transports': '', 'each_rank': [{'received': 0}], 'staleness': []}


class Compare(TrainingTest):
    def write_lines(self, name, *lines):
        self.write(name, ''.join(f'{line if isinstance(line, str) else json.dumps(line)}\n' for line in lines))

    def write_log(self, name, end=True, **changed):
        """Two epochs of a training with these values instead."""
        def event(usual):
            return {key: changed.get(key, value) for key, value in usual.items()}
        self.write_lines(name, event(START), event(EPOCH), {**event(EPOCH), 'seconds': 2, 'train_loss': 0.125},
                         *[event(END)] * end)

    def report(self, words, status=0, **env):
        return self.run_to_end(TRAIN, 'report', *words.split(), status=status, cwd=self.dir, **env)

    def refuse(self, words, why, status=1, **env):
        job = self.report(words, status, **env)
        self.assertEqual((job.out, job.err), ('', f'tutti-train report: {why}\n'))

    def test_logs_are_compared(self):
        self.write_log('one.jsonl', test_accuracy=0.5)
        self.write_log('two', ranks=2, samples_per_s=150, blocked_share=0.25, algorithm='ring', transports='shm',
                       sent_bytes=40e6)
        self.write_log('cut', end=False, ranks=2)
        with open(self.path('cut'), 'a') as file:     # killed while it wrote
            file.write('{"event":"lo')
        self.write_lines('lost', {**START, 'stages': 2, 'ways': 3}, EPOCH, LOSS, LOSS)
        columns = 'log ranks way carried samples/s efficiency blocked MB/step loss accuracy seconds lost'.split()
        found = self.report('one.jsonl two cut lost').out.replace('carried by', 'carried').splitlines()
        self.assertEqual([line.split() for line in found], [
            columns, 'one 1 allreduce - 100 1.00 0.0% 0.000 0.125 0.5000 2.00 0'.split(),
            'two 2 allreduce ring/shm 150 0.75 25.0% 2.000 0.125 - 2.00 0'.split(),
            'cut 2 allreduce - unfinished - - - 0.125 - 2.00 0'.split(),
            'lost 1 grid - unfinished - - - 0.25 - 0.50 2'.split()])
        self.assertEqual(len({len(line) for line in self.report('one.jsonl two').out.splitlines()}), 1)

    def test_logs_that_do_not_compare_are_named(self):
        for name, batch in ('all', 640), ('mini', 64), ('sgd', 1), ('sgd2', 1):
            self.write_log(name, batch=batch)
        self.write_log('other', data='e/other.csv', parameters=9, dtype='f32')
        self.assertEqual(self.report('mini all sgd mini sgd2').out.splitlines()[6:], [
            'not the same batch: 64 samples in mini, 640 samples in all, 1 samples in sgd and sgd2; '
            'speeds and losses do not compare'])
        self.assertEqual(self.report('mini other').out.splitlines()[3:], [
            'not the same data: 640 samples of digits.csv in mini, 640 samples of other.csv in other; '
            'speeds and losses do not compare',
            'not the same model: 10 weights of f64 in mini, 9 weights of f32 in other; speeds and losses do not compare'])

    def test_names_tell_logs_apart_and_do_nothing_to_a_terminal(self):
        self.write_log('a/log.json')
        self.write_log('b/log.json', sync='\x1b[2J\u202e', data='x\ud800\n')
        found = self.report('a/log.json b/log.json').out
        self.assertEqual(re.findall(r'(?m)^([ab]/log.json) +1 (\S+)', found),
                         [('a/log.json', 'allreduce'), ('b/log.json', '?[2J?')])
        self.assertIn('640 samples of x?? in b/log.json', found)
        self.write_log(f'{50 * "x"}1')
        self.assertIn(f'\n…{38 * "x"}1 ', self.report(f'{50 * "x"}1').out)

    def why_not_read(self):
        """What the program's part that reads says of this log."""
        with self.assertRaises(SystemExit) as refused:
            Log(self.path('log'))
        return refused.exception.code

    def test_each_field_of_a_log_is_checked(self):
        """What was found, and what was expected."""
        for key, value, found in (
                ('ranks', 0, ': 0.0, expected a whole number from 1 to 1e+18'), ('ranks', 1e308, ': 1e+308, exp'),
                ('ranks', 10**400, ': inf, exp'), ('ranks', 10**4000, ': inf, exp'), ('ranks', 2.5, ': 2.5, exp'),
                ('parameters', '2', ": '2', exp"), ('batch', True, ': True, exp'), ('train_samples', [[[[[[[]]]]]]], ': [[[['),
                ('stages', 0, ': 0.0, expected a whole'), ('dtype', 1, ': 1.0, expected a text of at most 4096 characters'),
                ('data', 5000 * 'x', ": 'xxxx"), ('sync', {}, ': {}, exp'), ('seconds', -1, ': -1.0, expected a number from 0'),
                ('train_loss', float('nan'), ': nan, exp'), ('train_loss', float('inf'), ': inf, exp'),
                ('test_loss', 'x', ": 'x', exp"), ('test_accuracy', False, ': False, exp'), ('samples_per_s', 10**400, ': inf, exp'),
                ('blocked_share', None, ', expected a number from 0'), ('sent_bytes', '', ": '', exp"), ('steps', 0, ': 0.0, exp'),
                ('steps_begun', -1, ': -1.0, exp'), ('algorithm', None, ', expected a text'), ('transports', 3, ': 3.0, exp'),
                ('each_rank', [1], ': [1.0], expected a list of at most 65536, each an object with "received", a whole number'),
                ('each_rank', [{}], ': [{}], exp'), ('staleness', [0.5], ': [0.5], expected a list'),
                ('staleness', 70000 * [1], ': [1.0, 1.0,')):
            self.write_log('log', **{key: value})
            why = self.why_not_read()
            self.assertRegex(why, r'log: line [1-4]: found .*, expected .*; give a file that tutti-train --json wrote$')
            self.assertIn(f'found {"no " * (value is None)}"{key}"{found}', why)
            self.assertLess(len(why), 300)

    def test_what_is_no_log_is_refused(self):
        """However deep or long it is."""
        for lines, found in (([EPOCH], 'line 1: found another event than start'), ([START, START], 'line 2: found a second start'),
                             ([START, EPOCH, END, END], 'line 4: found a second end'), ([START], 'log: found no epoch, expected'),
                             ([], 'log: found no epoch'), ([START, ''], 'line 2: is not JSON'), (['[]'], 'line 1: found an object'),
                             (['{"event": []}'], 'line 1: found an object without "event"'),
                             ([1000000 * '['], 'line 1: is not JSON'), ([START, '{"event":' + 100000 * '{"a":'], 'line 2: is not'),
                             ([START, LINE_MOST * '7'], f'line 2: is no line of at most {LINE_MOST} bytes')):
            self.write_lines('log', *lines)
            self.assertIn(found, self.why_not_read())
        self.write('log', gzip.compress(b' ' * 4 * LINE_MOST))
        self.assertIn('line 1: is no line of', self.why_not_read())
        self.write('log', gzip.compress(b'{}')[:-3])
        self.assertIn('log: cannot be read: Compressed file ended', self.why_not_read())
        for content, found in (b'\xff\n', 'is not JSON'), (b'half of a line', f'is no line of at most {LINE_MOST} bytes'):
            self.write('log', content)
            self.refuse('log', f'log: line 1: {found}; give a file that tutti-train --json wrote')
        self.refuse(DIGITS, f'{DIGITS}: line 1: is not JSON; give a file that tutti-train --json wrote')

    def test_what_cannot_be_done_is_refused(self):
        help_ = 'see tutti-train report --help'
        os.mkfifo(self.path('pipe'))
        self.write_log('log')
        self.refuse('nowhere', 'nowhere: cannot be read: No such file or directory; '
                    'give a file that exists and can be read')
        self.refuse('pipe', 'pipe: is not a regular file; give one')
        self.refuse('', f'found 0 logs, expected 1 to 14; {help_}', 2)
        self.refuse(15 * ' log', f'found 15 logs, expected 1 to 14; {help_}', 2)
        self.refuse('log --plto=a.svg', f'unknown option --plto (did you mean --plot?); {help_}', 2)
        self.refuse('log --plot', f'--plot needs a value; {help_}', 2)
        self.refuse('log --plot a.gif', "--plot: found 'a.gif', expected a file name that ends in .svg or .png; "
                    f'{help_}', 2)
        self.refuse('log', 'python3, which does this, cannot be started: No such file or directory; '
                    'install it (Debian: python3)', PATH=self.dir)
        os.symlink(sys.executable, self.path('python3'))
        self.refuse('log --plot a.svg', '--plot: gnuplot was not found in PATH; install it (Debian: gnuplot-nox) or '
                    'leave out --plot', PATH=self.dir)

    def picture(self, words, name='a.svg'):
        self.report(f'{words} --plot {name}')
        return re.findall('<text>(?:<tspan[^>]*>)?([^<]*)', self.text_of(name))

    @GNUPLOT
    def test_logs_are_drawn(self):
        two = {'ranks': 2, 'sent_bytes': 40e6}
        self.write_log('one')
        self.write_log("two''s", **two, batch=32)
        self.write_log('three', **two, staleness=[1, 2])
        self.write_log('cut', end=False)
        self.assertEqual(self.report('one cut --plot a.svg --plot b.png').err, '')
        with open(self.path('b.png'), 'rb') as file:
            self.assertEqual(file.read(4), b'\x89PNG')
        graphs = {'Time of a step', 'Bytes of a step of the busiest rank', 'Loss over time', 'Loss over bytes',
                  'Loss over epochs', 'Age of gradients'}
        for logs, missing in (("one two''s", {'Loss over epochs', 'Age of gradients'}),
                              ("three two''s", {'Bytes of a step of the busiest rank', 'Loss over bytes'}),
                              ('cut', graphs - {'Loss over time', 'Loss over epochs'})):
            texts = self.picture(logs)
            self.assertEqual(graphs - set(texts), missing)
        self.assertTrue({'one: allreduce, 1 rank, batch 64 samples', "two''s: allreduce, 2 ranks, batch 32 samples"}
                        <= set(self.picture("one two''s")))
        least, most = ({**EPOCH, 'seconds': number, 'train_loss': number} for number in (0, 10**18))
        self.write_lines('least', START, least, least, {**END, 'seconds': 0, 'staleness': [0]})
        self.write_lines('most', {**START, 'ranks': 10**18}, LOSS, *5000 * [most], {**END, 'seconds': 1e18, 'sent_bytes': 10**18,
                                                                                  'steps': 10**18, 'staleness': [10**18]})
        for logs in 'least', 'most', 'least most one':
            self.assertEqual(self.report(f'{logs} --plot a.svg').err, '')
        self.assertLess(os.path.getsize(self.path('a.svg')), 200000)
        self.write_lines('log', START, EPOCH)
        self.assertIn('found one epoch in each log and no end, expected more', self.report('log --plot a.svg', 1).err)

    @GNUPLOT
    def test_a_picture_is_whole_or_as_it_was(self):
        """By a limit of a file's size in place of a disk that is full."""
        self.write_log('log')
        self.write('picture', 'a picture')
        os.symlink('picture', self.path('a.svg'))
        limited = self.run_to_end('/bin/sh', '-c', 'ulimit -f 1; exec "$0" report log --plot a.svg', TRAIN, status=1, cwd=self.dir)
        self.assertIn('--plot: cannot write "a.svg": File too large; make space, or name another place', limited.err)
        self.assertEqual(self.text_of('a.svg'), 'a picture')
        self.report('log --plot a.svg')
        self.assertGreater(os.path.getsize(self.path('picture')), 10)
        self.assertEqual(sorted(os.listdir(self.dir)), ['a.svg', 'log', 'picture'])
        self.assertIn('--plot: nowhere/a.svg cannot be written; give a file', self.report('log --plot nowhere/a.svg', 1).err)

    @GNUPLOT
    def test_an_output_is_no_other_file(self):
        self.write_log('log.svg')
        self.refuse('log.svg --plot log.svg', '--plot: found log.svg, the file of a log, which would be overwritten; '
                                              'expected a file of its own: give another name')
        shutil.copyfile(DIGITS, self.path('data.svg'))
        os.mkdir(self.path('logs'))
        os.link(self.path('data.svg'), self.path('logs', 'allreduce.json'))
        os.link(self.path('data.svg'), self.path('logs', 'allreduce.out'))
        for options, words in (('--plot data.svg', '--plot: found data.svg, the file of --data'),
                               ('--logs logs', '--logs: found logs/allreduce.json, the file of --data'),
                               ('--logs logs --plot a.svg --plot ./a.svg', '--logs: found logs/allreduce.json')):
            job = self.run_to_end(TRAIN, 'compare', *f'--data data.svg --epochs 1 --modes allreduce {options}'.split(),
                                  status=1, cwd=self.dir)
            self.assertIn(words, job.err)
        os.unlink(self.path('logs', 'allreduce.json'))
        self.run_to_end(TRAIN, 'compare', *'--data data.svg --epochs 1 --modes allreduce --logs logs'.split(), cwd=self.dir)
        self.assertTrue(filecmp.cmp(DIGITS, self.path('data.svg'), shallow=False))

    def test_a_signal_ends_the_training_and_leaves_nothing(self):
        for number in signal.SIGTERM, signal.SIGINT:
            os.makedirs(self.path('temporary'), exist_ok=True)
            job = self.start(TRAIN, 'compare', '--data', DIGITS, '--epochs', '100000', '--modes', 'allreduce', cwd=self.dir,
                             TMPDIR=self.path('temporary'))
            job.await_text('1 of 1: allreduce', err=True)
            while not (logs := glob.glob(self.path('temporary', '*', '*.json'))) or not os.path.getsize(logs[0]):
                os.sched_yield()
            pids = [int(pid) for child in children_of(job.pid) for pid in (child, *children_of(child))]
            self.assertGreaterEqual(len(pids), 3)   # tutti-run and its ranks
            with ends_of(pids):
                job.send(number)
                self.finish(job, 128 + number)
            self.assertEqual(os.listdir(self.path('temporary')), [])

    def compare(self, options, status=0):
        """In a directory for files that nobody keeps, where nothing is left."""
        temporary = self.path('temporary')
        os.makedirs(temporary, exist_ok=True)
        job = self.run_to_end(TRAIN, 'compare', *f'--data {DIGITS} --epochs 2 {options}'.split(), status=status,
                              cwd=self.dir, TMPDIR=temporary)
        self.assertEqual(glob.glob(f'{temporary}/tutti-compare.*'), [])
        return job.said

    def test_values_of_a_way_may_have_commas(self):
        """And signs: what no letter follows is part of a value."""
        modes = ['local+every=10+outer=nesterov,0.7,0.9', 'allreduce+hidden=32,16+lr=1e+1', 'zero1+shares=1,.5', 'ps']
        self.assertEqual(modes_of(','.join(modes)), {
            modes[0]: ['local', 'every=10', 'outer=nesterov,0.7,0.9'], modes[1]: ['allreduce', 'hidden=32,16', 'lr=1e+1'],
            modes[2]: ['zero1', 'shares=1,.5'], 'ps': ['ps']})

    def test_ways_are_compared_in_one_command(self):
        said = self.compare('--logs logs --modes allreduce,pipeline+accumulate=2,local+every=3+outer=nesterov,0.7,0.9,ps')
        for words in 'allreduce +2', r'pipeline\+accumulate=2 +2', r'local\+every=3\+outer=nesterov,0.7,0.9 +2', 'ps +3':
            self.assertRegex(said, f'(?m)^{words} ')
        self.assertEqual(len(os.listdir(self.path('logs'))), 4)
        said = self.compare('--hidden 32,16 --modes allreduce+order=gpipe', 1)
        self.assertIn('found --order without --parallel', said)
        self.assertIn('allreduce+order=gpipe: the training failed, as said above', said)
        for options, why in (('--modes local,zero2', "--modes: found 'zero2' (did you mean zero1?), expected names"),
                             ('--modes local,', "--modes: found 'local,' (did you mean local?), expected names of --sync"),
                             ('--modes local/x', "--modes: found 'local/x' (did you mean local?), expected names of --sync"),
                             ('--modes local,local', 'expected at most 14 ways, each once'),
                             ('--modes local+json=x', 'expected other options behind the +'),
                             ('--save ck', 'found --save, which the trainings cannot have in common'),
                             ('--ranks 0', "--ranks: found '0', expected a whole number from 1 to 1024")):
            self.assertIn(why, self.compare(options, 2))


if __name__ == '__main__':
    unittest.main()
