# SPDX-License-Identifier: BSD-3-Clause
"""Arrays on a GPU for the tests: of CUDA's driver alone, of CuPy, of PyTorch.

The driver is that of the library: TUTTI_CUDA_LIBRARY names the tests' stand-in. Each class of
arrays has put() and get() from and to NumPy, and stream(). get() waits for all that is on the GPU.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

NUMBER = ctypes.c_uint64
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # DLPack's, by NumPy's kind


def _driver() -> Any:
    return ctypes.CDLL(os.environ.get("TUTTI_CUDA_LIBRARY", "libcuda.so.1"))


def call(name: str, *args: Any) -> None:
    """Call a function of the driver, which gives 0."""
    result = getattr(_driver(), name)(*args)
    if result:
        raise RuntimeError(f"{name} gave {result}")


def devices() -> int:
    """How many GPUs there are."""
    count = ctypes.c_int()
    call("cuInit", 0)
    call("cuDeviceGetCount", ctypes.byref(count))
    return count.value


def enter(device: int) -> None:
    """Make the primary context of the GPU that of this thread, as CUDA's runtime does."""
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)


def synchronize() -> None:
    call("cuCtxSynchronize")


class Stream:
    """A stream of the driver's. It knows __cuda_stream__() alone."""

    def __init__(self) -> None:
        self.handle = ctypes.c_void_p()
        call("cuStreamCreate", ctypes.byref(self.handle), 1)  # not behind the default stream

    def __cuda_stream__(self) -> Tuple[int, int]:
        return 0, self.handle.value or 0


_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_held: List[Any] = []


def block(stream: int) -> Callable[[], None]:
    """Hold up a stream, until what is given back is called."""
    event = threading.Event()
    function = _HOST_FUNCTION(lambda unused: (event.wait(30), None)[1])
    _held.append(function)  # the driver calls it later
    call("cuLaunchHostFunc", ctypes.c_void_p(stream), function, None)
    return event.set


def fill(pointer: int, byte: int, count: int, stream: int) -> None:
    """Put on the stream that bytes get a value."""
    call("cuMemsetD8Async", NUMBER(pointer), byte, ctypes.c_size_t(count), ctypes.c_void_p(stream))


# ---------------------------------------------------------------- arrays of the driver

exported: Dict[int, Any] = {}  # what capsules point to, until they end
_CAPSULE_END = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _CAPSULE_END]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


@_CAPSULE_END
def _end(capsule: int) -> None:
    del exported[_pointer(capsule, b"dltensor")]


class Memory:
    def __init__(self, size: int, managed: bool) -> None:
        address = NUMBER()
        size = ctypes.c_size_t(max(size, 1))  # type: ignore
        if managed:
            call("cuMemAllocManaged", ctypes.byref(address), size, 1)
        else:
            call("cuMemAlloc_v2", ctypes.byref(address), size)
        self.address = address.value

    def __del__(self) -> None:
        call("cuMemFree_v2", NUMBER(self.address))  # when all that is on the GPU has ended


