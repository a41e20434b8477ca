# SPDX-License-Identifier: BSD-3-Clause
"""Nothing is held longer than it is used: references, memory, descriptors."""

from __future__ import annotations

import array
import asyncio
import gc
import os
import sys
import unittest
import weakref
from typing import Callable

import numpy as np
import ranks
import tutti
from ranks import comm, size

ROUNDS = 300


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


class Leaks(unittest.TestCase):
    def keeps_nothing(self, call: Callable[[], object], megabytes: float = 4) -> None:
        for _ in range(30):
            call()
        gc.collect()
        memory, files = resident(), descriptors()
        for _ in range(ROUNDS):
            call()
        gc.collect()
        self.assertLess(resident() - memory, megabytes * 1e6)
        self.assertLessEqual(descriptors(), files)

    def test_references_to_arrays(self) -> None:
        x, out = np.ones(10), np.ones(10)
        before = sys.getrefcount(x), sys.getrefcount(out), sys.getrefcount(None)
        for _ in range(ROUNDS):
            comm.all_reduce(x, out=out)
            comm.broadcast(x)
            comm.start_all_reduce(x, "max", out=out).wait()
            with self.assertRaises(tutti.Invalid):
                comm.all_reduce(x, "nothing", out=out)
            with self.assertRaises(tutti.Invalid):
                comm.all_reduce(x, out=out[:5])
        after = sys.getrefcount(x), sys.getrefcount(out), sys.getrefcount(None)
        self.assertEqual(after[:2], before[:2])
        self.assertLess(abs(after[2] - before[2]), 100)

    def test_references_to_types(self) -> None:
        class Asking(np.ndarray):
            """While its type is looked at, there is a call with another one, as of another thread."""

            @property
            def __class__(self) -> type:  # type: ignore
                comm.all_reduce(bytearray(1))
                return Asking

        kept = array.array("d", [1])
        asking = np.ones(10).view(Asking)
        before = sys.getrefcount(array.array)
        for _ in range(ROUNDS):
            comm.all_reduce(kept)
            comm.all_reduce(asking)
        self.assertLess(abs(sys.getrefcount(array.array) - before), 10)

    def test_copies_of_arrays(self) -> None:
        dates, booleans = np.zeros(10, "M8[s]"), np.full(1 << 16, 2, "u1").view(bool)
        self.keeps_nothing(lambda: comm.all_reduce(dates, "max"))
        self.keeps_nothing(lambda: comm.start_all_reduce(booleans).wait())
        self.keeps_nothing(lambda: comm.all_to_all_v([booleans] * size))
        for wrong in dates.astype(">M8[s]"), np.ma.masked_array(dates), [dates]:
            before = sys.getrefcount(wrong)
            for _ in range(ROUNDS):
                with self.assertRaises(tutti.Invalid):
                    comm.all_reduce(wrong, "max")
            self.assertEqual(sys.getrefcount(wrong), before)

    def test_large_results(self) -> None:
        x = np.ones(1 << 17)
        self.keeps_nothing(lambda: comm.all_reduce(x))
        self.keeps_nothing(lambda: comm.start_all_gather(x[:1000]).wait())
        self.keeps_nothing(lambda: comm.all_gather_v(x[:1000]))

    def test_await(self) -> None:
        async def many() -> None:
            for _ in range(3):
                await comm.start_all_reduce(np.ones(1000))

        self.keeps_nothing(lambda: asyncio.run(many()))

    def test_objects_and_shared_memory(self) -> None:
        self.keeps_nothing(lambda: comm.all_gather_object(["x" * 10000]))
        self.keeps_nothing(lambda: comm.all_reduce(tutti.empty(100000)))

    def test_arrays_of_requests_that_nobody_holds_go(self) -> None:
        class Array(np.ndarray):
            """Of which there are weak references."""

        for call in comm.barrier, lambda: comm.all_reduce(np.ones(1)), lambda: comm.all_gather_v(np.ones(1)):
            x = np.ones(1000).view(Array)
            is_there = weakref.ref(x)
            comm.start_all_reduce(x)
            del x
            for _ in range(100):
                call()
            self.assertIsNone(is_there())

    def test_arrays_of_requests_stay_until_they_end(self) -> None:
        for _ in range(50):
            request = comm.start_all_reduce(np.full(100000, 1.0))
            junk = np.zeros(100000)
            self.assertEqual(request.wait()[-1] + junk[0], size)


ranks.main()
