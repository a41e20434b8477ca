#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What tutti-run does with the streams of its ranks: test_run_output.py TUTTI_RUN"""
import fcntl
import re
import unittest

from launched import ProgramTest, arguments

RUN, = arguments(1)


class Output(ProgramTest):
    def ranks(self, count, script, *options):
        return self.run_to_end(RUN, '-n', count, *options, '--', '/bin/sh', '-c', script)

    def test_each_line_carries_the_label_of_its_rank_and_stays_on_its_stream(self):
        """Pieces of a line are put together; a last line without newline gets one."""
        job = self.ranks(3, 'echo a$TUTTI_RANK; echo err >&2; for i in 1 2 3 4 5; do printf "<%s>" $i; done; echo; '
                            'printf end')
        self.assertEqual(sorted(job.out.splitlines(True)), sorted(f'[{rank}] {line}\n' for rank in range(3)
                                                                  for line in (f'a{rank}', '<1><2><3><4><5>', 'end')))
        self.assertEqual(sorted(job.err.splitlines(True)), [f'[{rank}] err\n' for rank in range(3)])

    def test_lines_of_eight_ranks_stay_whole_and_in_order(self):
        job = self.run_to_end(RUN, '-n', 8, '--', '/usr/bin/seq', '-f', 'line %g of many', 1000)
        lines = [re.fullmatch(r'\[([0-7])\] line (\d+) of many', line) for line in job.out.splitlines()]
        for rank in range(8):
            self.assertEqual([int(line[2]) for line in lines if int(line[1]) == rank], list(range(1, 1001)))

    def test_a_very_long_line_is_cut_into_labelled_pieces(self):
        """2^21 + 2^20 / 2 letters: two pieces of 1 MiB and a half"""
        job = self.ranks(1, "head -c 2621440 /dev/zero | tr '\\0' x; echo")
        self.assertEqual([len(line) for line in job.out.splitlines()], [4 + (1 << 20), 4 + (1 << 20), 4 + (1 << 19)])
        self.assertEqual(job.out.count('[0] x'), 3)

    def test_of_a_progress_bar_a_file_gets_the_last_state(self):
        job = self.ranks(1, "printf '10%%\\r50%%\\r100%%\\n'; printf 'dos\\r\\n'; printf 'left\\r'")
        self.assertEqual(job.out, '[0] 100%\n[0] dos\n[0] left\n')

    def test_no_label_leaves_lines_as_they_are(self):
        self.assertEqual(self.ranks(2, 'echo plain', '--no-label').out, 'plain\nplain\n')

    def test_one_file_for_both_streams_gets_whole_lines(self):
        script = 'seq -f out%g 2000 & seq -f err%g 2000 >&2; wait'
        job = self.run_to_end('/bin/sh', '-c', f'exec "$0" -n 4 -- sh -c "{script}" 2>&1', RUN)
        self.assertEqual(sorted(job.out.splitlines()), sorted(f'[{rank}] {name}{number}' for rank in range(4)
                                                              for name in ('out', 'err') for number in range(1, 2001)))

    def test_rank_0_alone_reads_the_input(self):
        job = self.start(RUN, '-n', 3, '--', '/bin/sh', '-c', 'sed s/^/got:/; echo end')
        job.write('one\ntwo\n')
        self.finish(job)
        self.assertEqual(sorted(job.out.splitlines()), ['[0] end', '[0] got:one', '[0] got:two', '[1] end', '[2] end'])

    def test_a_reader_that_leaves_ends_the_job(self):
        job = self.start(RUN, '-n', 2, '--', '/usr/bin/yes')
        job.await_text('] y\n', 10)
        job.close_output()
        self.finish(job, 128 + 13)
        self.assertIn('was killed by signal 13 (Broken pipe)', job.err)

    def test_a_full_disk_is_a_failure(self):
        job = self.run_to_end('/bin/sh', '-c', 'exec "$0" -n 2 -- echo text >/dev/full', RUN, status=125)
        self.assertIn('cannot write the standard output of the ranks: No space left', job.err)

    def test_a_slow_reader_loses_nothing(self):
        """Every queue is full most of the time, and then ranks wait in full pipes."""
        job = self.start(RUN, '-n', 2, '--', '/usr/bin/seq', '-f', 'a line of text %g', 200000)
        fcntl.fcntl(job.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        self.finish(job)
        self.assertEqual(job.out.count('\n'), 400000)
        self.assertEqual(job.out.count('a line of text 200000\n'), 2)


if __name__ == '__main__':
    unittest.main()
