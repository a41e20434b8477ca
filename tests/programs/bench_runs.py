# SPDX-License-Identifier: BSD-3-Clause
"""Owns runs of tutti-bench, whose path is the first word of a test's command."""
from launched import ProgramTest, arguments

BENCH, = arguments(1)


class BenchTest(ProgramTest):
    def bench(self, line, status=0, **env):
        run = self.run_to_end(BENCH, *line.split(), status=status, **env)
        self.assert_narrow(run.out)
        return run

    def refuse(self, line, *words, status=2, **env):
        """Nothing is measured, and `words` are said."""
        run = self.bench(line, status, **env)
        for text in words:
            self.assertIn(text, run.err, line)
        self.assertEqual(run.out, '')
        return run
