#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What ./check makes of tests that fail: test_check.py CHECK.PY LISTS [Tries|Ends]

Each case is a project of its own whose tests do what their names say, run by the real check.py and by Meson."""
import os
import shutil
import signal
import sys
import unittest

from launched import ProgramTest, arguments, state_of

CHECK, LISTS = arguments(2)

# `once` fails on its first run, `crash` in each; how often each has run stands in a file of its name
TEST = '''#!/usr/bin/env bash
name=${1%%-*}
echo >>"$RUNS/$1"
case $name in
passes) ;;
skips) echo 'skipped: there is no such device'; exit 77 ;;
once) [ "$(wc -l <"$RUNS/$1")" -gt 1 ] || { echo 'once.c:7: told after 3.2 s, expected 1'; exit 1; } ;;
never | format) echo 'never.c:9: told after 9 s, expected 1'; exit 1 ;;
crash) kill -SEGV $$ ;;
wrong) echo 'element 3 is 1, expected 2'; exit 1 ;;
fold) echo 'values.c:3: byte 3 is 1f, expected 20'; exit 1 ;;
sum) echo 'grow.c:9: rank 1 of 2: the sum is 7, expected 10'; exit 1 ;;
report) echo '==7==ERROR: AddressSanitizer: heap-use-after-free'; exit 1 ;;
hidden) echo 'a.c:7: runtime error: signed integer overflow' ;;
hangs) echo $$ >"$RUNS/pid"; exec tail -f /dev/null ;;
esac
'''
MESON = '''project('tutti', meson_version: '>=1.0.0')
does = find_program('does')
foreach name : [{names}]
  test(name, does, args: name, suite: 'unit', env: {{'RUNS': '{runs}'}}, timeout: 180)
endforeach
'''
OPTIONS = '\n'.join(f"option('{name}', type: 'feature')"
                    for name in ('tests', 'tools', 'bench', 'trainer', 'peers', 'cuda'))


class Case(ProgramTest):
    def project(self, *names):
        """In self.dir, with tests of these names."""
        shutil.copytree(LISTS, self.path('tests/lists'))
        shutil.copy(CHECK, self.path('tests'))
        os.mkdir(self.path('runs'))
        meson = MESON.format(names=', '.join(map(repr, names)), runs=self.path('runs'))
        for name, text in (('.ci/install', '#!/bin/sh\n'), ('does', TEST), ('meson.build', meson),
                           ('meson_options.txt', OPTIONS)):
            self.write(name, text, mode=0o755)

    def begin(self, *args, until=None, enough=3):
        """`until`: a file; the run has no more time when it is there. `enough`: failures that end a run."""
        program = f'import check, os, sys\ncheck.ENOUGH_FAILED = {enough}\n'
        if until:
            there = f'os.path.exists({self.path(until)!r})'
            program += f'check.Check.left = lambda self: 0 if {there} else 60\n'
        program += 'sys.exit(check.main())'
        return self.start(sys.executable, '-c', program, *args, PYTHONPATH=self.path('tests'),
                          PYTHONDONTWRITEBYTECODE=1)

    def ended(self, run, last, status=1):
        """What it wrote until its end, of which the last line counts."""
        self.finish(run, status)
        self.assertEqual(run.out.splitlines()[-1], last, run.out)
        return run.out

    def check(self, *args, last, status=1, **options):
        return self.ended(self.begin(*args, **options), last, status)

    def lines_of(self, *names):
        if not os.path.exists(self.path(*names)):
            return []
        with open(self.path(*names)) as file:
            return file.read().splitlines()

    def runs(self, name):
        return len(self.lines_of('runs', name))


class Tries(Case):
    def test_a_failed_test_is_tried_again_alone_up_to_twice(self):
        self.project('passes', 'skips', 'once', 'never')
        out = self.check('unit', last='2 passed, 1 failed, 1 skipped')
        for line in ('passed on try 2, alone: once (try 1: FAIL: once.c:7: told after 3.2 s, expected 1)',
                     '1 on a second try', 'skipped: skips: skipped: there is no such device',
                     'failed: never: FAIL: never.c:9: told after 9 s, expected 1; 3 tries'):
            self.assertIn(f'\n{line}\n', out)
        self.assertEqual([self.runs(name) for name in ('passes', 'once', 'never')], [1, 2, 3])

    def test_some_failures_are_final(self):
        why = {'crash': 'a crash', 'format': 'an exact test', 'wrong': 'a wrong result', 'fold': 'a wrong result',
               'sum': 'a wrong result', 'report': 'a report of a sanitizer', 'hidden': 'a report of a sanitizer'}
        self.project(*why)  # hidden: one of a test that ends with 0
        out = self.check('unit', enough=len(why) + 1,
                         last=f'0 passed, {len(why)} failed, 0 skipped')
        for name, text in why.items():
            self.assertRegex(out, rf'\nfailed: {name}: .*{text}: not tried again\n')
            self.assertEqual(self.runs(name), 1)

    def test_shards_are_all_tests_once_and_go_on_after_failures(self):
        names = [f'passes-{i}' for i in range(7)] + [f'crash-{i}' for i in range(4)] + ['once']
        self.project(*names)
        for shard in ('1/3', '2/3', '3/3'):
            self.begin('--all', shard, 'unit').finish()
        rows = [line.split('\t') for line in self.lines_of('check-results.tsv')]
        self.assertEqual(rows[0], ['date', 'commit', 'name', 'result', 'seconds', 'tries'])
        self.assertEqual(sorted(row[2] for row in rows[1:]), sorted(names))
        self.assertEqual({row[2]: (row[3], row[5]) for row in rows[1:] if row[2] in ('once', 'crash-1')},
                         {'once': ('passed', '2'), 'crash-1': ('failed', '1')})

    def test_what_a_script_leaves_out_is_skipped(self):
        self.project()
        said = 'skipped: musl: half of it: there is no such device'
        self.write('tests/musl', f"#!/bin/sh\necho '{said}'\n", mode=0o755)
        self.check('musl', last='1 passed, 0 failed, 1 skipped', status=0)

    def test_arguments_that_nobody_knows_are_refused(self):
        self.project()
        for args in (['units'], ['--all', '4/3'], ['1/3']):
            run = self.begin(*args)
            self.finish(run, 2)
            self.assertRegex(run.err, f'^check: found "{args[-1]}", expected --all')


class Ends(Case):
    def test_three_failures_end_a_run(self):
        self.project(*(f'crash-{i}' for i in range(5)), 'hangs')
        run = self.begin('unit')
        self.finish(run, 1)
        self.assertIn('\ncheck: the run ended early: 3 failures, or more than 6', run.out)

    def test_a_seventh_test_to_repeat_ends_a_run(self):
        self.project(*(f'once-{i}' for i in range(8)), 'hangs')
        run = self.begin('unit')
        self.finish(run, 1)
        self.assertEqual(self.runs('once-0'), 1)
        self.assertIn('\nfailed: once-0: FAIL: once.c:7: told after 3.2 s, expected 1; '
                      'not tried again, as the run ends', run.out)

    def test_what_is_not_over_in_time_has_failed_by_name(self):
        self.project('passes', 'once', 'hangs')
        out = self.check('unit', until='runs/pid', last='1 passed, 2 failed, 0 skipped')
        self.assertIn('\nfailed: hangs: not over when', out)
        self.assertIn('\nfailed: once: FAIL: once.c:7', out)

    def test_who_interrupts_a_run_leaves_nothing_behind(self):
        self.project('hangs')
        run = self.begin('unit')
        while not self.runs('pid') and run.process.poll() is None:
            os.sched_yield()
        pid, = self.lines_of('runs/pid')
        run.send(signal.SIGINT)
        out = self.ended(run, '0 passed, 1 failed, 0 skipped')
        self.assertIn('check: the run ended early: it was interrupted\n', out)
        self.assertEqual(state_of(pid), '')


if __name__ == '__main__':
    unittest.main()
