# SPDX-License-Identifier: BSD-3-Clause
"""What every collective gives, in memory of the host (collectives.py) and of a GPU (gpu.py)."""

from __future__ import annotations

from typing import Any, Dict, Iterable

import numpy as np
from ranks import before, comm, nxt, rank, size

SUM = size * (size - 1) // 2


class Everywhere:
    """Beside unittest.TestCase, which has the assertions."""

    KINDS = ["i1", "u1", "i4", "i8", "f2", "f4", "f8", "c8"]

    def put(self, x: Any) -> Any:
        """An array of the memory that is tested; get() is the way back."""
        return x

    def get(self, x: Any) -> Any:
        return x

    def ways(self) -> Iterable[Dict[str, Any]]:
        """Arguments with which each call is made once more."""
        return ({},)

    def same(self, x: Any, expected: Any) -> None:
        np.testing.assert_array_equal(self.get(x), expected)

    # ---- reductions

    def test_all_reduce_sums_every_type(self) -> None:
        for kind in self.KINDS:
            y = self.get(comm.all_reduce(self.put(np.full((2, 3), rank, kind))))
            self.assertEqual((y.dtype, y.shape), (np.dtype(kind), (2, 3)))
            np.testing.assert_array_equal(y, np.full((2, 3), SUM, kind))
        y = comm.all_reduce(self.put(np.array([rank == 0, True, False])))
        self.same(y, [True, True, False])

    def test_operations(self) -> None:
        x = self.put(np.full(5, rank + 1, "i4"))
        for op, expected in {"min": 1, "max": size, "prod": np.prod(range(1, size + 1))}.items():
            self.same(comm.all_reduce(x, op), np.full(5, expected))
        scaled = comm.premul_sum(np.float32(rank))
        self.same(comm.all_reduce(self.put(np.ones(2, "f4")), scaled), [SUM, SUM])

    def test_out_and_in_place(self) -> None:
        for way in self.ways():
            x, out = self.put(np.ones(1000, "f4")), self.put(np.zeros(1000, "f4"))
            self.assertIs(comm.all_reduce(x, out=out, **way), out)
            self.same(out, np.full(1000, size))
            self.same(x, np.ones(1000))
            self.assertIs(comm.all_reduce(x, out=x, **way), x)
            self.same(x, np.full(1000, size))

    def test_reduce_gives_the_root_alone_the_result(self) -> None:
        for way in self.ways():
            y = comm.reduce(self.put(np.ones((2, 2))), root=size - 1, **way)
            if rank == size - 1:
                self.same(y, np.full((2, 2), size))
            else:
                self.assertIsNone(y)

    def test_reduce_scatter(self) -> None:
        for way in self.ways():
            x = np.arange(size * 4.0).reshape(size, 2, 2)
            y = comm.reduce_scatter(self.put(x), **way)
            self.assertEqual(tuple(y.shape), (2, 2))
            self.same(y, size * x[rank])

    def test_scans(self) -> None:
        for way in self.ways():
            x = self.put(np.full(3, rank, "i4"))
            self.same(comm.scan(x, **way), np.full(3, rank * (rank + 1) // 2))
            self.same(comm.exscan(x, **way), np.full(3, rank * (rank - 1) // 2))
            out = self.put(np.full(3, 5, "i4"))
            comm.exscan(self.put(np.full(3, 7, "i4")), out=out, **way)
            self.same(out, np.full(3, 5 if rank == 0 else 7 * rank))

    # ---- moves

    def test_broadcast_overwrites_or_fills_out(self) -> None:
        for way in self.ways():
            x = self.put(np.full(3, rank))
            self.assertIs(comm.broadcast(x, size - 1, **way), x)
            self.same(x, [size - 1] * 3)
            x, out = self.put(np.full(3, rank)), self.put(np.zeros(3, int))
            comm.broadcast(x, 0, out, **way)
            self.same(out, [0, 0, 0])
            self.same(x, [rank] * 3)

    def test_all_gather_and_gather(self) -> None:
        for way in self.ways():
            x = self.put(np.array([[rank, rank]]))
            expected = [[[r, r]] for r in range(size)]
            self.same(comm.all_gather(x, **way), expected)
            y = comm.gather(x, size - 1, **way)
            self.assertEqual(y is None, rank != size - 1)
            if y is not None:
                self.same(y, expected)

    def test_scatter_and_all_to_all(self) -> None:
        for way in self.ways():
            x = self.put(np.arange(size * 2).reshape(size, 2)) if rank == 0 else None
            out = None if rank == 0 else self.put(np.zeros(2, int))
            self.same(comm.scatter(x, out=out, **way), [2 * rank, 2 * rank + 1])
            x = self.put(np.arange(size) * 100 + rank)
            self.same(comm.all_to_all(x, **way), [100 * rank + r for r in range(size)])

    def test_empty_arrays(self) -> None:
        self.assertEqual(tuple(comm.all_reduce(self.put(np.empty((0, 3)))).shape), (0, 3))
        self.assertEqual(tuple(comm.all_gather(self.put(np.empty(0))).shape), (size, 0))

    # ---- lists of arrays that differ

    def test_gathered(self) -> None:
        x = np.full((rank, 2), rank, "f4")
        for r, part in enumerate(comm.all_gather_v(self.put(x))):
            self.same(part, np.full((r, 2), r, "f4"))
        parts = comm.gather_v(self.put(x), size - 1)
        self.assertEqual(parts is None, rank != size - 1)
        for r, part in enumerate(parts or []):
            self.same(part, np.full((r, 2), r, "f4"))

    def test_scattered(self) -> None:
        blocks = None
        if rank == 0:
            blocks = [self.put(np.full((r + 1, 2), r, "f4")) for r in range(size)]
        came = comm.scatter_v(blocks, like=self.put(np.empty(0, "f4")))
        self.assertEqual(tuple(came.shape), (rank + 1, 2))
        self.same(came, np.full((rank + 1, 2), rank))

    def test_all_to_all_and_reduce_scatter(self) -> None:
        came = comm.all_to_all_v([self.put(np.full(r, rank)) for r in range(size)])
        for r, part in enumerate(came):
            self.same(part, [r] * rank)
        y = comm.reduce_scatter_v([self.put(np.full((r, 2), r)) for r in range(size)])
        self.same(y, np.full((rank, 2), rank * size))

    # ---- groups

    def test_a_group_makes_progress_together(self) -> None:
        for way in self.ways():
            x, out = self.put(np.full(1000, rank, "i4")), self.put(np.zeros(1000, "i4"))
            with comm.group():
                comm.send(x, nxt, **way)
                comm.recv(out, before, **way)
                total = comm.all_reduce(x, **way)
                on_the_host = comm.all_reduce(np.ones(3))
            self.same(out, np.full(1000, before))
            self.same(total, np.full(1000, SUM))
            self.assertEqual(on_the_host.tolist(), [size] * 3)

    def test_a_group_may_have_a_request(self) -> None:
        with comm.group(wait=False) as group:
            total = comm.all_reduce(self.put(np.ones(3)))
        group.request.wait()
        self.same(total, [size] * 3)
