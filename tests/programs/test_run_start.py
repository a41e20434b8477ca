#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How tutti-run starts ranks: its options, their environment, where they run, what they see of a terminal.

test_run_start.py TUTTI_RUN STORE_RANK"""
import contextlib
import ctypes
import os
import pty
import re
import struct
import unittest

from launched import UNTIL_PARENT_ENDS, ProgramTest, arguments

RUN, STORE_RANK = arguments(2)
KEY = '000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f'
NUMBER = 'expected a number of ranks from 1 to 4096'
SECONDS = 'expected seconds, above 0 and at most 1e9'
HOSTS = 'on several hosts start them by srun, mpirun, torchrun, Kubernetes, Ray or Dask'
REFUSED = {
    ('-n', '0', 'true'): f'-n has "0": {NUMBER}',
    ('-n', '4x', 'true'): '-n has "4x": expected',
    ('-n', '\ufeff4', 'true'): '-n has "???4": expected',
    ('--bind', 'socket', 'true'): '--bind has "socket": expected share, core, numa or none',
    ('--timeout', '-1', 'true'): f'--timeout has "-1": {SECONDS}',
    ('--timeout', '1e10', 'true'): f'--timeout has "1e10": {SECONDS}',
    ('--grace', 'soon', 'true'): '--grace has "soon": expected',
    ('--env', 'NAME', 'true'): '--env has "NAME": expected NAME=VALUE',
    ('--frobnicate',): 'unknown option --frobnicate; tutti-run --help',
    ('--retsart', '1'): 'unknown option --retsart (did you mean --restart?)',
    ('--no-label=yes',): '--no-label takes no value',
    ('--bind', 'nuam', 'true'): '--bind has "nuam" (did you mean numa?)',
    ('-z',): 'unknown option -z; tutti-run --help',
    ('-Lz',): 'unknown option -z;',
    ('-n',): '-n needs a value',
    ('-n', '2'): 'no program: expected tutti-run -n N -- PROGRAM',
    ('true',): 'no number of ranks: expected -n N',
    ('--min-ranks', '0', '-n', '2', 'true'): f'--min-ranks has "0": {NUMBER}',
    ('--min-ranks', '3', '-n', '2', 'true'): '--min-ranks has 3: expected at most the 2 of -n',
    ('-m', 'x', '-n', '2', 'true'): '--min-ranks has "x": expected',
    ('--restart', '-1', '-n', '2', 'true'): '--restart has "-1": expected a number of replacements from 0 to 1000000',
    ('-r', 'many', '-n', '2', 'true'): '--restart has "many": expected',
    # of other launchers, where they do not mean the same
    ('-np', 'many', 'true'): '-n has "many": expected a number of ranks',
    ('-np',): '-n has "": expected a number of ranks',
    **{(option, 'a,b', 'true'): HOSTS for option in ('--hosts', '-H', '--hostfile', '-hostfile', '--nnodes=2')},
    ('-x', 'A=B', 'true'): 'found -x: expected --env NAME=VALUE',
    ('--oversubscribe',): 'leave it out',
}

os.environ.pop('TUTTI_KEY', None)


def forbid_terminals():
    """From now on no pseudo terminal of this process can be unlocked: a bare container has none at all."""
    PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
    TIOCSPTLCK, ENOTTY, SECCOMP_RET_ERRNO, SECCOMP_RET_ALLOW = 0x40045431, 25, 0x50000, 0x7fff0000
    code = b''.join(struct.pack('HBBI', *step) for step in (
        (0x20, 0, 0, 24),           # load the low half of the second argument: the request of an ioctl()
        (0x15, 0, 1, TIOCSPTLCK),   # if it is this one
        (0x06, 0, 0, SECCOMP_RET_ERRNO | ENOTTY),
        (0x06, 0, 0, SECCOMP_RET_ALLOW)))
    program = ctypes.create_string_buffer(code)
    filters = ctypes.create_string_buffer(struct.pack('HP', 4, ctypes.addressof(program)))
    prctl = ctypes.CDLL(None).prctl
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filters):
        os._exit(125)


class Start(ProgramTest):
    def run_(self, *options, status=0, **env):
        return self.run_to_end(RUN, *options, status=status, **env)

    def shells(self, count, script, *options, **env):
        return self.run_('-n', count, *options, '--', '/bin/sh', '-c', script, **env)

    def test_wrong_options_say_what_is_expected(self):
        jobs = {options: self.start(RUN, *options) for options in REFUSED}
        for options, words in REFUSED.items():
            self.finish(jobs[options], 125)
            self.assertIn(words, jobs[options].err)
            self.assertEqual(jobs[options].out, '')

    def test_options_of_other_launchers_are_understood(self):
        """The program's own stays."""
        for options in ('-np', '2'), ('--np', '2'), ('--ntasks=2', '-L'), ('--nproc_per_node', '2'):
            self.assertEqual(self.run_(*options, '--', 'echo', '-np').out.count('-np\n'), 2)

    def test_help_and_version_are_answered_on_stdout(self):
        job = self.run_('--help')
        self.assertIn('Usage: tutti-run -n N', job.out)
        self.assertEqual(job.err, '')
        self.assertIn('tutti-run ', self.run_('--version').out)

    def test_a_program_that_cannot_be_started_is_named(self):
        for program, status, words in (('no-such-program', 127, '"no-such-program" is in no directory of PATH'),
                                       ('./no-such-program', 127, '"./no-such-program" does not exist'),
                                       ('/etc/passwd', 126, 'cannot execute "/etc/passwd": Permission denied')):
            self.assertIn(words, self.run_('-n', 2, '--', program, status=status).err)
        busy = self.write('busy', '#!/bin/sh\n', 0o700)
        with open(busy, 'a'):
            self.assertTrue(self.run_('-n', 2, busy, status=126).err.endswith('": Text file busy\n'))

    def test_options_of_the_program_are_its_own(self):
        self.assertEqual(self.run_('-n', 1, 'echo', '-n', '--bind').out, '[0] --bind\n')

    def test_ranks_find_their_place_in_the_environment(self):
        """Whatever tutti-run has there as a rank of another job, or a replacement in it."""
        job = self.shells(3, 'echo $TUTTI_RANK/$TUTTI_SIZE $TUTTI_LOCAL_RANK/$TUTTI_LOCAL_SIZE '
                             'served $TUTTI_STORE_SERVED join=$TUTTI_JOIN.; echo job $TUTTI_JOB store $TUTTI_STORE; '
                             'echo torch $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE '
                             'at $MASTER_ADDR:$MASTER_PORT$TORCHELASTIC_USE_AGENT_STORE',
                          '--env', 'TUTTI_JOIN=1', RANK=7, TORCHELASTIC_USE_AGENT_STORE='True', TUTTI_JOIN=1)
        common, = set(re.findall(r'job ([0-9a-f]{32} store unix:tutti-run-\d+-.*\n)', job.out))
        self.assertIn(f' store unix:tutti-run-{job.pid}-', common)
        port, *_ = job.numbers_after('at 127.0.0.1:')
        self.assertEqual(sorted(job.out.splitlines(True)), sorted(
            f'[{rank}] {line}' for rank in range(3) for line in (
                f'{rank}/3 {rank}/3 served once join=.\n', f'job {common}',
                f'torch {rank}/3 {rank}/3 at 127.0.0.1:{port}\n')))

    def test_an_address_for_pytorch_that_was_given_stays(self):
        job = self.shells(1, 'echo $MASTER_ADDR $MASTER_PORT', '-L', '--env', 'MASTER_ADDR=::1', MASTER_PORT=4711)
        self.assertEqual(job.out, '::1 4711\n')

    def test_ranks_meet_in_the_store_that_is_served(self):
        job = self.run_('-n', 8, '--', STORE_RANK)
        self.assertEqual(job.out.count('] met 8\n'), 8)
        self.assertEqual(job.err, '')

    def key_of_job(self, **env):
        """What two ranks find as their key, which is not in tutti-run's command line."""
        job = self.shells(2, "echo key $TUTTI_KEY.; tr '\\0' ' ' </proc/$PPID/cmdline", '-L', **env)
        key, = set(re.findall(r'^key (.*)\.$', job.out, re.MULTILINE))
        if key:
            self.assertEqual(job.out.count(key), 2)
        return key

    def test_every_job_has_a_key_of_its_own(self):
        one, two = self.key_of_job(), self.key_of_job()
        self.assertRegex(one, '^[0-9a-f]{64}$')
        self.assertNotEqual(one, two)

    def test_a_key_that_is_given_is_handed_on(self):
        self.assertEqual(self.key_of_job(TUTTI_KEY=KEY), KEY)
        file = {'TUTTI_KEY_FILE': self.write('key', KEY)}
        self.assertEqual(self.key_of_job(**file), '')
        # they read it themselves
        self.assertEqual(self.run_('-n', 2, '--', STORE_RANK, **file).out.count('] met 2\n'), 2)
        self.assertIn('TUTTI_KEY has 4 characters', self.run_('-n', 2, 'true', status=125, TUTTI_KEY='none').err)

    def test_the_store_of_a_job_wants_its_key(self):
        self.assertIn('has a key, and this end has none',
                      self.run_('-n', 1, '/usr/bin/env', '-u', 'TUTTI_KEY', STORE_RANK, status=3).err)
        self.assertIn('has another key', self.run_('-n', 1, '-e', f'TUTTI_KEY={KEY}', STORE_RANK, status=3).err)

    def test_env_adds_and_replaces_variables(self):
        job = self.shells(2, 'echo $TT_A $TT_B $TT_C $TUTTI_RANK; env | grep -c ^TT_A=', '-e', 'TT_A=new',
                          '--env', 'TT_B=x=y', '--env', 'TUTTI_RANK=7', TT_A='old', TT_C='kept')
        self.assertEqual(sorted(job.out.splitlines()), ['[0] 1', '[0] new x=y kept 0', '[1] 1', '[1] new x=y kept 1'])

    def test_ranks_get_signals_and_limits_as_tutti_run_got_them(self):
        script = '/bin/sh', '-c', "grep -E '^Sig(Blk|Ign)' /proc/self/status; ulimit -Sn"
        self.assertEqual(self.run_('-n', 1, '-L', *script).out, self.run_to_end(*script).out)

    # ---- where ranks run

    def allowed_cpus(self, policy, count):
        """Those of each rank, as the kernel prints them."""
        job = self.run_('-n', count, '--bind', policy, 'grep', 'Cpus_allowed_list', '/proc/self/status')
        lines = dict(re.findall(r'^\[(\d+)\] Cpus_allowed_list:\t(.*)$', job.out, re.MULTILINE))
        return [lines[str(rank)] for rank in range(count)]

    @unittest.skipUnless(len(os.sched_getaffinity(0)) == 2, 'this wants two allowed cpus')
    def test_ranks_are_bound_to_cores_of_their_own(self):
        first, second, third = self.allowed_cpus('core', 3)
        self.assertEqual(third, first)
        self.assertEqual(self.allowed_cpus('share', 2), [first, second])

    def test_only_cpus_of_tutti_runs_own_affinity_are_used(self):
        own = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, own)
        os.sched_setaffinity(0, {min(own)})
        for policy in 'share', 'core', 'numa', 'none':
            self.assertEqual(self.allowed_cpus(policy, 2), [str(min(own))] * 2)

    def test_the_topology_of_another_machine_binds_nothing(self):
        other = {'HWLOC_SYNTHETIC': 'core:64 pu:1'}
        self.assertIn('describes another machine; --bind none does without',
                      self.run_('-n', 1, '--bind', 'core', 'true', status=125, **other).err)
        self.run_('-n', 1, '--bind', 'none', 'true', **other)

    def test_more_ranks_than_cores_share_all_of_them(self):
        self.assertEqual(self.allowed_cpus('share', 64)[63], *self.allowed_cpus('none', 1))

    # ---- on a terminal

    def on_terminal(self, count, script, prompt='', typed='', prepare=lambda: None, options=()):
        """What a job shows on a pseudo terminal; `typed` is typed when `prompt` has been shown."""
        pid, terminal = pty.fork()
        if pid == 0:
            prepare()
            os.environ['TERM'] = 'xterm'
            os.environ.pop('NO_COLOR', None)
            os.execv(UNTIL_PARENT_ENDS[0],
                     [*UNTIL_PARENT_ENDS, RUN, '-n', str(count), *options, '/bin/sh', '-c', script])
        shown = ''
        with contextlib.suppress(OSError):
            while some := os.read(terminal, 65536).decode():
                shown += some
                if prompt and prompt in shown:
                    os.write(terminal, typed.encode())
                    prompt = ''
        os.close(terminal)
        self.assertEqual(os.waitpid(pid, 0)[1], 0, shown)
        return shown

    def test_on_a_terminal_progress_is_live_and_labels_are_coloured(self):
        shown = self.on_terminal(1, "printf '10%%\\r'; read x; printf '90%%\\r'; read x; echo done; test -t 1",
                                 '10%', 'a\nb\n')
        self.assertIn('\033[36m[0]\033[0m 10%', shown)
        self.assertIn('\r\033[K\033[36m[0]\033[0m done\r\n', shown)

    def test_a_terminal_without_labels_gets_bytes_as_they_come(self):
        """It makes "\\r\\n" of a newline itself."""
        script = "printf 'a\\r\\nb\\rname? '; read x; printf '10%%\\r20%%\\rend'"
        self.assertEqual(self.on_terminal(1, script, 'name?', 'tutti\n', options=['-L']),
                         'a\r\r\nb\rname? tutti\r\n10%\r20%\rend')

    def test_what_is_typed_reaches_rank_0(self):
        shown = self.on_terminal(2, "printf 'name? '; read x; echo hello $x", 'name?', 'tutti\n')
        self.assertIn('[0]\033[0m name? hello tutti\r\n', shown)

    def test_without_pseudo_terminals_ranks_get_pipes(self):
        shown = self.on_terminal(2, 'test -t 1 || test -t 2 || echo pipes', prepare=forbid_terminals)
        self.assertEqual(shown.count('pipes\r\n'), 2)
        self.assertEqual(shown.count('cannot open a pseudo terminal: '), 1)


if __name__ == '__main__':
    unittest.main()
