# SPDX-License-Identifier: BSD-3-Clause
"""Arrays that differ between ranks: what they are is told before they travel.

All arguments are checked before anything is sent, each by the C part, as the call itself will take
it. What only the other ranks' arguments show to be wrong, all ranks find in the same records, and
raise. What is no record at all ends the communicator: others may have taken it for one, and wait.
"""

from __future__ import annotations

import json
import operator
import re
import reprlib
from typing import Any, Generic, List, NamedTuple, NoReturn, Optional, Sequence, TypeVar

from . import _arrays, _core, _errors

T = TypeVar("T")

_RECORD = 512  # bytes that tell of an array
_DIMENSIONS = 64  # of an array of any library
_ELEMENTS = 2**60  # of one, whatever lengths are 0: libraries count bytes in 64 bits
_SAME = "; all ranks must make the same calls, with the same version of tutti"
# the names that the C part gives types, and those of _arrays.name_of_opaque()
_TYPE = re.compile(
    r"bool|u?int(8|16|32|64)|b?float16|float(32|64)|float8_e(4m3|5m2)|complex(64|128)|"
    r"(datetime|timedelta)64(\[\w+\])?|['\[(].*",
    re.ASCII,
)


class Kind(NamedTuple):
    """What all arrays of a call have in common."""

    type: str
    on_gpu: bool

    def __str__(self) -> str:
        return self.type + (" on a GPU" if self.on_gpu else "")


class Array(NamedTuple):
    """What is told of one array; where there is none, the kind is None."""

    kind: Optional[Kind]
    shape: _arrays.Shape

    @property
    def elements(self) -> int:
        return _arrays.count(self.shape)


class Joined(Generic[T]):
    """A list of arrays, and their elements behind each other."""

    def __init__(self, arrays: List[T], told: List[Array], flat: Any) -> None:
        self.arrays, self.told, self.flat = arrays, told, flat

    @property
    def counts(self) -> List[int]:
        return [array.elements for array in self.told]


# ---------------------------------------------------------------- of this rank


def check_root(comm: _core.Communicator, function: str, root: int) -> None:
    try:
        found = operator.index(root)
    except Exception:  # of an object of the caller's
        found = -1
    if not 0 <= found < comm.size:
        raise _errors.Invalid(
            f"{function}(): root is {reprlib.repr(root)}, expected a rank of the communicator: "
            f"0 … {comm.size - 1}"
        )


def check_list(comm: _core.Communicator, function: str, values: Optional[Sequence[T]]) -> List[T]:
    try:
        entries = list(values)  # type: ignore
    except TypeError:
        raise _errors.Invalid(
            f"{function}(): found {reprlib.repr(values)}, expected a list of {comm.size}"
        ) from None
    if len(entries) != comm.size:
        raise _errors.Invalid(
            f"{function}(): found {len(entries)} entries, expected a list of {comm.size}"
        )
    return entries


def tell(
    comm: _core.Communicator, function: str, name: str, x: Any, any_layout: bool = False
) -> Array:
    """What the array is; refuses one that the call cannot take, or make a result like."""
    type, is_opaque, on_gpu, shape = comm._describe(function, name, x, any_layout)
    _arrays.like(x, (0,))
    if is_opaque:
        type = _arrays.name_of_opaque(function, name, x)
    return Array(Kind(type, on_gpu), shape)


def join(comm: _core.Communicator, function: str, arrays: Optional[Sequence[T]]) -> Joined[T]:
    """The arrays of a list are copied, so their elements may lie anywhere."""
    entries = check_list(comm, function, arrays)
    told = [tell(comm, function, f"arrays[{r}]", x, True) for r, x in enumerate(entries)]
    for r, array in enumerate(told):
        if array.kind != told[0].kind:
            raise _errors.Invalid(
                f"{function}(): arrays[{r}] has elements of {array.kind}, arrays[0] of "
                f"{told[0].kind}, expected one type; convert by astype(), or copy"
            )
    flat = _arrays.joined(function, entries)
    whole = tell(comm, function, "arrays", flat)
    if whole != Array(told[0].kind, (sum(array.elements for array in told),)):
        raise _errors.Invalid(
            f"{function}(): arrays of several libraries cannot be joined to one of "
            f"{told[0].kind}; expected arrays of one library"
        )
    return Joined(entries, told, flat)


# ---------------------------------------------------------------- of all ranks


