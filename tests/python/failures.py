# SPDX-License-Identifier: BSD-3-Clause
"""A rank that dies, stops, differs or is interrupted gives all others an exception that says so.

Without an argument this starts the scenes below and looks at their ranks' last words.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from typing import List

from patience import bound_s


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


def scene_death() -> None:
    import numpy as np
    import tutti

    comm = tutti.init(timeout=bound_s(20))
    try:
        for i in range(1000000):
            comm.all_reduce(np.ones(2))
            if comm.rank == 1 and i == 100:
                os.kill(os.getpid(), signal.SIGKILL)
    except tutti.PeerLost as error:
        assert error.rank == 1, error.rank
    try:
        comm.start_barrier()
    except tutti.PeerLost as error:
        assert error.rank == 1, error.rank
    try:
        comm.dup()
    except tutti.PeerLost as error:
        assert error.rank == 1 and "rank 1" in str(error), error
    with comm.shrink() as smaller:
        assert smaller.all_reduce(np.array(1)) == smaller.size == 2
    comm.close()


def scene_death_awaited() -> None:
    import asyncio

    import numpy as np
    import tutti

    comm = tutti.init(timeout=bound_s(20))
    if comm.rank == 1:  # who sends has started its receive
        for source in 0, 2:
            comm.recv(np.empty(1), source)
        os.kill(os.getpid(), signal.SIGKILL)
    request = comm.start_recv(np.empty(1), 1)
    comm.send(np.ones(1), 1)

    async def wait() -> None:
        try:
            await request
            raise AssertionError
        except tutti.PeerLost as error:
            assert error.rank == 1

    asyncio.run(wait())


def scene_silence() -> None:
    import numpy as np
    import tutti

    comm = tutti.init(timeout=bound_s(60))
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        comm.all_reduce(np.ones(2), timeout=0.5)
        raise AssertionError
    except tutti.Timeout as error:
        assert "rank 1" in str(error), error
    os._exit(0)


def scene_mismatch() -> None:
    import numpy as np
    import tutti

    comm = tutti.init(timeout=bound_s(20))
    try:
        comm.all_reduce(np.ones(2 + comm.rank))
        raise AssertionError
    except tutti.Mismatch as error:
        assert "all_reduce" in str(error), error
    try:
        comm.check()
        raise AssertionError
    except tutti.Mismatch:
        pass


def scene_abort() -> None:
    import tutti

    comm = tutti.init(timeout=bound_s(20))
    if comm.rank == 0:
        comm.abort("enough")
    try:
        comm.barrier()
        comm.barrier()
        raise AssertionError
    except tutti.Aborted as error:
        assert "enough" in str(error), error


def scene_interrupt() -> None:
    """Rank 0 is interrupted in a blocking call that the others do not make."""
    import numpy as np
    import tutti

    comm = tutti.init(timeout=bound_s(60))
    comm.barrier()
    if comm.rank == 0:
        before = threading.active_count()
        out = np.empty(1)
        signal_in_a_wait(signal.SIGINT)
        try:
            comm.recv(out, 1)
            raise AssertionError
        except KeyboardInterrupt:
            assert before == 1
    else:
        try:
            comm.recv(np.empty(1), 0)
            raise AssertionError
        except tutti.Aborted as error:
            assert "interrupted by a signal" in str(error), error


def scene_interrupted_request() -> None:
    """An interrupted wait leaves the operation going."""
    import numpy as np
    import tutti

    comm = tutti.init(timeout=bound_s(60))
    if comm.rank == 0:
        request = comm.start_recv(np.empty(1), 1)
        signal_in_a_wait(signal.SIGINT)
        try:
            request.wait()
            raise AssertionError
        except KeyboardInterrupt:
            pass
        comm.barrier()
        assert request.wait()[0] == 1
    else:
        comm.barrier()
        if comm.rank == 1:
            comm.send(np.ones(1), 0)


def scene_handler_that_returns() -> None:
    """A signal whose handler does not raise ends nothing."""
    import numpy as np
    import tutti

    seen: List[int] = []
    comm = tutti.init(timeout=bound_s(60))
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
    import tutti

    with tutti.Store("unix:test-python-%d" % os.getpid(), serve=True) as store:
        signal_in_a_wait(signal.SIGINT)
        try:
            tutti.Communicator(store, 0, 2, timeout=bound_s(60))
            raise AssertionError
        except KeyboardInterrupt:
            pass


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

    def test_an_abort_has_its_reason(self) -> None:
        self.play("abort", 3)

    def test_an_interrupted_call_tells_the_others(self) -> None:
        self.play("interrupt", 3)

    def test_an_interrupted_wait_leaves_the_request(self) -> None:
        self.play("interrupted_request", 2)

    def test_a_handler_that_returns_ends_nothing(self) -> None:
        with tempfile.TemporaryDirectory() as path:
            os.environ["TEST_FIFO"] = os.path.join(path, "fifo")
            os.mkfifo(os.environ["TEST_FIFO"])
            self.play("handler_that_returns", 2)

    def test_a_start_can_be_interrupted(self) -> None:
        self.play("interrupted_start", 1)

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
