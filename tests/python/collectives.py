# SPDX-License-Identifier: BSD-3-Clause
"""Every collective gives what its documentation says, in all shapes and types."""

from __future__ import annotations

import array
import ctypes
import unittest

import numpy as np
import ranks
import tutti
from ranks import comm, rank, size

SUM = size * (size - 1) // 2
NUMBERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]


class Reductions(unittest.TestCase):
    def test_all_reduce_sums_every_type(self) -> None:
        for kind in NUMBERS:
            x = np.full((2, 3), rank, kind)
            y = comm.all_reduce(x)
            self.assertEqual((y.dtype, y.shape), (x.dtype, x.shape))
            np.testing.assert_array_equal(y, np.full((2, 3), SUM, kind))

    def test_operations(self) -> None:
        x = np.array([rank + 1])
        for op, expected in {"min": 1, "max": size, "sum": SUM + size}.items():
            self.assertEqual(comm.all_reduce(x, op)[0], expected)
        self.assertEqual(
            comm.all_reduce(x, op="".join(["pr", "od"]))[0], np.prod(np.arange(1, size + 1))
        )
        self.assertEqual(comm.all_reduce(np.array([float(rank)]), "avg")[0], (size - 1) / 2)
        self.assertEqual(comm.all_reduce(np.array([6]), "band")[0], 6)
        self.assertEqual(comm.all_reduce(np.array([1 << rank]), "bor")[0], (1 << size) - 1)

    def test_elements_may_travel_in_fewer_bytes(self) -> None:
        x = np.full(1000, 1 + 2**-20, "f4")
        with tutti.init(wire="bf16") as narrow:
            expected = size if size > 1 else x[0]
            np.testing.assert_array_equal(narrow.all_reduce(x), np.full(1000, expected, "f4"))
            self.assertEqual(narrow.all_reduce(x, "max")[0], x[0])
        with self.assertRaisesRegex(tutti.Invalid, "did you mean int8"):
            tutti.init(wire="int9")

    def test_bool_is_logical(self) -> None:
        x = np.array([rank == 0, True, False])
        self.assertEqual(comm.all_reduce(x).tolist(), [True, True, False])
        self.assertEqual(comm.all_reduce(x, "prod").tolist(), [size == 1, True, False])
        self.assertEqual(comm.all_reduce(x, "land").dtype, np.bool_)
        self.assertEqual(comm.all_reduce(x, "lxor").tolist(), [True, size % 2 == 1, False])

    def test_out_and_in_place(self) -> None:
        x, out = np.full(5, 1.0), np.zeros(5)
        self.assertIs(comm.all_reduce(x, out=out), out)
        self.assertEqual((x[0], out[0]), (1, size))
        self.assertIs(comm.all_reduce(x, out=x), x)
        self.assertEqual(x[0], size)

    def test_reduce_gives_the_root_alone_the_result(self) -> None:
        y = comm.reduce(np.ones((2, 2)), root=size - 1)
        if rank == size - 1:
            self.assertEqual(y.tolist(), [[size, size], [size, size]])
        else:
            self.assertIsNone(y)

    def test_reduce_scatter(self) -> None:
        x = np.arange(size * 4.0).reshape(size, 2, 2)
        np.testing.assert_array_equal(comm.reduce_scatter(x), size * x[rank])
        comm.reduce_scatter(x, out=x[rank])
        np.testing.assert_array_equal(
            x[rank], size * np.arange(rank * 4.0, rank * 4 + 4).reshape(2, 2)
        )

    def test_scans(self) -> None:
        self.assertEqual(comm.scan(np.array(rank)), rank * (rank + 1) // 2)
        self.assertEqual(comm.exscan(np.array(rank)), rank * (rank - 1) // 2)
        self.assertEqual(comm.exscan(np.array(7), out=np.array(5)), 5 if rank == 0 else 7 * rank)

    def test_premultiplied_sum(self) -> None:
        op = comm.premul_sum(np.float32(rank))
        self.assertEqual(comm.all_reduce(np.ones(2, "f4"), op).tolist(), [SUM, SUM])

    def test_reduce_scatter_v(self) -> None:
        y = comm.reduce_scatter_v([np.full((r, 2), r) for r in range(size)])
        np.testing.assert_array_equal(y, np.full((rank, 2), rank * size))


class Moves(unittest.TestCase):
    def test_broadcast_overwrites_or_fills_out(self) -> None:
        x = np.full(3, rank)
        self.assertIs(comm.broadcast(x, size - 1), x)
        self.assertEqual(x.tolist(), [size - 1] * 3)
        x[:] = rank
        out = comm.broadcast(x, 0, np.empty(3, x.dtype))
        self.assertEqual((x[0], out.tolist()), (rank, [0, 0, 0]))

    def test_all_gather_and_gather(self) -> None:
        x = np.array([[rank, rank]])
        expected = [[[r, r]] for r in range(size)]
        self.assertEqual(comm.all_gather(x).tolist(), expected)
        y = comm.gather(x, root=0)
        self.assertEqual(None if y is None else y.tolist(), expected if rank == 0 else None)
        out = np.zeros((size, 1, 2), int)
        out[rank] = x
        self.assertEqual(comm.all_gather(out[rank], out=out).tolist(), expected)

    def test_scatter(self) -> None:
        x = np.arange(size * 2).reshape(size, 2) if rank == 0 else None
        y = comm.scatter(x, out=None if rank == 0 else np.empty(2, int))
        self.assertEqual(y.tolist(), [2 * rank, 2 * rank + 1])

    def test_all_to_all(self) -> None:
        x = np.arange(size) * 100 + rank
        self.assertEqual(comm.all_to_all(x).tolist(), [100 * rank + r for r in range(size)])
        self.assertIs(comm.all_to_all(x, out=x), x)
        self.assertEqual(x.tolist(), [100 * rank + r for r in range(size)])

    def test_lists_of_arrays_that_differ(self) -> None:
        x = np.full((rank, 2), rank, "c8")  # of which each is two of the library's
        for r, part in enumerate(comm.all_gather_v(x)):
            np.testing.assert_array_equal(part, np.full((r, 2), r, "c8"))
        parts = comm.gather_v(x, size - 1)
        self.assertEqual(parts is None, rank != size - 1)
        blocks = [np.full(r + 1, r) for r in range(size)] if rank == 0 else None
        self.assertEqual(comm.scatter_v(blocks).tolist(), [rank] * (rank + 1))
        came = comm.all_to_all_v([np.full(r, rank) for r in range(size)])
        self.assertEqual([part.tolist() for part in came], [[r] * rank for r in range(size)])

    def test_other_types_are_moved_as_bytes(self) -> None:
        x = np.array(["one", "two"] if rank == 0 else ["", ""], "U3")
        self.assertEqual(comm.broadcast(x).tolist(), ["one", "two"])
        y = np.zeros(2, [("a", "i4"), ("b", "f8")])
        y["b"] = rank
        self.assertEqual(comm.all_gather(y)["b"][size - 1].tolist(), [size - 1] * 2)
        z = np.array([rank], "datetime64[s]")
        self.assertEqual(comm.all_reduce(z, "max")[0], np.datetime64(size - 1, "s"))

    def test_empty_arrays(self) -> None:
        self.assertEqual(comm.all_reduce(np.empty((0, 3))).shape, (0, 3))
        self.assertEqual(comm.all_gather(np.empty(0)).shape, (size, 0))


class OtherArrays(unittest.TestCase):
    def test_python_has_arrays_too(self) -> None:
        y = comm.all_reduce(array.array("d", [1, 2]))
        self.assertEqual((type(y), y.tolist()), (array.array, [size, 2.0 * size]))
        data = bytearray(b"abc" if rank == 0 else 3)
        self.assertEqual(comm.broadcast(data), b"abc")
        self.assertEqual(bytes(comm.all_gather(bytes([rank]))), bytes(range(size)))

    def test_shared_memory(self) -> None:
        x = tutti.empty((100, 100), "f4")
        x[:] = rank
        self.assertEqual(comm.all_reduce(x, out=x)[99, 99], SUM)
        y = tutti.empty(0)
        self.assertEqual(y.shape, (0,))

    def test_dlpack(self) -> None:
        class Plain:
            """An array that has nothing but DLPack."""

            def __init__(self, x: "np.ndarray") -> None:
                self.x = x

            def __dlpack__(self, **named: object) -> object:
                return self.x.__dlpack__(**named)

            def __dlpack_device__(self) -> object:
                return self.x.__dlpack_device__()

        x, out = np.full((2, 2), 1.5), np.zeros((2, 2))
        comm.all_reduce(Plain(x), out=Plain(out))
        self.assertEqual(out[1, 1], 1.5 * size)
        with self.assertRaisesRegex(tutti.Invalid, "do not follow each other"):
            comm.all_reduce(Plain(x[:, :1]), out=out)

    def test_dlpack_has_types_that_numpy_has_not(self) -> None:
        class Typed:
            """The bits of `x` are numbers of the type that DLPack has that code for."""

            def __init__(self, x: "np.ndarray", code: int) -> None:
                self.x, self.code = x, code

            def __dlpack__(self, **named: object) -> object:
                capsule = self.x.__dlpack__()
                at = pointer_of(capsule, b"dltensor")
                ctypes.c_uint8.from_address(at + 20).value = self.code
                return capsule

            def __dlpack_device__(self) -> object:
                return self.x.__dlpack_device__()

        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype = ctypes.c_void_p
        pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
        # bfloat16 and the two of 8 bits: the code, the bits of 1, and what twice as much has more
        types = ("u2", 4, 0x3F80, 0x80), ("u1", 10, 56, 8), ("u1", 12, 60, 4)
        for dtype, code, one, double in types:
            x, out = np.full(5, one if rank in (0, size - 1) else 0, dtype), np.zeros(5, dtype)
            comm.all_reduce(Typed(x, code), out=Typed(out, code))
            self.assertEqual(out.tolist(), [one + double * (size > 1)] * 5)


class Objects(unittest.TestCase):
    def test_objects_go_everywhere(self) -> None:
        self.assertEqual(comm.broadcast_object({"root": rank}, size - 1), {"root": size - 1})
        self.assertEqual(comm.all_gather_object("x" * rank), ["x" * r for r in range(size)])
        expected = [(r,) for r in range(size)] if rank == 0 else None
        self.assertEqual(comm.gather_object((rank,)), expected)
        values = [{r} for r in range(size)] if rank == 0 else None
        self.assertEqual(comm.scatter_objects(values), {rank})


class Communicators(unittest.TestCase):
    def test_split_and_dup(self) -> None:
        with comm.split(rank % 2, -rank) as half:
            self.assertEqual(half.size, (size + 1 - rank % 2) // 2)
            self.assertEqual(half.all_reduce(np.array(1)), half.size)
        self.assertIsNone(comm.split(-1))
        with comm.dup() as other:
            self.assertEqual((other.rank, other.size), (rank, size))
            other.barrier()
        self.assertTrue(other.closed)

    def test_what_it_says_of_itself(self) -> None:
        comm.all_reduce(np.ones(2))
        if size > 1:
            self.assertIsInstance(comm.last_plan.algorithm, str)
        self.assertEqual(comm.transport(rank), "none")
        self.assertIn(f"rank {rank} of {size}", repr(comm))
        self.assertEqual(comm.local_size, size)
        comm.check()


ranks.main()
