# SPDX-License-Identifier: BSD-3-Clause
"""Arrays on a GPU: every method puts the operation on a stream.

    gpu.py driver|cupy|torch

The arrays are of CUDA's driver alone, which the tests' stand-in is, or of a library on a real GPU.
"""

from __future__ import annotations

import sys
import types
import unittest
import unittest.mock
from typing import Any, Callable, Dict, List

import gpu_arrays
import numpy as np

LIBRARY = sys.argv.pop(1)
try:
    gpu = gpu_arrays.LIBRARIES[LIBRARY]()
    gpu.enter(0)
except Exception as missing:  # of many kinds
    print(f"skipped: {LIBRARY}: {missing}")
    sys.exit(77)

import ranks  # noqa: E402
import tutti  # noqa: E402
from everywhere import SUM, Everywhere  # noqa: E402
from ranks import comm, nxt, rank, size  # noqa: E402

get = gpu.get
kept: List[Any] = []


def put(x: Any, **options: Any) -> Any:
    """Stays until the end of the test: another stream may come to it when a call has returned."""
    kept.append(gpu.put(x, **options))
    return kept[-1]


other = comm.dup()  # not bound
comm.bind_cuda()
drivers_only = unittest.skipIf(LIBRARY != "driver", "arrays of the driver alone")
several_gpus = unittest.skipIf(gpu_arrays.devices() < 2, "there is one GPU")


def doomed() -> tutti.Communicator:
    """A communicator for a fault, which no rank meets while it is made."""
    made = comm.dup()
    made.bind_cuda()
    comm.barrier()
    return made


class OnStreams(unittest.TestCase):
    def tearDown(self) -> None:
        get(put(np.zeros(1)))  # all streams are at their end
        kept.clear()
        self.assertEqual(gpu_arrays.exported, {})  # no view is left
        comm.check()

    def same(self, x: Any, expected: Any) -> None:
        np.testing.assert_array_equal(get(x), expected)


class Binding(OnStreams):
    def test_the_device_is_known(self) -> None:
        self.assertEqual(comm.cuda_device, 0)
        self.assertIsNone(other.cuda_device)
        with comm.split(0) as part:
            self.assertIsNone(part.cuda_device)
            part.bind_cuda(0)
            self.assertEqual(part.cuda_device, 0)
            self.same(part.all_reduce(put(np.ones(3, "f4"))), np.full(3, size, "f4"))

    @drivers_only
    @several_gpus
    def test_the_current_device_is_taken(self) -> None:
        gpu_arrays.enter(1)
        with comm.dup() as there:
            there.bind_cuda()
            self.assertEqual(there.cuda_device, 1)
            self.same(there.all_reduce(put(np.ones(3, "f4"), device=1)), np.full(3, size, "f4"))
            there.barrier()
        gpu_arrays.enter(0)

    def test_wrong_devices(self) -> None:
        with self.assertRaisesRegex(tutti.Invalid, "bound to GPU 0 already"):
            comm.bind_cuda(0)
        with self.assertRaisesRegex(tutti.Invalid, "device 99, expected -1 or 0 to"):
            other.bind_cuda(99)
        with self.assertRaisesRegex(tutti.Invalid, "expected an integer"):
            other.bind_cuda("0")
        self.assertIsNone(other.cuda_device)


class Windows(OnStreams):
    def plan(self) -> Any:
        try:
            return comm.last_plan
        except tutti.Invalid:  # by the host, or between windows
            return None

    def test_registered_arrays(self) -> None:
        whole = put(np.full(3 << 18, rank, "f4"))
        comm.all_reduce(whole, out=whole)
        by_host = size > 1 and self.plan() is None
        with comm.register_cuda(whole):
            self.same(comm.all_reduce(whole, out=whole), np.full(3 << 18, SUM * size))
            self.assertTrue(by_host or self.plan() is None)
        window = comm.register_cuda(whole)
        window.close()
        window.close()  # it is closed
        comm.all_reduce(whole, out=whole)
        self.assertEqual(by_host, self.plan() is None and size > 1)
        get(whole)

    def test_windows_that_cannot_be(self) -> None:
        with self.assertRaisesRegex(tutti.Invalid, "expected an array in memory of the GPU"):
            comm.register_cuda(np.zeros(3))
        with self.assertRaisesRegex(tutti.Invalid, "bound to none"):
            other.register_cuda(put(np.zeros(3)))
        comm.all_reduce(put(np.zeros(1)))
        if size > 1 and self.plan():  # the ranks reach each other
            with self.assertRaisesRegex(tutti.Invalid, "expected the same on all ranks"):
                comm.register_cuda(put(np.zeros(1 + rank)))

    def test_the_communicator_ends_its_windows(self) -> None:
        with comm.dup() as made:
            made.bind_cuda()
            window = made.register_cuda(put(np.zeros(3)))
        window.close()


