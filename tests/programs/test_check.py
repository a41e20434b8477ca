#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What ./check makes of tests that fail: test_check.py CHECK.PY LISTS [Tries|Ends]

Each case is a project of its own whose tests do what their names say, run by the real check.py and by Meson."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

CHECK, LISTS = sys.argv[1:3]  # the rest is for unittest

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


class Project:
    def __init__(self, root, names):
        self.root = pathlib.Path(root)
        for path in ('.ci', 'runs', 'tests'):
            (self.root / path).mkdir()
        shutil.copy(CHECK, self.root / 'tests')
        shutil.copytree(LISTS, self.root / 'tests/lists')
        for path, text in (('.ci/install', '#!/bin/sh\n'), ('does', TEST), ('meson_options.txt', OPTIONS), (
                'meson.build', MESON.format(names=', '.join(map(repr, names)), runs=self.root / 'runs'))):
            (self.root / path).write_text(text)
            (self.root / path).chmod(0o755)

    def start(self, *args, until=None, enough=3):
        """`until`: a file; the run has no more time when it is there. `enough`: failures that end a run."""
        program = f'import check, os, sys\ncheck.ENOUGH_FAILED = {enough}\n'
        if until:
            program += f'check.Check.left = lambda self: 0 if os.path.exists({str(self.root / until)!r}) else 60\n'
        program += 'sys.exit(check.main())'
        return subprocess.Popen([sys.executable, '-c', program, *args], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True,
                                env=dict(os.environ, PYTHONPATH=str(self.root / 'tests'), PYTHONDONTWRITEBYTECODE='1'))

    def finish(self, process):
        """The exit status and the output of a run, of which the last line counts."""
        self.output = process.communicate()[0]
        self.status, self.last = process.returncode, self.output.splitlines()[-1]

    def check(self, *args, **options):
        self.finish(self.start(*args, **options))

    def runs(self, name):
        file = self.root / 'runs' / name
        return len(file.read_text().splitlines()) if file.exists() else 0


class Case(unittest.TestCase):
    def project(self, *names):
        root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, root)
        return Project(root, names)

    def has(self, project, text):
        self.assertIn(text, project.output)


class Tries(Case):
    def test_a_failed_test_is_tried_again_alone_up_to_twice(self):
        p = self.project('passes', 'skips', 'once', 'never')
        p.check('unit')
        self.assertEqual((p.status, p.last), (1, '2 passed, 1 failed, 1 skipped'), p.output)
        self.has(p, '\npassed on try 2, alone: once (try 1: FAIL: once.c:7: told after 3.2 s, expected 1)\n')
        self.has(p, '\n1 on a second try\n')
        self.has(p, '\nskipped: skips: skipped: there is no such device\n')
        self.has(p, '\nfailed: never: FAIL: never.c:9: told after 9 s, expected 1; 3 tries\n')
        self.assertEqual([p.runs(name) for name in ('passes', 'once', 'never')], [1, 2, 3])

    def test_some_failures_are_final(self):
        why = {'crash': 'a crash', 'format': 'an exact test', 'wrong': 'a wrong result', 'fold': 'a wrong result',
               'sum': 'a wrong result', 'report': 'a report of a sanitizer', 'hidden': 'a report of a sanitizer'}
        p = self.project(*why)  # hidden: one of a test that ends with 0
        p.check('unit', enough=len(why) + 1)
        self.assertEqual((p.status, p.last), (1, f'0 passed, {len(why)} failed, 0 skipped'), p.output)
        for name, text in why.items():
            self.assertRegex(p.output, rf'\nfailed: {name}: .*{text}: not tried again\n')
            self.assertEqual(p.runs(name), 1)

    def test_shards_are_all_tests_once_and_go_on_after_failures(self):
        names = [f'passes-{i}' for i in range(7)] + [f'crash-{i}' for i in range(4)] + ['once']
        p = self.project(*names)
        for shard in ('1/3', '2/3', '3/3'):
            p.check('--all', shard, 'unit')
        rows = [line.split('\t') for line in (p.root / 'check-results.tsv').read_text().splitlines()]
        self.assertEqual(rows[0], ['date', 'commit', 'name', 'result', 'seconds', 'tries'])
        self.assertEqual(sorted(row[2] for row in rows[1:]), sorted(names))
        self.assertEqual({row[2]: (row[3], row[5]) for row in rows[1:] if row[2] in ('once', 'crash-1')},
                         {'once': ('passed', '2'), 'crash-1': ('failed', '1')})

    def test_what_a_script_leaves_out_is_skipped(self):
        p = self.project()
        script = p.root / 'tests/musl'
        script.write_text("#!/bin/sh\necho 'skipped: musl: half of it: there is no such device'\n")
        script.chmod(0o755)
        p.check('musl')
        self.assertEqual((p.status, p.last), (0, '1 passed, 0 failed, 1 skipped'), p.output)

    def test_arguments_that_nobody_knows_are_refused(self):
        for args in (['units'], ['--all', '4/3'], ['1/3']):
            p = self.project()
            p.check(*args)
            self.assertEqual(p.status, 2)
            self.assertTrue(re.match(f'check: found "{args[-1]}", expected --all', p.output), p.output)


class Ends(Case):
    def test_three_failures_end_a_run(self):
        p = self.project(*(f'crash-{i}' for i in range(5)), 'hangs')
        p.check('unit')
        self.assertEqual(p.status, 1)
        self.has(p, '\ncheck: the run ended early: 3 failures, or more than 6')

    def test_a_seventh_test_to_repeat_ends_a_run(self):
        p = self.project(*(f'once-{i}' for i in range(8)), 'hangs')
        p.check('unit')
        self.assertEqual((p.status, p.runs('once-0')), (1, 1), p.output)
        self.has(p, '\nfailed: once-0: FAIL: once.c:7: told after 3.2 s, expected 1; not tried again, as the run ends')

    def test_what_is_not_over_in_time_has_failed_by_name(self):
        p = self.project('passes', 'once', 'hangs')
        p.check('unit', until='runs/pid')
        self.assertEqual((p.status, p.last), (1, '1 passed, 2 failed, 0 skipped'), p.output)
        self.has(p, '\nfailed: hangs: not over when')
        self.has(p, '\nfailed: once: FAIL: once.c:7')

    def test_who_interrupts_a_run_leaves_nothing_behind(self):
        p = self.project('hangs')
        process = p.start('unit')
        self.addCleanup(process.send_signal, signal.SIGINT)
        while not p.runs('pid') and process.poll() is None:
            os.sched_yield()
        pid = (p.root / 'runs/pid').read_text().strip()
        process.send_signal(signal.SIGINT)
        p.finish(process)
        self.assertEqual((p.status, p.last), (1, '0 passed, 1 failed, 0 skipped'), p.output)
        self.has(p, 'check: the run ended early: it was interrupted\n')
        self.assertFalse(pathlib.Path('/proc', pid).exists())


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