def _record(function: str, array: Array) -> bytes:
    text = json.dumps((array.kind, array.shape)).encode()
    if len(text) > _RECORD:
        raise _errors.Invalid(
            f"{function}(): type and shape of an array take {len(text)} bytes, expected at most "
            f"{_RECORD}: {array.kind}, {len(array.shape)} dimensions; send it as bytes, or by the "
            "methods ..._object()"
        )
    return text.ljust(_RECORD)


def records(function: str, arrays: Sequence[Array]) -> memoryview:
    """One for each rank, as blocks of a collective."""
    data = b"".join(_record(function, array) for array in arrays)
    return memoryview(data).cast("B", [len(arrays), _RECORD])


def room() -> bytearray:
    """For one record."""
    return bytearray(_RECORD)


def _is_kind(found: Any) -> bool:
    if not isinstance(found, list) or [type(entry) for entry in found] != [str, bool]:
        return False
    name: str = found[0]
    return name.isprintable() and _TYPE.fullmatch(name) is not None


def _is_shape(found: Any) -> bool:
    if not isinstance(found, list) or len(found) > _DIMENSIONS:
        return False
    if any(type(length) is not int or length < 0 for length in found):
        return False
    return _arrays.count([length or 1 for length in found]) <= _ELEMENTS


def _parse(record: bytes, may_lack: bool) -> Optional[Array]:
    """What the record tells; None where it is no record."""
    try:
        kind, shape = json.loads(record)
    except (ValueError, TypeError, RecursionError):
        return None
    if not _is_shape(shape) or not (_is_kind(kind) or (kind is None and may_lack)):
        return None
    return Array(Kind(*kind) if kind else None, tuple(shape))


def refuse(
    comm: _core.Communicator, function: str, rank: int, found: object, expected: str
) -> NoReturn:
    """Ends the communicator for what `rank` sent."""
    text = f"{function}(): rank {rank} sent {reprlib.repr(found)}, expected {expected}"
    comm.abort(text)
    error = _errors.Unsupported(text)
    error.rank = rank
    raise error


def read(
    comm: _core.Communicator,
    function: str,
    data: Any,
    ranks: Sequence[int],
    root: Optional[int] = None,
) -> List[Array]:
    """What these ranks have sent; with a root, all others may have no array."""
    text, told = bytes(data), []
    for place, rank in enumerate(ranks):
        record = text[place * _RECORD : (place + 1) * _RECORD].rstrip()
        array = _parse(record, root not in (None, rank))
        if array is None:
            refuse(comm, function, rank, record, "the type and shape of an array" + _SAME)
        told.append(array)
    return told


def exchange(
    comm: _core.Communicator,
    function: str,
    array: Array,
    timeout: Optional[float],
    root: Optional[int] = None,
) -> List[Array]:
    """What the ranks' arrays are, by rank; with a root, all others may have none."""
    sent = records(function, [array])
    came = comm.all_gather(sent, timeout=timeout)
    return read(comm, function, came, range(comm.size), root)


def empty(comm: _core.Communicator, function: str, rank: int, told: Array) -> Any:
    """A new array as `rank` tells."""
    name = told.kind.type  # type: ignore
    try:
        return _arrays.empty(name, told.shape)
    except ValueError:
        expected = "a type that NumPy has here, maybe by ml_dtypes; pass like=, an array of it"
        refuse(comm, function, rank, name, expected)


def room_for_object(
    comm: _core.Communicator, function: str, rank: int, length: int
) -> bytearray:
    """For so many bytes, as `rank` tells."""
    if length < 0:
        refuse(comm, function, rank, length, "the length of an object" + _SAME)
    try:
        return bytearray(length)
    except (MemoryError, OverflowError):
        comm.abort(f"rank {comm.rank} has no memory for an object of {length} bytes")
        raise


def check_kinds(function: str, kinds: Sequence[Optional[Kind]], first: int = 0) -> None:
    """Those by rank are that of rank `first`; None stands for any."""
    for rank, kind in enumerate(kinds):
        if kind is not None and kind != kinds[first]:
            raise _errors.Invalid(
                f"{function}(): rank {rank} has elements of {kind}, rank {first} of "
                f"{kinds[first]}, expected one type on all ranks, and all on GPUs or none; convert "
                "by astype(), or copy"
            )


def check_likes(function: str, kinds: Sequence[Optional[Kind]], root: int) -> None:
    """What receives is like the root's arrays; on a GPU each rank says where."""
    check_kinds(function, kinds, root)
    if kinds[root].on_gpu and None in kinds:  # type: ignore
        raise _errors.Invalid(
            f"{function}(): like is None on rank {kinds.index(None)}, and the arrays of the root "
            "are on a GPU; expected an array of their type on that rank's GPU, which may be empty: "
            "the result is made like it"
        )