class Collectives(Everywhere, OnStreams):
    """The same as on the host, on the stream of the arrays' library, and on another one."""

    put, get = staticmethod(put), staticmethod(get)

    def ways(self) -> List[Dict[str, Any]]:
        return [{"stream": None}, {"stream": gpu.stream()}]

    def test_long_arrays(self) -> None:
        x = put(np.full(3 << 20, rank, "f4"))
        self.same(comm.all_reduce(x, stream=gpu.stream()), np.full(3 << 20, SUM))

    def test_lists_of_both_kinds_are_refused(self) -> None:
        if size > 1:
            x = np.ones(3, "f4")
            with self.assertRaisesRegex(tutti.Invalid, "all on GPUs or none"):
                comm.all_gather_v(put(x) if rank == 0 else x)

    @unittest.skipIf(size < 2, "needs two ranks")
    def test_a_rank_must_say_of_which_library_it_wants_its_array(self) -> None:
        blocks = [put(np.ones(1, "f4"))] * size if rank == 0 else None
        with self.assertRaisesRegex(tutti.Invalid, "like is None on rank 1"):
            comm.scatter_v(blocks)
        with self.assertRaisesRegex(tutti.Invalid, "rank 1 has elements of float64, rank 0 of f"):
            comm.scatter_v(blocks, like=np.ones(1))
        self.same(comm.scatter_v(blocks, like=put(np.ones(0, "f4"))), [1])


class Messages(OnStreams):
    @unittest.skipIf(size < 2, "needs two ranks")
    def test_send_and_recv(self) -> None:
        for stream in None, gpu.stream():
            if rank == 0:
                comm.send(put(np.arange(5.0)), 1, stream=stream)
            if rank == 1:
                x = put(np.zeros(5))
                self.assertIs(comm.recv(x, 0, stream=stream), x)
                self.same(x, np.arange(5.0))

    def test_barrier(self) -> None:
        stream = gpu.stream()
        release = gpu_arrays.block(gpu.handle(stream))
        self.assertIsNone(comm.barrier(stream=stream))
        release()
        comm.barrier(stream=0)
        gpu_arrays.synchronize()

    def test_deadlines(self) -> None:
        if size == 1:
            return
        with doomed() as pair:
            x = put(np.ones(3))
            if rank == 0:
                pair.all_reduce(x, timeout=0.2)  # the other ranks do not come
                get(x)
                with self.assertRaises(tutti.Timeout):
                    pair.all_reduce(x)
            comm.barrier()


