# SPDX-License-Identifier: BSD-3-Clause
"""A rank that dies, stops, differs or is interrupted gives all others an exception that says so.

Without an argument this starts the scenes below and looks at their ranks' last words.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from typing import Dict, List

import numpy as np
import tutti
from interrupts import signal_in_a_wait
from patience import bound_s

raises = unittest.TestCase().assertRaises
raises_with = unittest.TestCase().assertRaisesRegex


def start(seconds: float = 20) -> tutti.Communicator:
    return tutti.init(timeout=bound_s(seconds))


def scene_death() -> None:
    comm = start()
    with raises(tutti.PeerLost) as lost:
        for i in range(1000000):
            comm.all_reduce(np.ones(2))
            if comm.rank == 1 and i == 100:
                os.kill(os.getpid(), signal.SIGKILL)
    assert lost.exception.rank == 1, lost.exception.rank
    for call in comm.start_barrier, comm.dup:
        with raises_with(tutti.PeerLost, "rank 1") as lost:
            call()
        assert lost.exception.rank == 1, lost.exception.rank
    with comm.shrink() as smaller:
        assert smaller.all_reduce(np.array(1)) == smaller.size == 2
    comm.close()


def scene_death_awaited() -> None:
    comm = start()
    if comm.rank == 1:  # who sends has started its receive
        for source in 0, 2:
            comm.recv(np.empty(1), source)
        os.kill(os.getpid(), signal.SIGKILL)
    request = comm.start_recv(np.empty(1), 1)
    comm.send(np.ones(1), 1)

    async def wait() -> None:
        with raises(tutti.PeerLost) as lost:
            await request
        assert lost.exception.rank == 1

    asyncio.run(wait())


def scene_silence() -> None:
    comm = start(60)
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    with raises_with(tutti.Timeout, "rank 1"):
        comm.all_reduce(np.ones(2), timeout=0.5)
    os._exit(0)


def scene_mismatch() -> None:
    comm = start()
    with raises_with(tutti.Mismatch, "all_reduce"):
        comm.all_reduce(np.ones(2 + comm.rank))
    with raises(tutti.Mismatch):
        comm.check()


def scene_mismatched_types() -> None:
    """Of which the library knows the bytes alone. The root of a broadcast is told by its next call."""
    pairs = [(np.array([1], "m8[s]"), np.array([1], "m8[h]")), (np.array([1], "M8[s]"), np.array([1], "M8[25D]")),
             (np.ones(2, "f4"), np.ones(1, "c8")), (np.zeros(1, "i4,f4"), np.zeros(1, "f4,i4"))]
    for pair in pairs:
        for call in "broadcast", "all_gather", "send":
            comm = start()
            x = pair[comm.rank]
            with raises_with(tutti.Mismatch, " of "):
                if call != "send":
                    getattr(comm, call)(x)
                elif comm.rank == 0:
                    comm.send(x, 1)
                else:
                    comm.recv(x.copy(), 0)
                comm.barrier()
            comm.close()


def scene_abort() -> None:
    comm = start()
    if comm.rank == 0:
        comm.abort("enough")
    with raises_with(tutti.Aborted, "enough"):
        comm.barrier()
        comm.barrier()


def scene_interrupt() -> None:
    """Rank 0 is interrupted in a blocking call that the others do not make."""
    comm = start(60)
    comm.barrier()
    if comm.rank == 0:
        before = threading.active_count()
        signal_in_a_wait(signal.SIGINT)
        with raises(KeyboardInterrupt):
            comm.recv(np.empty(1), 1)
        assert before == 1
    else:
        with raises_with(tutti.Aborted, "interrupted by a signal"):
            comm.recv(np.empty(1), 0)


def scene_interrupted_shrink() -> None:
    """Rank 0 is interrupted while it waits for the others, who go on without it."""
    comm = start(60)
    comm.barrier()
    if comm.rank == 0:
        signal_in_a_wait(signal.SIGINT)
        with raises(KeyboardInterrupt):
            comm.shrink()
    else:
        with raises_with(tutti.Aborted, "interrupted by a signal"):
            comm.recv(np.empty(1), 0)
        assert comm.shrink().size == 2


def scene_interrupt_among_traffic() -> None:
    """While the other rank writes to this one's window without end."""
    comm = start(60)
    window = comm.window(np.zeros(1000), 1)
    comm.barrier()
    if comm.rank == 0:
        signal_in_a_wait(signal.SIGINT)
        with raises(KeyboardInterrupt):
            window.wait_signal(1, timeout=bound_s(10))
    else:
        with raises_with(tutti.Aborted, "interrupted by a signal"):
            while True:
                window.put(np.ones(1000), 0)


