# SPDX-License-Identifier: BSD-3-Clause
"""Messages, one-sided calls, groups, requests, asyncio and threads."""

from __future__ import annotations

import array
import asyncio
import gc
import sys
import threading
import unittest
from typing import Any, List
from unittest import mock

import numpy as np
import ranks
import tutti
from patience import bound_s
from ranks import before, comm, nxt, rank, size


class Messages(unittest.TestCase):
    @unittest.skipIf(size < 2, "needs two ranks")
    def test_tags_select_messages(self) -> None:
        if rank == 0:
            comm.send(np.array([1.0]), 1, tag=1)
            comm.send(np.array([2.0]), 1, tag=2)
        if rank == 1:
            x = np.empty(1)
            self.assertEqual(comm.recv(x, 0, tag=2)[0], 2)
            self.assertEqual(comm.recv(x, 0, tag=1)[0], 1)

    def test_messages_of_any_rank_tell_who_sent(self) -> None:
        if rank == 0:
            out = np.empty(size, complex)
            found = [comm.recv_message(out, tutti.ANY_RANK, tag=7) for _ in range(size - 1)]
            self.assertEqual(sorted(found), [(r, r) for r in range(1, size)])
        else:
            comm.send(np.full(rank, rank, complex), 0, 7)

        fields = ", ".join(tutti.Message._fields)
        self.assertIn(f"Message({fields})", comm.recv_message.__doc__ or "")

    @unittest.skipIf(size < 2, "needs two ranks")
    def test_objects(self) -> None:
        if rank == 0:
            comm.send_object({"a": [1, 2]}, 1)
        if rank == 1:
            self.assertEqual(comm.recv_object(tutti.ANY_RANK), {"a": [1, 2]})

    def test_a_group_may_have_a_barrier(self) -> None:
        with comm.group(wait=False) as group:
            total = comm.all_reduce(np.ones(2))
            comm.barrier()
        group.request.wait()
        self.assertEqual(total[0], size)

    def test_a_block_that_raises_starts_nothing(self) -> None:
        total = np.ones(2)
        with self.assertRaises(KeyError):
            with comm.group():
                comm.all_reduce(total, out=total)
                raise KeyError
        self.assertEqual(comm.all_reduce(np.array(1)), size)
        self.assertEqual(list(total), [1, 1])


class Windows(unittest.TestCase):
    def test_what_is_put_is_there_when_its_signal_is(self) -> None:
        for make in (np.zeros, tutti.empty):
            x = make(3 * size)
            x[:] = 0
            with comm.window(x, 2) as window:
                for turn in range(1, 20):
                    sent = np.array([rank, turn, rank * turn], float)
                    for r in range(size):
                        window.put(sent, r, offset=24 * rank, signal=0)
                    self.assertGreaterEqual(window.wait_signal(turn * size), turn * size)
                    for r in range(size):
                        self.assertEqual(list(x[3 * r : 3 * r + 3]), [r, turn, r * turn])
                    for r in range(size):
                        window.signal(r, 1)
                    window.wait_signal(turn * size, signal=1, timeout=bound_s(30))

    def test_gets_and_sums(self) -> None:
        x = np.arange(4, dtype=np.uint64) + rank * 10
        with comm.window(x) as window:
            out = np.empty(2, np.uint64)
            self.assertIs(window.get(out, nxt, 16), out)
            self.assertEqual(list(out), [nxt * 10 + 2, nxt * 10 + 3])
            comm.barrier()
            found = window.fetch_add(0, 8, 5)
            self.assertEqual((found - 1) % 5, 0)
            window.flush()
            comm.barrier()
            if rank == 0:
                self.assertEqual(x[1], 1 + 5 * size)
            self.assertEqual((window.nbytes(nxt), window.direct(rank)), (32, True))

    def test_numbers_may_be_numpys(self) -> None:
        x = np.zeros(2)
        with comm.window(x, np.uint8(1)) as window:
            window.put(np.ones(1), np.int64(nxt), np.int64(8), signal=np.int32(0), add=np.uint64(2))
            window.signal(np.int64(nxt), np.int8(0), np.int16(1))
            self.assertEqual(window.wait_signal(np.int64(3), np.int64(0)), 3)
            self.assertEqual(list(x), [0, 1])
            self.assertEqual(window.fetch_add(rank, np.int64(0), np.uint8(7)), 0)

    def test_ranks_may_have_other_arrays_or_none(self) -> None:
        with comm.window(np.zeros(rank + 1) if rank else None, rank) as window:
            self.assertEqual([window.nbytes(r) for r in range(size)],
                             [8 * (r + 1) if r else 0 for r in range(size)])

    def test_wrong_arguments_are_refused(self) -> None:
        window = comm.window(np.zeros(2), 1)
        for text, call in (
            ("found rank", lambda: window.put(np.ones(1), size)),
            ("found 8 bytes at 16", lambda: window.put(np.ones(1), 0, 16)),
            ("found 24 bytes", lambda: window.get(np.ones(3), 0)),
            ("offset is -1, expected an integer from 0", lambda: window.put(np.ones(1), 0, -1)),
            ("least is 'x', expected an integer", lambda: window.wait_signal("x")),
            ("found signal 1", lambda: window.signal(0, 1)),
            ("x is read-only", lambda: comm.window(b"1234")),
        ):
            with self.assertRaisesRegex(tutti.Invalid, text):
                call()
        window.close()
        window.close()
        with self.assertRaisesRegex(tutti.Invalid, "the window is closed"):
            window.flush()

    def test_a_window_ends_with_its_communicator(self) -> None:
        other = comm.dup()
        window = other.window(np.zeros(2), 1)
        del window
        gc.collect()
        window = other.window(np.zeros(2), 1)
        comm.barrier()
        other.close()
        with self.assertRaisesRegex(tutti.Invalid, "the window is closed"):
            window.signal(0)

    def test_nobody_signals(self) -> None:
        other = comm.dup()
        window = other.window(signals=1)
        with self.assertRaisesRegex(tutti.Timeout, "it is 0, and not yet 1"):
            window.wait_signal(1, timeout=0.2)
        with self.assertRaises(tutti.Timeout):
            window.close()
        other.close()