class Order(OnStreams):
    def test_a_call_returns_before_its_stream_comes_to_it(self) -> None:
        stream, x = gpu.stream(), put(np.zeros(1000, "u1"))
        release = gpu_arrays.block(gpu.handle(stream))
        gpu_arrays.fill(gpu.pointer(x), 1, 1000, gpu.handle(stream))
        y = comm.all_reduce(x, stream=stream)
        comm.barrier()  # of the host: all are here, and no stream has moved
        release()
        self.same(y, np.full(1000, size))

    def test_operations_on_two_streams_follow_each_other(self) -> None:
        first, second, x = gpu.stream(), gpu.stream(), put(np.ones(1000, "f4"))
        release = gpu_arrays.block(gpu.handle(first))
        comm.all_reduce(x, out=x, stream=first)
        y = comm.all_reduce(x, stream=second)
        release()
        self.same(y, np.full(1000, size * size))

    def test_streams_as_numbers(self) -> None:
        stream = gpu.stream()
        for number in (0, 1, gpu.handle(stream)):
            self.same(comm.all_reduce(put(np.ones(3)), stream=number), [size] * 3)

    @drivers_only
    def test_the_arrays_tell_their_stream(self) -> None:
        stream = gpu.handle(gpu.stream())
        release = gpu_arrays.block(stream)
        x = put_late(np.ones(3, "u1"), stream)
        out = gpu_arrays.Array((3,), "u1")
        comm.all_reduce(x, out=out)  # on the stream of x
        self.assertEqual((x.asked, out.asked), ([stream], [stream]))
        comm.all_reduce(x, out=out)
        release()
        self.same(out, [size] * 3)

    @drivers_only
    def test_the_producers_work_comes_first(self) -> None:
        producer, consumer = gpu.handle(gpu.stream()), gpu.stream()
        release = gpu_arrays.block(producer)
        x = put_late(np.ones(3, "u1"), producer)
        y = comm.all_reduce(x, stream=consumer)
        self.assertEqual(x.asked, [gpu.handle(consumer)])
        release()
        self.same(y, [size] * 3)

    @drivers_only
    def test_the_current_streams_of_libraries(self) -> None:
        stream = gpu.handle(gpu.stream())
        now = types.SimpleNamespace(cuda_stream=stream, ptr=stream)
        library = types.SimpleNamespace(
            current_stream=lambda device: now, get_current_stream=lambda: now
        )
        for name in ("torch", "cupy"):
            kind = type("Tensor", (gpu_arrays.Array,), {"__module__": name + ".arrays"})
            x, out = kind((3,), "f4"), put(np.ones(3, "f4"))
            x[...] = 0
            with unittest.mock.patch.dict(sys.modules, {name: types.SimpleNamespace(cuda=library)}):
                self.same(comm.all_reduce(x, out=out), [0] * 3)
                self.same(comm.all_reduce(x, out=out, stream=now), [0] * 3)
            self.assertEqual(x.asked, [stream, stream])

    @drivers_only
    def test_pytorch_is_told_of_streams_that_were_given(self) -> None:
        told: List[Any] = []
        kind = type(
            "Tensor",
            (gpu_arrays.Array,),
            {"__module__": "torch", "record_stream": lambda x, stream: told.append((x, stream))},
        )
        x, out = kind((3,), "f4"), kind((3,), "f4")
        x[...] = 0
        own = type("Stream", (gpu_arrays.Stream,), {"__module__": "torch.cuda.streams"})()
        comm.all_reduce(x, out=out, stream=own)
        self.assertEqual(told, [(x, own), (out, own)])
        comm.all_reduce(x, out=out, stream=gpu.stream())  # which may end before the arrays
        self.assertEqual(len(told), 2)
        self.same(out, [0] * 3)

    @drivers_only
    def test_default_streams(self) -> None:
        for given, asked in {None: 1, 0: 1, 1: 1, 2: 2}.items():
            x = put(np.ones(3))
            self.same(comm.all_reduce(x, stream=given), [size] * 3)
            self.assertEqual(x.asked, [asked])

    @drivers_only
    def test_managed_memory(self) -> None:
        x = put(np.ones(3), managed=True, device=1)
        self.same(comm.all_reduce(x, out=x), [size] * 3)


def put_late(x: Any, stream: int) -> Any:
    """An array of bytes of one value, which its owner writes on a stream."""
    made = gpu_arrays.Array(x.shape, x.dtype, stream=stream)
    gpu_arrays.fill(made.pointer, int(x[0]), x.size, stream)
    return made


