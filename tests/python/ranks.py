# SPDX-License-Identifier: BSD-3-Clause
"""What tests that run as ranks share: the communicator, and the end of a test program."""

from __future__ import annotations

import sys
import unittest

import tutti
from patience import bound_s

comm = tutti.init(timeout=bound_s(30))
rank, size = comm.rank, comm.size
nxt, before = (rank + 1) % size, (rank - 1) % size


def main() -> None:
    """Run the tests of the program, in the same order on all ranks."""
    result = unittest.main(exit=False, verbosity=0).result
    comm.close()
    sys.exit(not result.wasSuccessful())