class Requests(unittest.TestCase):
    def test_wait_and_done(self) -> None:
        request = comm.start_all_reduce(np.ones(100000))
        while not request.done():
            pass
        self.assertEqual(request.wait()[0], size)
        self.assertIs(request.wait(), request.wait())
        self.assertIsNone(comm.start_barrier().wait())

    @unittest.skipIf(size < 2, "needs two ranks")
    def test_a_wait_can_give_up(self) -> None:
        if rank == 0:
            request = comm.start_recv(np.empty(1), 1)
            with self.assertRaises(TimeoutError):
                request.wait(timeout=0.01)
            comm.barrier()
            self.assertEqual(request.wait(timeout=bound_s(10))[0], 1)
        else:
            comm.barrier()
            if rank == 1:
                comm.send(np.ones(1), 0)

    def test_requests_that_nobody_holds_go_on(self) -> None:
        for _ in range(20):
            comm.start_all_reduce(np.ones(1000))
        gc.collect()
        self.assertEqual(comm.all_reduce(np.array(1)), size)
        self.assertEqual(comm.start_all_reduce(np.array(1)).wait(), size)

    def test_await(self) -> None:
        async def both() -> None:
            for _ in range(10):
                a, b = await asyncio.gather(
                    comm.start_all_reduce(np.ones(50000)), comm.start_all_gather(np.array(rank))
                )
                self.assertEqual((a[0], b.tolist()), (size, list(range(size))))

        asyncio.run(both())
        asyncio.run(both())

    def test_threads_with_communicators_of_their_own(self) -> None:
        comms = [comm.dup() for _ in range(3)]
        found = []

        def work(own: tutti.Communicator) -> None:
            for _ in range(200):
                own.all_reduce(np.ones(3))
            found.append(own.all_reduce(np.array(1)).item())

        threads = [threading.Thread(target=work, args=(own,)) for own in comms]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [size] * 3)
        for own in comms:
            own.close()

    def test_an_array_may_hold_its_request(self) -> None:
        class Holder(np.ndarray):
            request: object = None

        for _ in range(20):
            other = comm.dup()
            x = np.ones(100000).view(Holder)
            x.request = other.start_all_reduce(x)
            comm.barrier()  # all have started it
            del x  # its end is that of the request
            other.close()

    def test_an_array_that_is_let_go_may_ask_for_its_request(self) -> None:
        found = []

        class Asking(np.ndarray):
            request: Any = None

            def __del__(self) -> None:
                if self.request is not None:
                    found.append((self.request.done(), self.request.wait()[0]))

        x = np.ones(1000).view(Asking)
        x.request = request = comm.start_all_reduce(x)
        del x
        request.wait()
        self.assertEqual(found, [(True, size)])

    @unittest.skipIf(size < 2, "needs two ranks")
    def test_a_thread_may_look_while_another_one_waits(self) -> None:
        request = comm.start_recv(np.empty(1), before, 8)

        def look() -> None:
            while not request.done():
                pass

        thread = threading.Thread(target=look)
        thread.start()
        for _ in range(50):
            with self.assertRaises(TimeoutError):
                request.wait(timeout=0.001)
        comm.barrier()
        comm.send(np.ones(1), nxt, 8)
        self.assertEqual(request.wait()[0], 1)
        thread.join()

    def test_a_result_is_made_once(self) -> None:
        """Also where another thread waits while it is made."""

        class Array(array.array):
            """Of a library whose arrays cannot be written."""

            __module__, dtype = "jax", "f8"

        def asarray(x: Any) -> Any:
            if not made:
                made.append(x)
                made.append(request.wait())
            return x.copy()

        made: List[Any] = []
        with mock.patch.dict(sys.modules, {"jax.numpy": mock.Mock(asarray=asarray)}):
            request = comm.start_all_reduce(Array("d", [1, 2]))
        self.assertIs(request.wait(), made[1])
        self.assertEqual(list(made[1]), [size, 2 * size])

    def test_close_ends_requests(self) -> None:
        other = comm.dup()
        request = other.start_recv(np.empty(1), tutti.ANY_RANK) if size > 1 else None
        comm.barrier()
        other.close()
        if request is not None:
            with self.assertRaises(tutti.Error):
                request.wait()


ranks.main()
