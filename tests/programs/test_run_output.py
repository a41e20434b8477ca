#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What tutti-run does with the streams of its ranks: test_run_output.py TUTTI_RUN"""
import fcntl
import re
import unittest

from launched import ProgramTest, arguments

RUN, = arguments(1)
F_SETPIPE_SZ = 1031  # which Python has since 3.10


class Output(ProgramTest):
    def ranks(self, count, script, *options, status=0):
        return self.run_to_end(RUN, '-n', count, *options, '--', '/bin/sh', '-c', script, status=status)

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

    def test_carriage_returns_in_a_file_are_kept(self):
        """Its last words are what a terminal would show."""
        script = "printf '10%%\\r50%%\\r\\r100%%\\n'; printf 'dos\\r\\n\\r\\n'; printf 'left\\r'; exit 3"
        job = self.ranks(1, script, status=3)
        self.assertEqual(job.out, '[0] 10%\r50%\r\r100%\n[0] dos\r\n[0] \r\n[0] left\r\n')
        self.assertEqual(re.findall('^tutti-run:     (.*)$', job.err, re.M), ['100%', 'dos', 'left'])
        script = "head -c 1019 /dev/zero | tr '\\0' x; printf 'ööö\n'; exit 3"
        job = self.ranks(1, script, status=3)
        self.assertIn(f'\ntutti-run:     {1019 * "x"}…\n', job.err)

    def test_without_labels_bytes_stay_as_they_are(self):
        """A line of 3 MiB among them, and no newline at the end. What tutti-run says is a line of its own."""
        content = bytes(range(256)) * 10 + b'a\r\nb\r\r\n\n\r' + b'x' * (3 << 20) + b'\nno newline'
        for name in '--no-label', '-L':
            job = self.run_to_end(RUN, '-n', 1, name, '--', '/bin/sh', '-c', 'cat "$0" >&2; exec cat "$0"',
                                  self.write('content', content))
            for written in job.bytes.values():
                self.assertEqual(bytes(written), content)
        job = self.ranks(1, 'printf out >&2; exit 3', '-L', status=3)
        self.assertEqual(job.err.splitlines()[0], 'out')
        self.assertIn('\ntutti-run: rank 0 ', job.err)

    def test_without_labels_lines_of_ranks_stay_whole(self):
        job = self.run_to_end(RUN, '-n', 4, '--no-label', '--', '/usr/bin/seq', 10000)
        self.assertEqual(sorted(job.out.splitlines()), sorted(4 * [str(number) for number in range(1, 10001)]))

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
        """It is named as the cause where ranks fail for it, too."""
        for program, status in {'echo': 125, 'yes': 128 + 13}.items():
            job = self.run_to_end('/bin/sh', '-c', f'exec "$0" -n 2 -- {program} text >/dev/full', RUN, status=status)
            self.assertIn('cannot write the standard output of the ranks: No space left', job.err)
        self.assert_output_is_missed(RUN, '--help', status=125)

    def test_a_slow_reader_loses_nothing(self):
        """Every queue is full most of the time, and then ranks wait in full pipes."""
        job = self.start(RUN, '-n', 2, '--', '/usr/bin/seq', '-f', 'a line of text %g', 200000)
        fcntl.fcntl(job.process.stdout, F_SETPIPE_SZ, 4096)
        self.finish(job)
        self.assertEqual(job.out.count('\n'), 400000)
        self.assertEqual(job.out.count('a line of text 200000\n'), 2)


if __name__ == '__main__':
    unittest.main()
