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
import threading
import time

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT_S = 3600                      # of a run without --all: what is not over by then has failed
TRIES = 3
ENOUGH_FAILED, MOST_REPEATED = 3, 6  # so many failures, or more to be tried again, end a run without --all at once
PATIENCE = '10'                     # tests/patience.h

BUILT = ('unit', 'ranks', 'programs', 'launchers', 'faults', 'python')
# what compiles in half of the time of -O2 -g, runs a fifth longer, and names the same lines
SANITIZED = ('-Ddebug=true', '-Doptimization=1', '-Dc_args=-g1', '-Db_lundef=false', '-Dtools=enabled', '-Dbench=disabled',
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
    'torch': (25, ['tests/torch/run', '--build', 'build-check']),
    'engines': (2, ['tests/python/engines', '--build', 'build-check']),
    'aarch64': (25, ['tests/aarch64']),
    'musl': (2, ['tests/musl']),
    'old': (12, ['tests/old']),
    'bare': (12, ['tests/bare', 'programs', 'launchers', 'python']),
    'bare_python': (5, ['tests/python/bare']),
    'bare_debian': (8, ['tests/install/debian']),
}
MINUTES = {'address': 8, 'thread': 4}   # of suites that shards do not divide

REPORT = re.compile(r'ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error:')
CRASH = re.compile(r'signal (4|6|7|8|11)\b|SIG(ILL|ABRT|BUS|FPE|SEGV)\b|Segmentation fault|core dumped|'
                   r'stack smashing|double free|corrupted|Assertion .* failed')
WRONG = re.compile(r'\b(element|byte|number) \d+\b.*expected|, the left fold|the sum is |Mismatched elements|'
                   r'(is|are|were) wrong\b|wrong (value|results)')