class Array:
    """A C-contiguous array, on whose stream its owner works. `asked`: streams of DLPack's."""

    def __init__(
        self,
        shape: Tuple[int, ...],
        dtype: Any,
        device: int = 0,
        stream: int = 1,
        managed: bool = False,
        memory: Optional[Memory] = None,
        offset: int = 0,
    ) -> None:
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.device, self.stream, self.managed = device, stream, managed
        self.memory = memory or Memory(self.count * self.dtype.itemsize, managed)
        self.pointer = self.memory.address + offset
        self.strides: Optional[Tuple[int, ...]] = None
        self.asked: List[Any] = []

    @property
    def count(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    def _part(self, shape: Tuple[int, ...], offset: int) -> "Array":
        offset = self.pointer - self.memory.address + offset * self.dtype.itemsize
        kind = type(self)
        return kind(
            shape, self.dtype, self.device, self.stream, self.managed, self.memory, offset
        )

    def __getitem__(self, key: Any) -> "Array":
        inner = int(np.prod(self.shape[1:], dtype=int))
        if isinstance(key, slice):
            start, stop, _ = key.indices(self.shape[0])
            return self._part((stop - start, *self.shape[1:]), start * inner)
        return self._part(self.shape[1:], key * inner)

    def __setitem__(self, key: Any, value: int) -> None:
        assert key is Ellipsis and value == 0
        fill(self.pointer, 0, self.count * self.dtype.itemsize, self.stream)

    def reshape(self, shape: Tuple[int, ...]) -> "Array":
        return self._part((self.count,) if shape == (-1,) else shape, 0)

    def __array_namespace__(self) -> Any:
        return Driver

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        return {"stream": self.stream, "version": 3}

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (13 if self.managed else 2), self.device

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        """Version 0. The consumer's stream comes after ours."""
        self.asked.append(stream)
        if stream not in (None, self.stream):
            event = ctypes.c_void_p()
            call("cuEventCreate", ctypes.byref(event), 2)
            call("cuEventRecord", event, ctypes.c_void_p(self.stream))
            call("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)
            call("cuEventDestroy_v2", event)
        numbers = (ctypes.c_int64 * max(2 * len(self.shape), 1))(*self.shape, *(self.strides or ()))
        shape = ctypes.addressof(numbers)
        words = struct.pack(
            "PiiiBBHPPQPP", self.pointer, *self.__dlpack_device__(), len(self.shape),
            _CODES[self.dtype.kind], 8 * self.dtype.itemsize, 1, shape,
            shape + 8 * len(self.shape) if self.strides else 0, 0, 0, 0,
        )  # fmt: skip
        held = ctypes.create_string_buffer(words)
        exported[ctypes.addressof(held)] = held, numbers, self
        return _new(ctypes.addressof(held), b"dltensor", _end)


class Driver:
    """Also the namespace of its arrays."""

    @staticmethod
    def enter(device: int) -> None:
        enter(device)

    @staticmethod
    def stream() -> Any:
        return Stream()

    @staticmethod
    def handle(stream: Stream) -> int:
        return stream.__cuda_stream__()[1]

    @staticmethod
    def pointer(x: Array) -> int:
        return x.pointer

    @staticmethod
    def put(x: Any, **named: Any) -> Array:
        x = np.asarray(x, order="C")
        made = Array(x.shape, x.dtype, **named)
        size = ctypes.c_size_t(x.nbytes)
        if x.nbytes:
            call("cuMemcpyAsync", NUMBER(made.pointer), NUMBER(x.ctypes.data), size, None)
            synchronize()
        return made

    @staticmethod
    def get(x: Array) -> Any:
        made = np.empty(x.shape, x.dtype)
        size = ctypes.c_size_t(made.nbytes)
        synchronize()
        if made.nbytes:
            call("cuMemcpyAsync", NUMBER(made.ctypes.data), NUMBER(x.pointer), size, None)
            synchronize()
        return made

    # the namespace
    @staticmethod
    def empty(shape: Tuple[int, ...], *, dtype: Any, device: int) -> Array:
        return Array(shape, dtype, device)

    @staticmethod
    def reshape(x: Array, shape: Tuple[int, ...]) -> Array:
        return x.reshape(shape)

    @staticmethod
    def concat(arrays: List[Array]) -> Array:
        made = Array((sum(x.count for x in arrays),), arrays[0].dtype, arrays[0].device)
        at = made.pointer
        for x in arrays:
            size = x.count * x.dtype.itemsize
            if size:
                call("cuMemcpyAsync", NUMBER(at), NUMBER(x.pointer), ctypes.c_size_t(size), None)
            at += size
        return made


# ---------------------------------------------------------------- libraries on a real GPU


class CuPy:
    def __init__(self) -> None:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
        self.cupy = cupy

    def enter(self, device: int) -> None:
        self.cupy.cuda.Device(device).use()

    def stream(self) -> Any:
        return self.cupy.cuda.Stream(non_blocking=True)

    def handle(self, stream: Any) -> int:
        return int(stream.ptr)

    def pointer(self, x: Any) -> int:
        return int(x.data.ptr)

    def put(self, x: Any) -> Any:
        made = self.cupy.asarray(x)
        self.cupy.cuda.get_current_stream().synchronize()  # other streams do not wait for the copy
        return made

    def get(self, x: Any) -> Any:
        self.cupy.cuda.Device().synchronize()
        return self.cupy.asnumpy(x)


class PyTorch:
    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError("this PyTorch finds no GPU")
        self.torch = torch

    def enter(self, device: int) -> None:
        self.torch.cuda.set_device(device)

    def stream(self) -> Any:
        return self.torch.cuda.Stream()

    def handle(self, stream: Any) -> int:
        return int(stream.cuda_stream)

    def pointer(self, x: Any) -> int:
        return int(x.data_ptr())

    def put(self, x: Any) -> Any:
        return self.torch.from_numpy(np.array(x)).cuda()

    def get(self, x: Any) -> Any:
        self.torch.cuda.synchronize()
        return x.cpu().numpy()


LIBRARIES: Dict[str, Callable[[], Any]] = {"driver": Driver, "cupy": CuPy, "torch": PyTorch}
