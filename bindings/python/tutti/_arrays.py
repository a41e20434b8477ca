# SPDX-License-Identifier: BSD-3-Clause
"""Arrays of the libraries that a program uses, of which none is imported here.

The C part takes hold of arrays by the buffer protocol and DLPack. This module makes new arrays
like given ones, and knows the types that those protocols cannot tell of.
"""

from __future__ import annotations

import array
import ast
import importlib
import operator
import reprlib
import sys
from typing import Any, Callable, List, Optional, Sequence, Tuple

from . import _errors

Shape = Tuple[int, ...]
Finish = Optional[Callable[[Any], Any]]

# types of ml_dtypes, which NumPy cannot export, by the type of equal size and the library's name
_VIEWS = {
    "bfloat16": ("uint16", "bfloat16"),
    "float8_e4m3fn": ("uint8", "float8_e4m3"),
    "float8_e5m2": ("uint8", "float8_e5m2"),
}
_told: List[bool] = []


def _is_numpy(x: Any) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(x, (numpy.ndarray, numpy.generic)):
        return False
    if not _told:
        from . import _core

        _core.numpy_is(numpy.ndarray, numpy.empty_like)
        _told.append(True)
    return True


def _library(x: Any) -> str:
    """The package that the type of `x` is from."""
    return type(x).__module__.partition(".")[0]


def check(x: Any, function: str, name: str) -> bool:
    """Does its buffer tell all? Refuses what holds more than its elements, which would be lost."""
    ma = sys.modules.get("numpy.ma")
    if ma is not None and isinstance(x, ma.MaskedArray):
        raise _errors.Invalid(
            f"{function}(): {name} is a masked array, whose mask would be lost, expected a plain "
            f"one; pass {name}.filled(value), or {name}.data and {name}.mask one after the other"
        )
    numpy = sys.modules.get("numpy")  # whose single dates have buffers of bytes
    return numpy is None or not isinstance(x, (numpy.datetime64, numpy.timedelta64))


def adopt(x: Any, function: str, name: str) -> Optional[Tuple[Any, bytes]]:
    """A buffer for `x` and the name of its element type, or None where it is no array."""
    if not _is_numpy(x):
        return None
    numpy = sys.modules["numpy"]
    is_scalar = isinstance(x, numpy.generic)
    x = numpy.asarray(x)
    if is_scalar:  # a copy: what is written there is lost
        x.flags.writeable = False
    if x.dtype.kind in "mM" and x.dtype.isnative:
        return x.view("int64"), x.dtype.name.encode()
    if x.dtype.name in _VIEWS:
        plain, known = _VIEWS[x.dtype.name]
        return x.view(plain), known.encode()
    raise _errors.Invalid(
        f"{function}(): {name} has elements of {x.dtype}, expected numbers in this machine's byte "
        "order; convert it by astype(), other objects go through the methods ..._object()"
    )


# ---------------------------------------------------------------- GPUs

_CUDA, _CUDA_MANAGED = 2, 13  # device types of DLPack
_LEGACY = 1  # DLPack's number of the legacy default stream


def on_gpu(x: Any) -> bool:
    """Is the array in memory of a GPU, or in managed memory?"""
    if _is_numpy(x) or not hasattr(type(x), "__dlpack_device__"):
        return False
    return x.__dlpack_device__()[0] in (_CUDA, _CUDA_MANAGED)


def stream_of(function: str, x: Any, given: Any) -> int:
    """The stream of a call, as CUDA's handle: `given`, or where the library of `x` works now."""
    return _current_stream(x) if given is None else _handle(function, given)


def lend(x: Any, stream: Any) -> None:
    """Have PyTorch keep the memory of `x` until the stream that was given has used it.

    Its allocator gives freed memory to the next array of the stream where it was taken. Streams of
    others may end before the array does, which PyTorch could not bear.
    """
    if _library(x) == _library(stream) == "torch":
        x.record_stream(stream)


def _current_stream(x: Any) -> int:
    library = _library(x)
    if library == "torch":
        return int(sys.modules["torch"].cuda.current_stream(x.device).cuda_stream)
    if library == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    try:
        return x.__cuda_array_interface__.get("stream") or _LEGACY
    except Exception:  # a property: some libraries have it for some types only
        return _LEGACY


def _handle(function: str, stream: Any) -> int:
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    number = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))  # PyTorch, CuPy
    if hasattr(number, "__index__") and operator.index(number) >= 0:
        return operator.index(number)
    raise _errors.Invalid(
        f"{function}(): stream is {stream!r}, expected a cudaStream_t as a number, or a stream of "
        "PyTorch, CuPy or another library with __cuda_stream__()"
    )


# ---------------------------------------------------------------- new arrays


def _cast(view: Any, format: str, shape: Optional[Shape] = None) -> Any:
    plain, format = view.cast("B"), format.lstrip("@=<")
    return plain.cast(format) if shape is None else plain.cast(format, list(shape))