def scene_interrupted_request() -> None:
    """An interrupted wait leaves the operation going."""
    comm = start(60)
    if comm.rank == 0:
        request = comm.start_recv(np.empty(1), 1)
        signal_in_a_wait(signal.SIGINT)
        with raises(KeyboardInterrupt):
            request.wait()
        comm.barrier()
        assert request.wait()[0] == 1
    else:
        comm.barrier()
        if comm.rank == 1:
            comm.send(np.ones(1), 0)


def scene_handler_that_returns() -> None:
    """A signal whose handler does not raise ends nothing."""
    seen: List[int] = []
    comm = start(60)
    if comm.rank == 0:

        def handle(number: int, frame: object) -> None:
            seen.append(number)
            with open(os.environ["TEST_FIFO"], "wb"):
                pass

        signal.signal(signal.SIGALRM, handle)
        out = np.empty(1)
        signal_in_a_wait(signal.SIGALRM)
        comm.recv(out, 1)
        assert seen == [signal.SIGALRM]
    elif comm.rank == 1:
        with open(os.environ["TEST_FIFO"], "rb"):  # when the handler has opened it
            pass
        comm.send(np.ones(1), 0)
    comm.barrier()


def scene_interrupted_start() -> None:
    """The others never come."""
    with tutti.Store("unix:test-python-%d" % os.getpid(), serve=True) as store:
        signal_in_a_wait(signal.SIGINT)
        with raises(KeyboardInterrupt):
            tutti.Communicator(store, 0, 2, timeout=bound_s(60))


def scene_interrupted_start_by_an_object() -> None:
    """A thread still asks it when the interpreter ends."""

    class Keys(Dict[str, bytes]):
        def set(self, key: str, value: bytes) -> None:
            self[key] = value

    signal_in_a_wait(signal.SIGINT)
    with raises(KeyboardInterrupt):
        tutti.Communicator(Keys(), 0, 2, timeout=bound_s(60))


class Failures(unittest.TestCase):
    def play(self, scene: str, ranks: int, *options: str, after: int = 0) -> None:
        command = [os.environ["TEST_RUN"], "-n", str(ranks), *options, "--"]
        command += [sys.executable, __file__, scene]
        done = subprocess.run(command, timeout=bound_s(60), capture_output=True, text=True, check=False)
        self.assertNotIn("Traceback", done.stderr + done.stdout)
        if not options:
            self.assertEqual(done.returncode, after, done.stderr)

    def test_a_rank_that_dies_is_named_and_the_others_go_on(self) -> None:
        self.play("death", 3, "--min-ranks", "1")

    def test_a_request_that_is_awaited_ends_by_a_death(self) -> None:
        self.play("death_awaited", 3, "--min-ranks", "1")

    def test_calls_that_differ(self) -> None:
        self.play("mismatch", 2)

    def test_types_that_are_alike_as_bytes_differ(self) -> None:
        self.play("mismatched_types", 2)

    def test_an_abort_has_its_reason(self) -> None:
        self.play("abort", 3)

    def test_an_interrupted_call_tells_the_others(self) -> None:
        self.play("interrupt", 3)

    def test_an_interrupted_shrink_ends(self) -> None:
        self.play("interrupted_shrink", 3)

    def test_a_call_is_interrupted_whatever_others_send(self) -> None:
        self.play("interrupt_among_traffic", 2)

    def test_an_interrupted_wait_leaves_the_request(self) -> None:
        self.play("interrupted_request", 2)

    def test_a_handler_that_returns_ends_nothing(self) -> None:
        with tempfile.TemporaryDirectory() as path:
            os.environ["TEST_FIFO"] = os.path.join(path, "fifo")
            os.mkfifo(os.environ["TEST_FIFO"])
            self.play("handler_that_returns", 2)

    def test_a_start_can_be_interrupted(self) -> None:
        self.play("interrupted_start", 1)

    def test_so_can_one_that_asks_an_object(self) -> None:
        self.play("interrupted_start_by_an_object", 1)

    def test_a_rank_that_is_silent(self) -> None:
        """The ranks are started without tutti-run, which would wait for the stopped one."""
        base = dict(os.environ, MASTER_ADDR="127.0.0.1", WORLD_SIZE="3")
        base["TUTTI_STORE"] = f"unix:test-python-silence-{os.getpid()}"
        ranks = []
        for rank in range(3):
            own = dict(base, RANK=str(rank), MASTER_PORT="1")
            ranks.append(subprocess.Popen([sys.executable, __file__, "silence"], env=own))
        try:
            self.assertEqual(ranks[0].wait(60), 0)
            self.assertEqual(ranks[2].wait(60), 0)
        finally:
            ranks[1].kill()
            for process in ranks:
                process.wait()


if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
    globals()["scene_" + sys.argv[1]]()
else:
    unittest.main(verbosity=0)