class Refusals(OnStreams):
    def setUp(self) -> None:
        self.x, self.host = put(np.ones(4, "f4")), np.ones(4, "f4")

    def refused(self, text: str, call: Callable[..., Any], *args: Any, **named: Any) -> None:
        with self.assertRaisesRegex(tutti.Invalid, text):
            call(*args, **named)

    def tearDown(self) -> None:
        self.same(comm.all_reduce(self.x), [size] * 4)
        super().tearDown()

    def test_a_communicator_that_is_not_bound(self) -> None:
        self.refused(r"call comm.bind_cuda\(0\)", other.all_reduce, self.x)
        self.refused("out is in memory of GPU 0", other.all_reduce, self.host, out=self.x)

    def test_requests(self) -> None:
        for name in ("all_reduce", "broadcast", "all_gather", "scan"):
            start = getattr(comm, "start_" + name)
            self.refused("no requests; call the form without start_", start, self.x)
        self.refused("no requests", other.start_all_reduce, self.x)

    def test_memory_of_both_kinds(self) -> None:
        self.refused("x is in memory of a GPU, out in memory of the host", comm.all_reduce, self.x,
                     out=self.host)  # fmt: skip
        self.refused("x is in memory of the host, out in memory of a GPU", comm.scan, self.host,
                     out=self.x)  # fmt: skip
        self.refused("scalar is in memory of GPU 0", comm.premul_sum, put(np.float32(1)))

    def test_messages(self) -> None:
        self.refused("tag is 3, expected 0", comm.send, self.x, nxt, 3)
        self.refused("tag is 3, expected 0", comm.recv, self.x, nxt, 3)
        self.refused("source is tutti.ANY_RANK", comm.recv, self.x, tutti.ANY_RANK)
        self.refused("no length; call recv", comm.recv_message, self.x)
        for start in (comm.start_send, comm.start_recv):
            self.refused("no requests", start, self.x, nxt)
        self.refused("inside a group only", comm.send, self.x, rank)
        self.refused("bind_cuda", other.send, self.x, nxt)
        self.refused("stream was given", comm.send, self.host, nxt, stream=1)
        self.refused("stream was given, but .*no requests", comm.start_barrier, stream=1)
        self.refused("stream was given.*bind_cuda", other.barrier, stream=1)
        self.refused("stream is 'main'", comm.barrier, stream="main")

    def test_lists(self) -> None:
        self.refused("bind_cuda", other.all_gather_v, self.x)
        with comm.group():
            self.refused("group open", comm.reduce_scatter_v, [self.x] * size)
            self.refused("bind_cuda.*group open", comm.bind_cuda)

    def test_streams(self) -> None:
        self.refused("stream was given, and", comm.all_reduce, self.host, stream=gpu.stream())
        self.refused("stream was given, and", comm.start_all_reduce, self.host, stream=1)
        self.refused("stream is 'main', expected", comm.all_reduce, self.x, stream="main")
        self.refused("stream is -1, expected", comm.all_reduce, self.x, stream=-1)

    def test_arguments(self) -> None:
        self.refused("op is 'mean'", comm.all_reduce, self.x, "mean")
        self.refused("band", comm.all_reduce, self.x, "band")
        self.refused("3 elements, expected 4", comm.all_reduce, self.x, out=put(np.ones(3, "f4")))
        self.refused("float64, x of float32", comm.all_reduce, self.x, out=put(np.ones(4)))
        both = put(np.ones(8, "f4"))
        self.refused("overlaps", comm.all_reduce, both[:4], out=both[1:5])

    @drivers_only
    @several_gpus
    def test_another_gpu(self) -> None:
        gpu_arrays.enter(1)
        there = put(np.ones(4, "f4"), device=1)
        gpu_arrays.enter(0)
        self.refused("GPU 1, expected GPU 0", comm.all_reduce, there)
        self.refused("out is in memory of GPU 1", comm.all_reduce, self.x, out=there)

    @drivers_only
    def test_arrays_with_gaps(self) -> None:
        self.x.strides = (2,)
        self.refused("do not follow each other", comm.all_reduce, self.x)
        self.x.strides = None

    @drivers_only
    def test_libraries_whose_arrays_cannot_be_written(self) -> None:
        class OfJax(gpu_arrays.Array):
            __module__ = "jaxlib.arrays"

        x = OfJax((4,), "f4")
        x[...] = 0
        self.refused("of JAX on a GPU", comm.all_reduce, x)
        self.same(comm.all_reduce(x, out=put(np.ones(4, "f4"))), [0] * 4)


class Faults(OnStreams):
    def test_calls_that_differ(self) -> None:
        if size == 1:
            return
        with doomed() as pair:
            x = put(np.ones(100, "f4"))
            if rank == 0:
                pair.all_reduce(x)
            else:
                pair.all_gather(x)
            get(x)
            with self.assertRaises(tutti.Mismatch):
                pair.check()


class References(OnStreams):
    def test_arrays_are_let_go(self) -> None:
        x, out, stream = put(np.ones(10)), put(np.ones(10)), gpu.stream()
        held = sys.getrefcount(x), sys.getrefcount(out), sys.getrefcount(stream)
        for _ in range(100):
            comm.all_reduce(x, out=out, stream=stream)
            comm.broadcast(x)
            with self.assertRaises(tutti.Invalid):
                comm.start_all_reduce(x, out=out)
            with self.assertRaises(tutti.Invalid):
                comm.all_reduce(x, out=out[:5])
        gpu_arrays.synchronize()
        if LIBRARY == "driver":
            x.asked.clear(), out.asked.clear()
        self.assertEqual((sys.getrefcount(x), sys.getrefcount(out), sys.getrefcount(stream)), held)


ranks.main()