# what meson says of a test, and of one that failed
SAID = re.compile(r'^ *\d+/\d+ (?:\S+ / )?(\S+) +([A-Z]+) ')
BAD = ('FAIL', 'TIMEOUT', 'ERROR', 'UNEXPECTEDPASS')
STATUS = re.compile(r'(exit status |killed by signal )(\d+)')
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
    """A process that is over when this is, with all of its group; meson ends its tests by itself."""
    process = subprocess.Popen(args, cwd=CHECKOUT, start_new_session=True, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def copy(source, log):
    """Lines that somebody writes, to our output and to a list."""
    for line in source:
        sys.stdout.buffer.write(line)
        sys.stdout.flush()
        log.append(line.decode(errors='replace').rstrip('\n'))


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
    """Why no second try can excuse this failure; '' where one may. A test that has not ended may have had no core."""
    output = output_of(record)
    if REPORT.search(output) or record.get('returncode') == 99:
        return 'a report of a sanitizer'
    if CRASH.search(output) or record['result'] == 'FAIL' and record.get('returncode', 0) < 0:
        return 'a crash'
    if WRONG.search(output):
        return 'a wrong result'
    if record['result'] == 'UNEXPECTEDPASS':
        return 'it passed and was to fail'
    if record['result'] != 'TIMEOUT' and is_of(record['name'], exact):
        return 'an exact test'
    return ''


def has_passed(record):
    return record['result'] in ('OK', 'EXPECTEDFAIL') and not REPORT.search(output_of(record))


def records_of(log):
    """What meson has written of its tests until now, by name; a line may not be whole yet."""
    records = {}
    if os.path.exists(log):
        with open(log, errors='replace') as file:
            for line in file:
                with contextlib.suppress(ValueError):
                    record = json.loads(line)
                    record['name'] = record['name'].split(' / ')[-1]
                    records[record['name']] = record
    return records


def records_said(lines):
    """The same of tests that have failed, of the lines that meson has printed: its file may be written much later."""
    records, record = {}, None
    for line in lines:
        said = SAID.match(line)
        if said and said[2] in BAD:
            status = STATUS.search(line)
            record = records[said[1]] = {
                'name': said[1], 'result': said[2], 'stdout': '',
                'returncode': int(status[2]) * (1 if status[1].startswith('exit') else -1) if status else 0}
        elif said:
            record = None
        elif record:
            record['stdout'] += line + '\n'
    return records


class Check:
    def __init__(self, everything, shard, suites):
        self.everything, self.shard, self.suites = everything, shard, suites
        self.begun = time.monotonic()
        self.passed, self.failed, self.skipped, self.repeated = [], [], [], []  # lines, but for `passed`
        self.tried_again = 0
        self.took = []
        self.results = os.path.join(CHECKOUT, 'check-results.tsv')
        self.exact = names_of('exact')
        self.commit = commit()

    # ---- time

    def left(self):
        """Seconds until the run must be over; None: there is no limit."""
        return None if self.everything else LIMIT_S - (time.monotonic() - self.begun)

    def follow(self, *args, enough=lambda lines: False):
        """The exit status of a command, the lines of its output, which is ours, too, and whether it ended by itself."""
        lines, in_time = [], True
        with started(*args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                     env=dict(os.environ, PYTHONUNBUFFERED='1')) as process:
            reader = threading.Thread(target=copy, args=(process.stdout, lines), daemon=True)
            reader.start()
            while process.poll() is None and in_time:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1)
                in_time = not enough(lines) and (self.left() is None or self.left() > 0)
        reader.join(10)     # who left the group may still have the pipe
        return process.returncode, lines, in_time

    def command(self, *args):
        """The exit status of a command, and its output."""
        status, lines, in_time = self.follow(*args)
        if not in_time:
            raise Over(f'{" ".join(args[:4])} was not over when the {LIMIT_S // 60} minutes of a run were')
        return status, lines

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

    def succeed(self, name, seconds, tries):
        self.passed.append(name)
        self.note(name, 'passed', seconds, tries)

    def skip(self, name, reason, seconds):
        self.skipped.append(f'skipped: {name}: {reason}')
        self.note(name, 'skipped', seconds, 1)

    def fail(self, name, text, lines=(), seconds=0, tries=1):
        self.failed.append(f'failed: {name}: {text}' + ''.join(f'\n  {line}' for line in lines))
        self.note(name, 'failed', seconds, tries)

    def fail_test(self, label, record, why, tries=1):
        self.fail(label, f'{what_failed(record)}; {why}', lines_of(record)[-30:], record['duration'], tries)

    # ---- tests of a build

    def build(self, suite):
        directory, options = BUILDS[suite]
        if not suite:   # CUDA's compiler takes as long as all others
            options += ('-Dcuda=auto' if self.everything else '-Dcuda=disabled',)
        again = ['--reconfigure'] if os.path.exists(os.path.join(CHECKOUT, directory, 'build.ninja')) else []
        if self.command('meson', 'setup', *again, directory, '-Dtests=enabled', *options)[0]:
            raise Over(f'meson setup {directory} failed: what it said is above')
        if not suite and self.command('ninja', '-C', directory, '--quiet')[0]:
            raise Over(f'{directory} could not be built: what the compiler said is above')

    def tests_of(self, directory, suite):
        listed = subprocess.run(['meson', 'test', '-C', directory, '--no-rebuild', '--list', f'--suite={suite}'],
                                cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        tests = re.findall(r'^(?:\S+ / )?(\S+)$', listed.stdout, re.MULTILINE)
        if listed.returncode or not tests:
            raise Over(f'{directory} has no tests of the suite {suite}: what they need may not be installed')
        return tests

    def is_enough(self, final, bad):
        """Whether so many tests have failed, or would have to be tried again, that the run ends."""
        return not self.everything and (len(self.failed) + final >= ENOUGH_FAILED or
                                        self.tried_again + bad - final > MOST_REPEATED)

    def meson_test(self, directory, names, at_once, rebuild=False, alone=False):
        """The records of these tests, by name, as far as they were run, and whether the run may go on."""
        log = os.path.join(CHECKOUT, directory, 'meson-logs', 'testlog.json')
        if os.path.exists(log):
            os.unlink(log)

        def enough(lines):
            bad = records_said(lines).values()
            return self.is_enough(sum(bool(why_final(record, self.exact)) for record in bad), len(bad))

        patience = ['-t', '4' if rebuild else '2'] if self.everything else []
        _, _, in_time = self.follow('meson', 'test', '-C', directory, '--num-processes', str(at_once),
                                    '--print-errorlogs', *([] if rebuild else ['--no-rebuild']), *patience, *names,
                                    enough=(lambda lines: False) if alone else enough)
        return records_of(log), in_time

    def repeat(self, directory, label, record):
        """Runs a test again that failed, alone, until it passes or all tries are made."""
        first, number = what_failed(record), 1
        self.tried_again += 1
        while number < TRIES and not why_final(record, self.exact):
            number += 1
            say(f'try {number} of {label}, alone')
            records, in_time = self.meson_test(directory, [record['name']], 1, alone=True)
            record = records.get(record['name'], record)
            if has_passed(record):
                self.repeated.append(f'passed on try {number}, alone: {label} (try 1: {first})')
                return self.succeed(label, record['duration'], number)
            if not in_time:
                break
        self.fail_test(label, record, f'{number} tries', number)

    def run(self, directory, names, at_once, prefix='', rebuild=False):
        if not names:
            return
        records, in_time = self.meson_test(directory, names, at_once, rebuild)
        if not records:
            raise Over(f'no test of {directory} was run: what meson said is above')
        again, not_run = [], []
        for name in names:
            record, label = records.get(name), prefix + name
            if not record or record['result'] == 'INTERRUPT':
                not_run.append(label)
            elif has_passed(record):
                self.succeed(label, record['duration'], 1)
            elif record['result'] == 'SKIP' and not REPORT.search(output_of(record)):
                self.skip(label, (lines_of(record)[-1:] or ['it does not say why'])[0], record['duration'])
            elif why_final(record, self.exact):
                self.fail_test(label, record, f'{why_final(record, self.exact)}: not tried again')
            else:
                again.append((label, record))
        goes_on = in_time and not self.is_enough(0, len(again))
        while again and goes_on:
            self.repeat(directory, *again.pop(0))
            goes_on = self.everything or len(self.failed) < ENOUGH_FAILED
        for label, record in again:
            self.fail_test(label, record, 'not tried again, as the run ends')
        self.end_early(not_run, goes_on)

    def end_early(self, not_run, goes_on):
        """Ends the run where tests were not run, or enough has failed."""
        if self.left() is not None and self.left() <= 0:
            for label in not_run:
                self.fail(label, f'not over when the {LIMIT_S // 60} minutes of a run were')
            raise Over(f'the {LIMIT_S // 60} minutes of a run are over')
        if not goes_on:
            raise Over(f'{ENOUGH_FAILED} failures, or more than {MOST_REPEATED} tests to be tried again, are enough; '
                       f'{len(not_run)} tests of this stage were not run')
        for label in not_run:
            self.fail(label, 'not run: what meson said is above')

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

    def plan(self, directory):
        """Tests of the main build, then suites, of those that this run has."""
        tests = [name for suite in BUILT if suite in self.suites for name in self.tests_of(directory, suite)]
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
        mine = set(self.of_shard(units))
        suites = [suite for suite in self.suites if f'suite {suite}' in mine]
        return [name for name in tests if name in mine], suites

    def stage(self, name, function, *args):
        """With --all what ends one stage does not end the others."""
        say(name)
        begun = time.monotonic()
        try:
            function(*args)
        except Over as reason:
            if not self.everything or function in (self.install, self.build):
                raise
            self.fail(name, str(reason))
        finally:
            self.took.append(f'{time.monotonic() - begun:.0f} s {name}')

    def sanitized(self, suite):
        self.build(suite)
        names = names_of(suite)
        if self.everything and suite == 'address':
            names += names_of('address-long')
        self.run(BUILDS[suite][0], names, 3, f'{suite}: ', rebuild=True)

    def script(self, suite):
        """A script that is a test: it ends with 0, with 77 and a reason in its last line, or it failed. A line
        "skipped: SUITE: …" says what it left out."""
        begun = time.monotonic()
        status, log = self.command(*SCRIPTS[suite][1])
        seconds = time.monotonic() - begun
        if status == 0:
            self.succeed(suite, seconds, 1)
            for left_out in [line for line in log if line.startswith(f'skipped: {suite}: ')]:
                self.skip(suite, left_out.split(': ', 2)[2], 0)
        elif status == 77:
            self.skip(suite, log[-1] if log else 'it does not say why', seconds)
        else:
            named = [line for line in log[:-40] if 'FAILED' in line]
            self.fail(suite, f'status {status}', named + log[-40:], seconds)

    def stages(self):
        directory = BUILDS[''][0]
        self.stage('install', self.install)
        if any(suite in BUILT or '--build' in SCRIPTS.get(suite, (0, ()))[1] for suite in self.suites):
            self.stage('build', self.build, '')
        tests, suites = self.plan(directory)
        waiting = names_of('waiting')
        self.stage('tests that wait', self.run, directory, [name for name in tests if is_of(name, waiting)], 4)
        self.stage('tests', self.run, directory, [name for name in tests if not is_of(name, waiting)], 2)
        for suite in suites:
            self.stage(suite, self.script if suite in SCRIPTS else self.sanitized, suite)

    def install(self):
        """Not in a session of its own: sudo may ask for a password."""
        more = ['all'] if self.everything or set(self.suites) & set(SCRIPTS) else []
        try:
            done = subprocess.run(['.ci/install', 'build', 'tools', 'test', *more], cwd=CHECKOUT, timeout=self.left())
        except subprocess.TimeoutExpired:
            raise Over('packages were not installed in time') from None
        if done.returncode:
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
        os.environ.update(TEST_SEEDS='fixed', MALLOC_PERTURB_='165', TEST_PATIENCE=PATIENCE)
    return everything, shard, suites


def interrupt(*_):
    """Once: what was started then has a minute to end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main():
    check, over = Check(*arguments(sys.argv[1:])), ''
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        check.stages()
    except Over as reason:
        over = str(reason)
    except KeyboardInterrupt:
        over = 'it was interrupted'
    return check.report(over)


if __name__ == '__main__':
    sys.exit(main())