def _plain(view: memoryview, shape: Shape) -> Any:
    """Memory of Python itself; with NumPy, where that is loaded, as a view has no empty shapes."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        return numpy.empty(shape, numpy.asarray(view).dtype)
    if count(shape) == 0:
        return _cast(memoryview(bytearray(0)), view.format)
    return _cast(memoryview(bytearray(count(shape) * view.itemsize)), view.format, shape)


def like(x: Any, shape: Shape) -> Tuple[Any, Finish]:
    """A new array of the library and type of `x`, and what makes the result of it, if anything."""
    if _is_numpy(x):
        return sys.modules["numpy"].empty(shape, x.dtype), None
    library = _library(x)
    if library == "torch":
        return sys.modules["torch"].empty(shape, dtype=x.dtype, device=x.device), None
    if library == "cupy":
        with x.device:
            return sys.modules["cupy"].empty(shape, x.dtype), None
    if library in ("jax", "jaxlib"):  # whose arrays cannot be written
        if on_gpu(x):
            raise _errors.Invalid(
                "x is an array of JAX on a GPU, where results cannot be written into such; pass "
                "out=, an array of another library on this GPU"
            )
        import numpy

        return numpy.empty(shape, x.dtype), importlib.import_module("jax.numpy").asarray
    if isinstance(x, array.array) and len(shape) == 1:
        return array.array(x.typecode, bytes(shape[0] * x.itemsize)), None
    if isinstance(x, (bytes, bytearray)) and len(shape) == 1:
        return bytearray(shape[0]), None
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__().empty(shape, dtype=x.dtype, device=x.device), None
    try:
        view = memoryview(x)
    except TypeError:
        raise _errors.Invalid(
            f"no result can be made like an array of {type(x)}, whose library tutti does not know; "
            "pass out=, or convert it, to NumPy for example"
        ) from None
    return _plain(view, shape), None


def lengths(function: str, shape: Any) -> Shape:
    """A shape as NumPy takes it: an integer, or several."""
    try:
        several = (shape,) if hasattr(shape, "__index__") else tuple(shape)
        found = tuple(operator.index(length) for length in several)
    except TypeError:
        found = (-1,)
    if any(length < 0 for length in found):
        raise _errors.Invalid(
            f"{function}(): shape is {reprlib.repr(shape)}, expected an integer from 0, or a sequence "
            "of them"
        )
    return found


# ---------------------------------------------------------------- lists of arrays


def name_of_opaque(function: str, name: str, x: Any) -> str:
    """What empty() makes the same type of, of elements that are moved as bytes."""
    numpy = sys.modules.get("numpy")
    try:
        return repr(numpy.lib.format.dtype_to_descr(numpy.asarray(x).dtype))  # type: ignore
    except (AttributeError, ValueError):
        raise _errors.Invalid(
            f"{function}(): the elements of {name} have a type that cannot be told to other ranks, "
            "expected numbers, or a type that NumPy can describe; pass a view as bytes"
        ) from None


def empty(name: str, shape: Shape) -> Any:
    """A new array of an element type by its name: of NumPy, or memory of Python without it.

    Raises ValueError where there is no such array.
    """
    try:
        import numpy
    except ImportError:
        codes = {"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i"}
        codes.update({"uint32": "I", "int64": "q", "uint64": "Q", "float32": "f", "float64": "d"})
        return _plain(memoryview(array.array(codes.get(name, "B"))), shape)
    return numpy.empty(shape, _dtype_of(name))


def _dtype_of(name: str) -> Any:
    """Of NumPy; raises ValueError where it has none of that name, or one with Python's objects."""
    import numpy

    try:
        for of_numpy, (_, known) in _VIEWS.items():
            if name == known:
                return numpy.dtype(getattr(importlib.import_module("ml_dtypes"), of_numpy))
        if name[0] in "'[(":  # of name_of_opaque()
            found: Any = numpy.lib.format.descr_to_dtype(ast.literal_eval(name))  # type: ignore
        else:
            found = numpy.dtype(name)
    except Exception as error:  # of the parsers of Python and NumPy; or there is no ml_dtypes
        raise ValueError(f"{name!r} is no type") from error
    if found.hasobject:
        raise ValueError(f"{name!r} has objects")
    return found


def count(shape: Sequence[int]) -> int:
    product = 1
    for length in shape:
        product *= length
    return product


def pieces(flat: Any, shapes: Sequence[Shape]) -> List[Any]:
    """Cut an array of one dimension into arrays of these shapes, without a copy where it can."""
    parts, start = [], 0
    for shape in shapes:
        part = flat[start : start + count(shape)]
        start += count(shape)
        if len(shape) != 1:
            if hasattr(part, "reshape"):
                part = part.reshape(shape)
            elif count(shape):
                view = memoryview(part)
                part = _cast(view, view.format, shape)
        parts.append(part)
    return parts


def joined(function: str, arrays: Sequence[Any]) -> Any:
    """The elements of arrays of one type behind each other, in a new array of one dimension."""
    libraries = {_library(x) for x in arrays}
    try:
        if libraries == {"torch"}:
            return sys.modules["torch"].cat([x.reshape(-1) for x in arrays])
        if libraries == {"cupy"}:
            return sys.modules["cupy"].concatenate([x.reshape(-1) for x in arrays])
        if not any(_is_numpy(x) for x in arrays) and hasattr(arrays[0], "__array_namespace__"):
            space = arrays[0].__array_namespace__()
            return space.concat([space.reshape(x, (-1,)) for x in arrays])
        return _joined_buffers(arrays)
    except (TypeError, ValueError, BufferError) as error:
        raise _errors.Invalid(
            f"{function}(): the arrays cannot be joined ({error}), expected arrays of one library "
            "with the buffer protocol, or of PyTorch, CuPy, or another with the array API"
        ) from None


def _joined_buffers(arrays: Sequence[Any]) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        plain = [numpy.asarray(x if _is_numpy(x) else memoryview(x)).reshape(-1) for x in arrays]
        flat = numpy.empty(sum(x.size for x in plain), plain[0].dtype)
        return numpy.concatenate(plain, out=flat)  # a new one would lose gaps in structures
    views = [memoryview(x) for x in arrays]
    return _cast(memoryview(b"".join(view.tobytes() for view in views)), views[0].format)
