# SPDX-License-Identifier: BSD-3-Clause
"""python -m tutti, and what help() tells."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest

import tutti
from patience import bound_s


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tutti", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=bound_s(60), check=False)


class Commands(unittest.TestCase):
    def test_run_starts_this_python(self) -> None:
        with tempfile.TemporaryDirectory() as path:
            program = os.path.join(path, "prog.py")
            with open(program, "w", encoding="utf-8") as file:
                file.write("import sys, tutti\nwith tutti.init() as comm:\n")
                file.write("    print(comm.size, sys.argv[1:], sys.executable)\n")
            for before in (["-n", "2"], ["-n", "2", "--"]):
                done = run("run", *before, program, "a", "-b")
                self.assertEqual(done.returncode, 0, done.stderr)
                line = f"2 ['a', '-b'] {sys.executable}"
                self.assertEqual(
                    sorted(done.stdout.split("\n")), ["", "[0] " + line, "[1] " + line]
                )

    def test_lists_of_arrays_need_no_numpy(self) -> None:
        code = """
import sys
sys.modules["numpy"] = None
import ctypes, tutti
with tutti.init() as comm:
    x = (ctypes.c_int * 2)(comm.rank, 7)
    print(*[memoryview(y).tolist() for y in comm.all_to_all_v([x] * comm.size)])
"""
        done = run("run", "-n", "2", sys.executable, "-c", code)
        lines = ["", "[0] [0, 7] [1, 7]", "[1] [0, 7] [1, 7]"]
        self.assertEqual(sorted(done.stdout.split("\n")), lines, done.stderr)

    def test_only_a_program_that_is_a_file_of_python_gets_an_interpreter(self) -> None:
        code = "import sys; print(*sys.argv)"
        for program in (["echo", "-c", "x.py"], [sys.executable, "-c", code, "x.py"]):
            done = run("run", "-n", "1", "--env", "NAME=x.py", *program)
            self.assertEqual(done.stdout, "[0] -c x.py\n", done.stderr)

    def test_the_other_programs(self) -> None:
        self.assertIn("tutti", run("info").stdout)
        self.assertEqual(run("trace", "--help").returncode, 0)
        done = run("sing")
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected one of: run info", done.stderr)
        self.assertIn("run|info|trace", run("--help").stdout)
        self.assertEqual(run("--version").stdout, f"tutti {tutti.__version__}\n")

    def test_every_method_has_its_documentation(self) -> None:
        for kind in (tutti.Communicator, tutti.Request, tutti.Store, tutti.Group):
            self.assertTrue(kind.__doc__)
            for name in dir(kind):
                if not name.startswith("_"):
                    self.assertTrue(getattr(kind, name).__doc__, f"{kind.__name__}.{name}")
        for name in tutti.__all__:
            self.assertTrue(getattr(tutti, name).__doc__, name)

    def test_the_paths_exist(self) -> None:
        self.assertTrue(os.path.exists(os.path.join(tutti.get_include(), "tutti", "tutti.h")))
        self.assertTrue(os.path.exists(tutti.get_library()))
        self.assertEqual(tutti.__version__, tutti.version())


unittest.main(verbosity=0)
