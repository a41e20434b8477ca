# SPDX-License-Identifier: BSD-3-Clause
"""Every collective gives what its documentation says, in all shapes and types."""

from __future__ import annotations

import array
import ctypes
import unittest

import numpy as np
import ranks
import tutti
from everywhere import SUM, Everywhere
from ranks import comm, rank, size

with_dlpack = unittest.skipUnless(hasattr(np.ndarray, "__dlpack__"), "needs NumPy 1.22")


class OnTheHost(Everywhere, unittest.TestCase):
    KINDS = Everywhere.KINDS + ["i2", "u2", "u4", "u8", "c16"]


class Reductions(unittest.TestCase):
    def test_operations_of_the_host_alone(self) -> None:
        x = np.array([rank + 1])
        self.assertEqual(comm.all_reduce(x, op="".join(["su", "m"]))[0], SUM + size)
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

    def test_the_own_part_may_be_the_output(self) -> None:
        x = np.arange(size * 4.0).reshape(size, 2, 2)
        expected = size * x[rank]
        comm.reduce_scatter(x, out=x[rank])
        np.testing.assert_array_equal(x[rank], expected)
        out = np.zeros((size, 2), int)
        out[rank] = rank
        comm.all_gather(out[rank], out=out)
        self.assertEqual(out.tolist(), [[r, r] for r in range(size)])


class OtherArrays(unittest.TestCase):
    def test_python_has_arrays_too(self) -> None:
        y = comm.all_reduce(array.array("d", [1, 2]))
        self.assertEqual((type(y), y.tolist()), (array.array, [size, 2.0 * size]))
        data = bytearray(b"abc" if rank == 0 else 3)
        self.assertEqual(comm.broadcast(data), b"abc")
        self.assertEqual(bytes(comm.all_gather(bytes([rank]))), bytes(range(size)))

    def test_dates_may_be_scalars(self) -> None:
        for date in np.datetime64(rank, "s"), np.timedelta64(rank, "s"):
            self.assertEqual(comm.all_reduce(date, "max"), date - rank + size - 1)

    def test_structures_are_of_one_type_however_they_are_aligned(self) -> None:
        for last in "i4", "g":
            x = np.zeros(1 + 2 * rank, [("x", "f8"), ("n", "i8"), ("last", last)])
            x["n"] = rank
            for part in comm.all_gather_v(x):
                self.assertEqual(part.dtype, x.dtype)
            self.assertEqual(comm.all_gather(x[0])["n"].tolist(), list(range(size)))
            self.assertEqual(comm.all_gather(x[:1])["n"].ravel().tolist(), list(range(size)))

    def test_structures_in_lists_may_have_gaps(self) -> None:
        spread = {"names": ["a", "b"], "formats": ["i1", ">f8"], "offsets": [0, 9], "itemsize": 32}
        x = np.full(2, (rank, rank), spread)
        for r, part in enumerate(comm.all_to_all_v([x] * size)):
            self.assertEqual((part.dtype, part["b"].tolist()), (x.dtype, [r, r]))

    def test_shared_memory(self) -> None:
        x = tutti.empty((100, 100), "f4")
        x[:] = rank
        self.assertEqual(comm.all_reduce(x, out=x)[99, 99], SUM)
        y = tutti.empty(0)
        self.assertEqual(y.shape, (0,))

    @with_dlpack
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

    @with_dlpack
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
