#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Installs what is missing, builds tutti, and runs its tests. Ends with a line "N passed, N failed, N skipped".

  ./check                      what a change must pass to land: fifteen minutes on two cores, an hour at the most
  ./check --all [K/N]          every test, by hand: hours; or the K-th of N shards; results also go to check-results.tsv
  ./check [--all] SUITE...     these suites alone: {suites}

tests/lists says which tests are left to --all, and how tests are run. A test that failed is run again, alone, up to
twice, and every such try is reported. Reports of sanitizers, crashes, wrong results and exact tests are final.
"""
import contextlib
import fnmatch
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT_S = 3600                      # of a run without --all: what is not over by then has failed
TRIES = 3
MOST_FAILED, MOST_REPEATED = 3, 6   # more end a run without --all at once

BUILT = ('unit', 'ranks', 'programs', 'launchers', 'faults', 'python')
SANITIZED = ('-Dbuildtype=debugoptimized', '-Db_lundef=false', '-Dtools=enabled', '-Dbench=disabled',
             '-Dtrainer=disabled', '-Dcuda=disabled')   # the stand-in has kernels of its own
BUILDS = {                          # suite of tests of that build: its directory, its options
    '': ('build-check', ('-Dbuildtype=release', '-Dtools=enabled', '-Dbench=enabled', '-Dtrainer=enabled',
                         '-Dpeers=enabled')),
    'address': ('build-asan', ('-Db_sanitize=address,undefined', '-Dpython=enabled', *SANITIZED)),
    'thread': ('build-tsan', ('-Db_sanitize=thread', '-Dpython=disabled', *SANITIZED)),
}
SCRIPTS = {                         # minutes on two cores, command; what follows "bare" belongs to that suite
    'fuzz': (4, ['tests/fuzz/run', '--seconds', '60']),
    'rdma': (6, ['tests/rdma/run', '--build', 'build-check']),
    'torch': (8, ['tests/torch/run', '--build', 'build-check']),
    'engines': (2, ['tests/python/engines', '--build', 'build-check']),
    'aarch64': (4, ['tests/aarch64']),
    'bare': (12, ['tests/bare', 'programs', 'launchers', 'python']),
    'bare_python': (5, ['tests/python/bare']),
    'bare_debian': (5, ['tests/install/debian']),
}
MINUTES = {'address': 8, 'thread': 4}   # of suites that shards do not divide

REPORT = re.compile(r'ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error:')
CRASH = re.compile(r'signal (4|6|7|8|11)\b|SIG(ILL|ABRT|BUS|FPE|SEGV)\b|Segmentation fault|core dumped|'
                   r'stack smashing|double free|corrupted|Assertion .* failed')
WRONG = re.compile(r'element \d+ .*expected|(is|are|were) wrong\b|wrong (value|results)|written behind|'
                   r'byte \d+ behind')
PLACE = re.compile(r'\.(c|cpp|h|py):\d+|expected|error|Error|FAIL ')
NOISE = re.compile(r'^\s*$|^\[ *(RUN|OK|PASSED|FAILED|=+|-+) *\]|^Test suite')


class Over(Exception):
    """The run ends here; the text says why."""


def say(text):
    print(f'check: {text}', flush=True)


def names_of(name):
    """The names and patterns of the list tests/lists/NAME."""
    with open(os.path.join(CHECKOUT, 'tests', 'lists', name)) as file:
        return [line.strip() for line in file if line.strip() and not line.startswith('#')]


def commit():
    """The short name of the commit that is checked, where git and the history are there."""
    try:
        return subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], cwd=CHECKOUT, capture_output=True,
                              text=True).stdout.strip() or '-'
    except OSError:
        return '-'


@contextlib.contextmanager
def started(*args, **options):
    """A process that is over when this is, with all that it started; meson first ends its tests by itself."""
    process = subprocess.Popen(args, cwd=CHECKOUT, start_new_session=True, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def is_of(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def waited_for_cores():
    """The share of the last five minutes in which somebody waited for a core, where the kernel tells."""
    try:
        with open('/proc/pressure/cpu') as file:
            share = re.search(r'some.* avg300=([\d.]+)', file.read())
        return f'; in the last five minutes somebody waited for a core for {float(share[1]):.0f} % of the time'
    except (OSError, TypeError):
        return ''


def output_of(record):
    return f"{record.get('stdout') or ''}\n{record.get('stderr') or ''}"


def lines_of(record):
    return [line for line in output_of(record).splitlines() if not NOISE.match(line)]


def what_failed(record):
    """A line on a try that failed: how it ended, and the most telling line of its output."""
    lines = lines_of(record)
    telling = [line for line in lines if PLACE.search(line)] or lines
    return f"{record['result']}: {telling[-1].strip()[:200]}" if telling else record['result']


def why_final(record, exact):
    """Why no second try can excuse this failure; '' where one may."""
    output = output_of(record)
    if REPORT.search(output) or record.get('returncode') == 99:
        return 'a report of a sanitizer'
    if CRASH.search(output) or record['result'] == 'FAIL' and record.get('returncode', 0) < 0:
        return 'a crash'
    if WRONG.search(output):
        return 'a wrong result'
    if is_of(record['name'], exact):
        return 'an exact test'
    return ''


class Check:
    def __init__(self, everything, shard, suites):
        self.everything, self.shard, self.suites = everything, shard, suites
        self.begun = time.monotonic()
        self.passed, self.failed, self.skipped, self.repeated = [], [], [], []  # lines, but for `passed`
        self.tries_made = 0
        self.took = []
        self.results = os.path.join(CHECKOUT, 'check-results.tsv')
        self.exact = names_of('exact')
        self.commit = commit()

    # ---- time

    def left(self):
        """Seconds until the run must be over; None: there is no limit."""
        return None if self.everything else LIMIT_S - (time.monotonic() - self.begun)

    def ends_in_time(self, process):
        try:
            process.wait(self.left())
            return True
        except subprocess.TimeoutExpired:
            return False

    def command(self, *args, log=None):
        """The exit status of a command, whose output goes to `log` too, if there is one."""
        piped = {'stdout': subprocess.PIPE, 'stderr': subprocess.STDOUT} if log is not None else {}
        with started(*args, **piped) as process:
            for line in process.stdout or ():
                sys.stdout.buffer.write(line)
                sys.stdout.flush()
                log.append(line.decode(errors='replace').rstrip('\n'))
            if not self.ends_in_time(process):
                raise Over(f'{" ".join(args[:4])} was not over when the {LIMIT_S // 60} minutes of a run were')
        return process.returncode

    # ---- results

    def note(self, name, result, seconds, tries):
        """A line of the file of results, of runs with --all."""
        if not self.everything:
            return
        new = not os.path.exists(self.results)
        with open(self.results, 'a') as file:
            if new:
                file.write('date\tcommit\tname\tresult\tseconds\ttries\n')
            file.write(f'{time.strftime("%Y-%m-%dT%H:%M:%S")}\t{self.commit}\t{name}\t{result}\t{seconds:.1f}\t{tries}\n')

    def fail(self, name, text, lines=()):
        self.failed.append(f'failed: {name}: {text}' + ''.join(f'\n  {line}' for line in lines))
        if not self.everything and len(self.failed) >= MOST_FAILED:
            raise Over(f'{MOST_FAILED} tests failed')

    # ---- tests of a build

    def build(self, suite):
        directory, options = BUILDS[suite]
        if not suite and not self.everything:
            options += ('-Dcuda=disabled',)     # CUDA's compiler takes as long as all others
        elif not suite:
            options += ('-Dcuda=auto',)
        again = ['--reconfigure'] if os.path.exists(os.path.join(CHECKOUT, directory, 'build.ninja')) else []
        if self.command('meson', 'setup', *again, directory, '-Dtests=enabled', *options):
            raise Over(f'meson setup {directory} failed: what it said is above')
        if not suite and self.command('ninja', '-C', directory, '--quiet'):
            raise Over(f'{directory} could not be built: what the compiler said is above')

    def tests_of(self, directory, suites):
        listed = subprocess.run(['meson', 'test', '-C', directory, '--no-rebuild', '--list',
                                 *(f'--suite={suite}' for suite in suites)],
                                cwd=CHECKOUT, capture_output=True, text=True).stdout
        return re.findall(r'^(?:\S+ / )?(\S+)$', listed, re.MULTILINE)

    def meson_test(self, directory, names, at_once, rebuild):
        """The records that meson leaves of these tests, by name, and whether they were over in time."""
        log = os.path.join(CHECKOUT, directory, 'meson-logs', 'testlog.json')
        if os.path.exists(log):
            os.unlink(log)
        failures = [] if self.everything else ['--maxfail', str(MOST_REPEATED + 1)]
        with started('meson', 'test', '-C', directory, '--num-processes', str(at_once), '--print-errorlogs',
                     *([] if rebuild else ['--no-rebuild']), *failures, *(['-t', '2'] if self.everything else []),
                     *names) as process:
            in_time = self.ends_in_time(process)
        if not os.path.exists(log):
            raise Over(f'no test of {directory} was run: what meson said is above')
        with open(log) as file:
            records = [json.loads(line) for line in file]
        for record in records:
            record['name'] = record['name'].split(' / ')[-1]
        return {record['name']: record for record in records}, in_time

    def repeat(self, directory, label, record):
        """Runs a test again that failed, alone, until it passes or all tries are made."""
        name, first = record['name'], what_failed(record)
        self.tries_made += 1
        if not self.everything and self.tries_made > MOST_REPEATED:
            self.fail(label, first, lines_of(record)[-20:])
            raise Over(f'more than {MOST_REPEATED} tests failed and would have to be run again')
        for number in range(2, TRIES + 1):
            say(f'try {number} of {label}, alone')
            records, in_time = self.meson_test(directory, [name], 1, False)
            record = records.get(name, record)
            if record['result'] in ('OK', 'EXPECTEDFAIL'):
                self.repeated.append(f'passed on try {number}, alone: {label} (try 1: {first})')
                self.passed.append(label)
                return self.note(label, 'passed', record['duration'], number)
            if not in_time or why_final(record, self.exact):
                break
        self.note(label, 'failed', record['duration'], number)
        self.fail(label, f'{what_failed(record)}; {number} tries', lines_of(record)[-30:])

    def judge(self, directory, label, record):
        result, seconds = record['result'], record['duration']
        if result in ('OK', 'EXPECTEDFAIL'):
            self.passed.append(label)
            self.note(label, 'passed', seconds, 1)
        elif result == 'SKIP':
            reason = lines_of(record)[-1:] or ['it does not say why']
            self.skipped.append(f'skipped: {label}: {reason[0]}')
            self.note(label, 'skipped', seconds, 1)
        elif why_final(record, self.exact):
            self.note(label, 'failed', seconds, 1)
            self.fail(label, f'{what_failed(record)}; {why_final(record, self.exact)}: not run again',
                      lines_of(record)[-30:])
        else:
            self.repeat(directory, label, record)

    def run(self, directory, names, at_once, prefix='', rebuild=False):
        if not names:
            return
        records, in_time = self.meson_test(directory, names, at_once, rebuild)
        not_run = []
        for name in names:
            record = records.get(name)
            if record and record['result'] != 'INTERRUPT':
                self.judge(directory, prefix + name, record)
            else:
                not_run.append(prefix + name)
        if not_run and not in_time:
            self.failed += [f'failed: {name}: not over when the {LIMIT_S // 60} minutes of a run were'
                            for name in not_run]
            raise Over(f'the {LIMIT_S // 60} minutes of a run are over')
        if not_run:
            raise Over(f'{len(not_run)} tests were not run, as too many had failed or the build had')

    # ---- stages

    def of_shard(self, units):
        """Those of the (minutes, name) that this shard has: the longest first, each to the shard with the least."""
        if not self.shard:
            return [name for _, name in units]
        mine, (k, n) = [], self.shard
        minutes = [0.0] * n
        for cost, name in sorted(units, key=lambda unit: (-unit[0], unit[1])):
            least = minutes.index(min(minutes))
            minutes[least] += cost
            if least == k - 1:
                mine.append(name)
        return mine

    def plan(self):
        """Tests of the main build, then suites, of those that this run has."""
        directory = BUILDS[''][0]
        built = [suite for suite in BUILT if suite in self.suites]
        tests = self.tests_of(directory, built) if built else []
        long = names_of('long')
        if set(BUILT) <= set(self.suites):
            for name in ('long', 'waiting'):
                for pattern in names_of(name):
                    if not any(fnmatch.fnmatchcase(test, pattern) for test in tests):
                        say(f'no test of this build is called "{pattern}", which tests/lists/{name} names')
        if not self.everything:
            tests = [name for name in tests if not is_of(name, long)]
        units = [(1 if is_of(name, long) else 0.1, name) for name in tests]
        units += [(SCRIPTS[suite][0] if suite in SCRIPTS else MINUTES[suite], f'suite {suite}')
                  for suite in self.suites if suite not in BUILT]
        mine = self.of_shard(units)
        return [name for name in tests if name in set(mine)], [name[6:] for name in mine if name.startswith('suite ')]

    def stage(self, name, function, *args):
        say(f'{name}')
        begun = time.monotonic()
        try:
            function(*args)
        finally:
            self.took.append(f'{time.monotonic() - begun:.0f} s {name}')

    def sanitized(self, suite):
        self.build(suite)
        names = names_of(suite)
        if self.everything and suite == 'address':
            names += names_of('address-long')
        self.run(BUILDS[suite][0], names, 3, f'{suite}: ', rebuild=True)

    def script(self, suite):
        """A script that is a test: it ends with 0, with 77 and a reason in its last line, or it failed."""
        begun, log = time.monotonic(), []
        status = self.command(*SCRIPTS[suite][1], log=log)
        seconds = time.monotonic() - begun
        if status == 0:
            self.passed.append(suite)
        elif status == 77:
            self.skipped.append(f'skipped: {suite}: {log[-1] if log else ""}')
        else:
            named = [line for line in log[:-40] if 'FAILED' in line]
            self.fail(suite, f'status {status}', named + log[-40:])
        self.note(suite, {0: 'passed', 77: 'skipped'}.get(status, 'failed'), seconds, 1)

    def stages(self):
        directory = BUILDS[''][0]
        self.stage('install', self.install)
        self.stage('build', self.build, '')
        tests, suites = self.plan()
        waiting = names_of('waiting')
        self.stage('tests that wait', self.run, directory, [name for name in tests if is_of(name, waiting)], 4)
        self.stage('tests', self.run, directory, [name for name in tests if not is_of(name, waiting)], 2)
        for suite in suites:
            self.stage(suite, self.script if suite in SCRIPTS else self.sanitized, suite)

    def install(self):
        more = ['all'] if self.everything or set(self.suites) & set(SCRIPTS) else []
        if self.command('.ci/install', 'build', 'tools', 'test', *more):
            raise Over('packages could not be installed: the reason is above')

    def report(self, over):
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        say('took ' + ', '.join(self.took))
        say(f'{(time.monotonic() - self.begun) / 60:.1f} minutes, {(used.ru_utime + used.ru_stime) / 60:.1f} of '
            f'processors{waited_for_cores()}')
        for line in self.skipped + self.failed + self.repeated:
            print(line)
        if over:
            print(f'check: the run ended early: {over}')
            self.failed = self.failed or [over]
        if self.repeated:
            print(f'{len(self.repeated)} on a second try')
        print(f'{len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped', flush=True)
        return 1 if self.failed else 0


def arguments(args):
    """Whether everything is to be run, the shard, and the suites."""
    known = [*BUILT, 'address', 'thread', *SCRIPTS]
    everything, shard, suites = False, None, []
    for arg in args:
        of = re.fullmatch(r'(\d+)/(\d+)', arg)
        if arg in ('-h', '--help'):
            print(__doc__.format(suites=' '.join(known)).strip())
            sys.exit(0)
        if arg == '--all':
            everything = True
        elif of and everything and 1 <= int(of[1]) <= int(of[2]):
            shard = (int(of[1]), int(of[2]))
        elif arg in known:
            suites.append(arg)
        else:
            print(f'check: found "{arg}", expected --all, after it perhaps a shard as 2/5, and suites, some of: '
                  f'{" ".join(known)}', file=sys.stderr)
            sys.exit(2)
    if not suites:
        suites = known if everything else [*BUILT, 'address']
    if not everything:
        # the same input each time, and bounds of time for a machine on which much else runs
        os.environ.update(TEST_SEEDS='fixed', MALLOC_PERTURB_='165', TEST_PATIENCE='10')
    return everything, shard, suites


def main():
    check, over = Check(*arguments(sys.argv[1:])), ''
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        check.stages()
    except Over as reason:
        over = str(reason)
    except KeyboardInterrupt:
        over = 'it was interrupted'
    return check.report(over)


if __name__ == '__main__':
    sys.exit(main())
