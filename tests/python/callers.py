# SPDX-License-Identifier: BSD-3-Clause
"""With TUTTI_CALLERS=1 the flight recorder is told which lines of the program call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from typing import List, Optional, Tuple
from unittest import mock

import numpy as np

import tutti
from patience import bound_s


def step(comm: tutti.Communicator) -> None:
    comm.all_reduce(np.ones(3))
    comm.all_gather_v(np.ones(2), timeout=bound_s(10))
    with comm.group():
        comm.broadcast(np.ones(4))
    comm.start_barrier().wait()


def line(number: int) -> str:
    return f"callers.py:{step.__code__.co_firstlineno + number} in step"


class Callers(unittest.TestCase):
    def recorded(self, callers: str, dup: bool = False) -> List[Tuple[str, Optional[str]]]:
        """The collectives of step() and their callers, as an only rank's report has them."""
        with tempfile.TemporaryDirectory() as path:
            with mock.patch.dict(os.environ, TUTTI_TRACE=path, TUTTI_CALLERS=callers):
                with tutti.init() as first, first.dup() as second:
                    used = second if dup else first
                    step(used)
                    used.abort()  # it leaves the report
            command = [sys.executable, "-m", "tutti", "trace", "--json", path]
            report = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        names = {head["header"]: head["collective"] for head in report["headers"]}
        return [(names[one["header"]], one.get("caller")) for one in report["operations"]]

    def test_lines_outside_the_package_are_recorded(self) -> None:
        expected = [
            ("all_reduce", line(1)),
            ("all_gather", line(2)),
            ("all_gather_v", line(2)),
            ("broadcast", line(3)),
            ("barrier", line(5)),
        ]
        self.assertEqual(self.recorded("1")[-5:], expected)
        self.assertEqual(self.recorded("1", dup=True), expected)

    def test_the_line_that_makes_a_communicator_is_recorded(self) -> None:
        self.assertIn("in recorded", str(self.recorded("1")[0][1]))

    def test_without_the_variable_none_is(self) -> None:
        for value in "0", "":
            self.assertEqual({caller for _, caller in self.recorded(value)}, {None})

    def test_another_value_is_refused(self) -> None:
        with mock.patch.dict(os.environ, TUTTI_CALLERS="yes"):
            with self.assertRaisesRegex(tutti.Invalid, "TUTTI_CALLERS is 'yes', expected 1"):
                tutti.init()


unittest.main(verbosity=0)
