# SPDX-License-Identifier: BSD-3-Clause
"""Signals to a process that waits in C, for tests of the package and of PyTorch's backend."""

from __future__ import annotations

import os
import sys
import threading


def signal_in_a_wait(number: int) -> None:
    """Have this process get a signal when this thread next waits, in C.

    A waiting thread of Python gets the interpreter's lock when the one that has it waits, or when a
    time has passed. That time is made longer than the test.
    """
    ready = threading.Lock()
    ready.acquire()

    def send() -> None:
        with ready:
            os.kill(os.getpid(), number)

    sys.setswitchinterval(1000)
    threading.Thread(target=send).start()
    ready.release()
