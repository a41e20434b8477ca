# SPDX-License-Identifier: BSD-3-Clause
"""Bad input is refused before anything is sent, and the text says what to do."""

from __future__ import annotations

import ctypes
import os
import struct
import unittest
from functools import partial
from typing import Any, Callable

import numpy as np
import ranks
import tutti
from tutti import _meeting
from ranks import comm, rank, size

X = np.ones(4)


class Closing:
    """An array or number that closes a communicator when it is looked at, as another thread can."""

    def __init__(self, comm: tutti.Communicator) -> None:
        self.comm = comm

    def __float__(self) -> float:
        self.comm.close()
        return 1.0

    def __index__(self) -> int:
        self.comm.close()
        return 0

    if hasattr(np.ndarray, "__dlpack__"):  # NumPy 1.22

        def __dlpack__(self, **named: Any) -> Any:
            self.comm.close()
            return X[:1].__dlpack__()

        def __dlpack_device__(self) -> Any:
            return X.__dlpack_device__()


class Refusals(unittest.TestCase):
    def refused(self, text: str, call: Callable[..., Any], *args: Any, **named: Any) -> None:
        with self.assertRaisesRegex(tutti.Invalid, text):
            call(*args, **named)

    def tearDown(self) -> None:
        self.assertEqual(comm.all_reduce(np.array(1)), size)

    def test_arrays(self) -> None:
        self.refused("numpy.ascontiguousarray", comm.all_reduce, np.ones((4, 4)).T)
        self.refused("numpy.ascontiguousarray", comm.all_reduce, np.ones(8)[::2])
        self.refused("expected an array", comm.all_reduce, [1, 2])
        self.refused("expected an array", comm.all_reduce, 3.0)
        self.refused("..._object", comm.all_gather, np.array([{}]))
        self.refused("byte order", comm.all_reduce, np.ones(2, ">f8"))

    def test_masks(self) -> None:
        masked = np.ma.masked_array([1.0, 2.0], [False, True])
        self.refused("mask would be lost.*filled", comm.all_reduce, masked)
        self.refused("out is a masked", comm.all_reduce, np.ones(2), out=masked)
        self.refused("mask would be lost", comm.broadcast, masked.astype("M8[s]"))
        self.refused(r"arrays\[0\] is a masked", comm.all_to_all_v, [masked] * size)

    def test_lists(self) -> None:
        mixed = [np.ones(4), *[np.ones(4, "f4")] * (size - 1)]
        mine = partial(comm.scatter_v, root=rank)
        for call in (comm.reduce_scatter_v, comm.all_to_all_v, mine):
            self.refused("expected a list", call, [X] * (size + 1))
            self.refused("expected a list", call, 5)
            self.refused(r"arrays\[0\] .* expected numbers", call, [X.astype(">f8")] * size)
            for arrays in (mixed, mixed[::-1]) if size > 1 else ():
                self.refused("expected one type", call, arrays)
        if size > 1:
            other = np.ones(2, "f4" if rank == 0 else "c8")
            self.refused("rank 1 has elements of complex64", comm.all_gather_v, other)
            blocks = [X] * size if rank == 0 else None
            self.refused("expected one type", comm.scatter_v, blocks, like=np.ones(1, "f4"))
        self.refused("timeout is", comm.all_gather_v, X, timeout=-1)
        with comm.group():
            self.refused("group open", comm.all_gather_v, X)
            self.refused("group open", comm.broadcast_object, X)
            self.refused("group open", comm.send_object, X, 0)
            self.refused("group open", comm.recv_object, 0)
        for method in "broadcast_object", "all_gather_object", "gather_object", "scatter_objects":
            self.refused("timeout is", getattr(comm, method), [X] * size, timeout=-1)

    def test_memory_of_a_gpu(self) -> None:
        class OnGpu:
            """DLPack's description of an array on GPU 1, of which nothing is read."""

            def __init__(self) -> None:
                shape = (ctypes.c_int64 * 1)(4)
                words = struct.pack(
                    "PiiiBBHPPQ", 1 << 40, 2, 1, 1, 2, 32, 1, ctypes.addressof(shape), 0, 0
                )
                self.held = ctypes.create_string_buffer(words + bytes(16)), shape

            def __dlpack__(self) -> Any:
                new = ctypes.pythonapi.PyCapsule_New
                new.restype = ctypes.py_object
                new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
                return new(ctypes.addressof(self.held[0]), b"dltensor", None)

        self.refused("memory of GPU 1", comm.all_reduce, OnGpu(), out=np.ones(4, "f4"))
        self.refused("memory of GPU 1", comm.all_reduce, np.ones(4, "f4"), out=OnGpu())
        self.refused("memory of GPU 1", comm.send, OnGpu(), 0)
        self.refused("bind_cuda", comm.all_reduce, OnGpu())

    def test_outputs(self) -> None:
        frozen = np.ones(4)
        frozen.flags.writeable = False
        self.refused("read-only", comm.all_reduce, X, out=frozen)
        self.refused("read-only", comm.all_reduce, X, out=bytes(32))
        self.refused("3 elements, expected 4", comm.all_reduce, X, out=np.ones(3))
        self.refused("float32, x of float64", comm.all_reduce, X, out=np.ones(4, "f4"))
        self.refused("uint8, x of bool", comm.all_reduce, X > 0, out=np.ones(4, "u1"))
        late, early = np.zeros(4, "M8[s]"), np.zeros(4, "M8[ms]")
        self.refused(r"datetime64\[ms\], x of", comm.all_reduce, late, "max", out=early)
        self.refused("of 4s, x of 1w", comm.all_gather, np.array("a"), out=np.zeros(size, "S4"))
        self.refused("read-only", comm.all_reduce, late[:1], "max", out=np.datetime64(0, "s"))
        both = np.ones(8)
        self.refused("overlaps", comm.all_reduce, both[:4], out=both[1:5])
        if size > 1:
            self.refused("at the root", comm.reduce, X, root=(rank + 1) % size, out=X)

    def test_operations(self) -> None:
        self.refused("op is 'mean'", comm.all_reduce, X, "mean")
        self.refused("op is 3", comm.all_reduce, X, 3)
        self.refused("not defined for complex128", comm.all_reduce, X * 1j, "max")
        self.refused("not defined for bool", comm.all_reduce, X > 0, "avg")
        self.refused("band", comm.all_reduce, X, "band")
        self.refused("not reduce", comm.all_reduce, np.array(["a"]))
        self.refused("expected 'min' or 'max'", comm.all_reduce, np.zeros(1, "M8[s]"))
        self.refused("expected 'sum', 'min'", comm.all_reduce, np.zeros(1, "m8[s]"), "prod")
        self.refused("byte order", comm.all_reduce, np.zeros(1, ">M8[s]"), "min")
        self.refused("expected numbers", comm.all_reduce, X > 0, comm.premul_sum(np.uint8(1)))

    def test_ranks_tags_shapes_times(self) -> None:
        self.refused("root is", comm.broadcast, X, size)
        self.refused("expected an integer", comm.broadcast, X, "0")
        self.refused("expected a rank", comm.send, X, -1)
        self.refused("tag is -1", comm.send, X, 0, -1)
        self.refused("a block for each rank", comm.all_to_all, np.ones(size + 1))
        self.refused("no dimension", comm.reduce_scatter, np.array(1))
        self.refused("timeout is", comm.all_reduce, X, timeout=-1)
        with self.assertRaisesRegex(TypeError, "no argument 'ouput'"):
            comm.all_reduce(X, ouput=X)
        with self.assertRaisesRegex(TypeError, "not given 'x'"):
            comm.all_reduce()

    def test_closed(self) -> None:
        other = comm.dup()
        other.close()
        other.close()
        self.refused("is closed", other.all_reduce, X)
        self.refused("is closed", other.split, 0)

    def test_closed_while_arguments_are_taken(self) -> None:
        of_arrays = (
            lambda own, it: own.all_reduce(it, out=np.ones(1)),
            lambda own, it: own.premul_sum(it),
        )
        for make_call in (
            *of_arrays * hasattr(Closing, "__dlpack__"),
            lambda own, it: own.all_reduce(X, timeout=it),
            lambda own, it: own.reduce_scatter_v([X] * size, timeout=it),
            lambda own, it: own.start_broadcast(X, it),
            lambda own, it: own.send(X, it),
            lambda own, it: own.barrier(timeout=it),
            lambda own, it: own.group(timeout=it).__enter__(),
            lambda own, it: own.split(it),
            lambda own, it: own.dup(timeout=it),
            lambda own, it: own.transport(it),
            lambda own, it: own.window(np.ones(1), timeout=it),
            lambda own, it: own.window(np.ones(1)).put(X[:1], it),
            lambda own, it: own.window(np.ones(1)).nbytes(it),
        ):
            own = comm.dup()
            self.refused("is closed", make_call, own, Closing(own))
            own.close()

    def test_groups(self) -> None:
        with comm.group():
            self.refused("group open", comm.start_all_reduce, X)
            self.refused("group open", comm.split, 0)

    def test_what_is_refused_in_a_group_says_nothing_of_the_next_call(self) -> None:
        with comm.group():
            if rank == 0:
                booleans = X > 0
                self.refused("group open", comm.start_all_reduce, booleans)
                self.refused("group open", comm.start_send, booleans, 0)
                self.refused("group open", comm.recv_message, booleans, 0)
                self.refused("group open", comm.start_barrier)
            total = comm.all_reduce(X)
        self.assertEqual(list(total), list(size * X))

    def test_settings(self) -> None:
        self.refused("transport", tutti.init, transports="pigeon")
        self.refused("without a method", tutti.Communicator, 5, 0, 1)
        self.refused("rank is 'a', expected", tutti.Communicator, {}, "a", 1)
        self.refused("transports is 5", tutti.init, transports=5)

    def test_memory(self) -> None:
        for bytes in (0, -1, 2**70, "x", 1.5):
            self.refused("bytes is .*, expected", tutti.Memory, bytes)
        for shape in ("x", -1, 2.5, (2, -1), (2, "a"), None):
            self.refused("shape is .*, expected an integer", tutti.empty, shape)
        for dtype in ("nosuch", object, [("a", "O")]):
            self.refused("dtype is .*, expected a type", tutti.empty, 3, dtype)
        self.refused("shape is", tutti.empty, [1] * 99)
        self.assertEqual(tutti.empty(np.int64(3), "i1").shape, (3,))

    def test_types_that_the_library_alone_makes(self) -> None:
        base = tutti.Communicator.__mro__[1]
        for kind in (tutti.Request, tutti.Op, tutti.Window, base):
            for make in (kind, lambda: kind.__new__(kind), lambda: object.__new__(kind)):
                with self.assertRaises(TypeError):
                    make()
        with self.assertRaisesRegex(TypeError, r"Request\(\).*comm.start_all_reduce"):
            tutti.Request()
        with self.assertRaises(TypeError):
            object.__new__(tutti.Communicator)

    def test_texts_and_numbers(self) -> None:
        self.refused("reason is 5, expected a string", comm.abort, 5)
        self.refused("address is 5, expected a string", tutti.Store, 5)
        self.refused("fd is 'x', expected an integer", comm.start_barrier().notify_fd, "x")
        with self.assertRaisesRegex(tutti.Invalid, "found rank -1"):
            comm.window(np.zeros(1)).put(X[:1], None)

    def test_what_an_engine_carries(self) -> None:
        found = _meeting.place_of(b"tcp://host:1 00ff")
        self.assertEqual(found, _meeting.Place("tcp://host:1", "00ff"))
        for text in (b"", b"tcp://host:1", b"tcp://host:1 00 ff", b"\xff\xfe"):
            with self.assertRaisesRegex(tutti.Unsupported, "expected an address and a key"):
                _meeting.place_of(text)

    def test_a_child_of_fork(self) -> None:
        child = os.fork()
        if child == 0:
            try:
                comm.all_reduce(X)
            except tutti.Invalid as error:
                os._exit(0 if "fork" in str(error) else 2)
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_errors_are_those_of_python_too(self) -> None:
        self.assertTrue(issubclass(tutti.Invalid, ValueError))
        self.assertTrue(issubclass(tutti.Timeout, TimeoutError))
        self.assertTrue(issubclass(tutti.NoMemory, MemoryError))


ranks.main()
