# SPDX-License-Identifier: BSD-3-Clause
"""Communicators. The plain collectives are in C; here is what consists of several calls."""

from __future__ import annotations

import array
import os
import pickle
from types import TracebackType
from typing import Any, List, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import _arrays, _core, _errors

A = TypeVar("A")
T = TypeVar("T")
OpLike = Union[str, _core.Op]
_Exit = Optional[Type[BaseException]]

_RECORD = 512  # bytes for an array's type and shape
_ON_GPU = " on a GPU"  # behind the name of the type
_ALL_GATHER_V, _GATHER_V, _SCATTER_V, _ALL_TO_ALL_V, _REDUCE_SCATTER_V = range(5)


def callers_wanted() -> bool:
    """Is the flight recorder to be told which lines call?"""
    value = os.environ.get("TUTTI_CALLERS") or "0"
    if value not in ("0", "1"):
        raise _errors.Invalid(
            f"TUTTI_CALLERS is {value!r}, expected 1 to have the lines that call recorded, or 0"
        )
    return value == "1"


def _settings(
    timeout: Optional[float],
    transports: Optional[str],
    algorithm: Optional[str],
    host_id: Optional[str],
    reproducible: Optional[bool],
    key: Optional[str],
    encrypt: Optional[bool],
    wire: Optional[str],
) -> Tuple[Any, ...]:
    """As the C part takes them; True and False overrule the environment, None asks it."""

    def three(value: Optional[bool]) -> int:
        return 0 if value is None else 1 if value else -1

    return (
        timeout,
        transports,
        algorithm,
        host_id,
        three(reproducible),
        key,
        three(encrypt),
        wire,
        callers_wanted(),
    )


class Group:
    """Calls that make progress together: see Communicator.group()."""

    def __init__(self, comm: Communicator, wait: bool, timeout: Optional[float]) -> None:
        self._comm = comm
        self._wait = wait
        self._timeout = timeout
        self._request: Optional[_core.Request[None]] = None

    def __enter__(self) -> Group:
        self._comm._group_begin(self._timeout)
        return self

    def __exit__(self, kind: _Exit, error: Any, trace: Optional[TracebackType]) -> None:
        if kind is not None:
            if not self._comm.closed:
                self._comm._group_drop()
            return
        self._request = self._comm._group_end(self._wait)

    @property
    def request(self) -> _core.Request[None]:
        """The request of all calls, after the block of group(wait=False)."""
        if self._request is None:
            raise _errors.Invalid("request: expected group(wait=False), and its block to be over")
        return self._request


class Communicator(_core.Communicator):
    """The ranks of a job, or of a part of it.

    Communicator(store, rank, size) makes one of `size` processes that meet in `store`: a Store, or
    any object with set(key, value: bytes) and get(key) -> bytes, such as a TCPStore of PyTorch.
    tutti.init() makes the one that a launcher has started.

    All ranks call the same methods in the same order. Each method takes `timeout`, the deadline of
    that call in seconds. Any thread may call. A blocking call that Ctrl-C interrupts aborts the
    communicator, so that the other ranks are told.
    """

    __slots__ = ()

    def __new__(
        cls,
        store: Any,
        rank: int,
        size: int,
        *,
        timeout: Optional[float] = None,
        transports: Optional[str] = None,
        algorithm: Optional[str] = None,
        host_id: Optional[str] = None,
        reproducible: Optional[bool] = None,
        key: Optional[str] = None,
        encrypt: Optional[bool] = None,
        wire: Optional[str] = None,
    ) -> Communicator:
        """Settings are those of tutti.init()."""
        settings = _settings(
            timeout, transports, algorithm, host_id, reproducible, key, encrypt, wire
        )
        return cls._create(settings, store, rank, size)

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, kind: _Exit, error: Any, trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<tutti.Communicator: rank {self.rank} of {self.size}{state}>"

    def group(self, *, wait: bool = True, timeout: Optional[float] = None) -> Group:
        """Collect the calls of a with block, and start them together at its end.

        Collectives, sends and receives of this thread make progress together; each returns at
        once, and its result is there after the block. With wait=False the block does not wait:
        the Group has a `request`. If the block raises, nothing is started.

        >>> with comm.group():
        ...     comm.send(right_edge, right)
        ...     comm.recv(left_halo, left)
        """
        return Group(self, wait, timeout)

    # ------------------------------------------------------------ arrays that differ

    def _exchange(self, x: Any) -> List[Tuple[str, _arrays.Shape]]:
        """What the arrays of all ranks are."""
        records = memoryview(self.all_gather(_record(x))).cast("B")
        found = [_read(records[r * _RECORD : (r + 1) * _RECORD]) for r in range(self.size)]
        _check_types([name for name, _ in found])
        return found

    def all_gather_v(self, x: A, *, timeout: Optional[float] = None) -> List[A]:
        """Collect arrays of different shapes: every rank gets the list of all, by rank.

        x: an array of any shape, of the same type on all ranks. The shapes are exchanged first.
        """
        found = self._exchange(x)
        counts = [_arrays.count(shape) for _, shape in found]
        flat, finish = _arrays.like(x, (sum(counts),))
        self._counted(_ALL_GATHER_V, x, flat, None, counts, None, 0, timeout)
        return _arrays.pieces(finish(flat) if finish else flat, [shape for _, shape in found])

    def gather_v(
        self, x: A, root: int = 0, *, timeout: Optional[float] = None
    ) -> Optional[List[A]]:
        """Collect arrays of different shapes at `root`, which gets a list by rank; others None.

        x: an array of any shape, of the same type on all ranks. The shapes are exchanged first.
        """
        _check_root("gather_v", self, root)
        found = self._exchange(x)
        counts = [_arrays.count(shape) for _, shape in found]
        if self.rank != root:
            self._counted(_GATHER_V, x, None, None, None, None, root, timeout)
            return None
        flat, finish = _arrays.like(x, (sum(counts),))
        self._counted(_GATHER_V, x, flat, None, counts, None, root, timeout)
        return _arrays.pieces(finish(flat) if finish else flat, [shape for _, shape in found])

    def scatter_v(
        self,
        arrays: Optional[Sequence[A]],
        root: int = 0,
        *,
        timeout: Optional[float] = None,
        like: Optional[A] = None,
    ) -> A:
        """Hand array r of the root's list to rank r.

        arrays: at the root, `size` arrays of any shapes and one type; elsewhere None. The others
        get arrays of NumPy, or of the library and GPU of `like`, an array of that type, which they
        need where the root's are on a GPU. Types and shapes are sent first.
        """
        _check_root("scatter_v", self, root)
        mine = bytearray(_RECORD)
        if self.rank == root:
            blocks = _check_list("scatter_v", self, arrays)
            records = b"".join(bytes(_record(x)) for x in blocks)
            self.scatter(memoryview(records).cast("B", [self.size, _RECORD]), root, mine)
            counts = [_arrays.count(_arrays.describe(x)[1]) for x in blocks]
            flat, finish = _arrays.like(blocks[root], (counts[root],))
            self._counted(
                _SCATTER_V, _arrays.joined(blocks), flat, counts, None, None, root, timeout
            )
            flat = finish(flat) if finish else flat
            return _arrays.pieces(flat, [_arrays.describe(blocks[root])[1]])[0]  # type: ignore
        self.scatter(None, root, mine)
        kind, shape = _read(memoryview(mine))
        out, finish = _room(kind, shape, like)
        self._counted(_SCATTER_V, None, out, None, None, None, root, timeout)
        return finish(out) if finish else out  # type: ignore

    def all_to_all_v(self, arrays: Sequence[A], *, timeout: Optional[float] = None) -> List[A]:
        """Hand array r of the list to rank r; array r of the result comes from rank r.

        arrays: `size` arrays of any shapes, of one type on all ranks. The shapes are exchanged
        first.
        """
        blocks = _check_list("all_to_all_v", self, arrays)
        records = b"".join(bytes(_record(x)) for x in blocks)
        sent = memoryview(records).cast("B", [self.size, _RECORD])
        came = memoryview(self.all_to_all(sent)).cast("B")
        found = [_read(came[r * _RECORD : (r + 1) * _RECORD]) for r in range(self.size)]
        _check_types([_kind(blocks[0])] + [name for name, _ in found])
        counts = [_arrays.count(_arrays.describe(x)[1]) for x in blocks]
        coming = [_arrays.count(shape) for _, shape in found]
        flat, finish = _arrays.like(blocks[0], (sum(coming),))
        self._counted(_ALL_TO_ALL_V, _arrays.joined(blocks), flat, counts, coming, None, 0, timeout)
        return _arrays.pieces(finish(flat) if finish else flat, [shape for _, shape in found])

    def reduce_scatter_v(
        self, arrays: Sequence[A], op: OpLike = "sum", *, timeout: Optional[float] = None
    ) -> A:
        """Reduce lists of arrays, element by element; rank r gets array r of the result.

        arrays: `size` arrays of one type; array r has the same shape on all ranks.
        """
        blocks = _check_list("reduce_scatter_v", self, arrays)
        counts = [_arrays.count(_arrays.describe(x)[1]) for x in blocks]
        flat, finish = _arrays.like(blocks[self.rank], (counts[self.rank],))
        self._counted(_REDUCE_SCATTER_V, _arrays.joined(blocks), flat, counts, None, op, 0, timeout)
        flat = finish(flat) if finish else flat
        return _arrays.pieces(flat, [_arrays.describe(blocks[self.rank])[1]])[0]  # type: ignore

    # ------------------------------------------------------------ objects

    def broadcast_object(self, value: T, root: int = 0) -> T:
        """Give every rank the object of `root`, by pickle: only among ranks that trust each other.

        value: matters at the root only.
        """
        _check_root("broadcast_object", self, root)
        data = pickle.dumps(value) if self.rank == root else b""
        length = self.broadcast(array.array("q", [len(data)]), root)[0]
        buffer = bytearray(data) if self.rank == root else bytearray(length)
        self.broadcast(buffer, root)
        if self.rank == root:
            return value
        came: T = pickle.loads(buffer)
        return came

    def all_gather_object(self, value: T) -> List[T]:
        """Collect the objects of all ranks, by pickle; every rank gets the list."""
        return [pickle.loads(data) for data in self.all_gather_v(pickle.dumps(value))]

    def gather_object(self, value: T, root: int = 0) -> Optional[List[T]]:
        """Collect the objects of all ranks at `root`, by pickle; the others get None."""
        parts = self.gather_v(pickle.dumps(value), root)
        return None if parts is None else [pickle.loads(data) for data in parts]

    def scatter_objects(self, values: Optional[Sequence[T]], root: int = 0) -> T:
        """Hand object r of the root's list to rank r, by pickle."""
        _check_root("scatter_objects", self, root)
        if self.rank != root:
            return pickle.loads(self.scatter_v(None, root))  # type: ignore
        blocks = [pickle.dumps(value) for value in _check_list("scatter_objects", self, values)]
        return pickle.loads(self.scatter_v(blocks, root))  # type: ignore

    def send_object(self, value: Any, dest: int, tag: int = 0) -> None:
        """Send an object to rank `dest`, by pickle, which calls recv_object()."""
        data = pickle.dumps(value)
        self.send(array.array("q", [len(data)]), dest, tag)
        self.send(data, dest, tag)

    def recv_object(self, source: int, tag: int = 0) -> Any:
        """Receive an object that rank `source`, or tutti.ANY_RANK, sent by send_object()."""
        length = array.array("q", [0])
        source = self.recv_message(length, source, tag).source
        return pickle.loads(self.recv(bytearray(length[0]), source, tag))


# ---------------------------------------------------------------- checks and records


def _check_root(function: str, comm: Communicator, root: int) -> None:
    if not 0 <= root < comm.size:
        raise _errors.Invalid(
            f"{function}(): root is {root}, expected a rank of the communicator: "
            f"0 … {comm.size - 1}"
        )


def _check_list(function: str, comm: Communicator, values: Optional[Sequence[T]]) -> List[T]:
    if values is None or len(values) != comm.size:
        found = "None" if values is None else f"{len(values)} entries"
        raise _errors.Invalid(f"{function}(): found {found}, expected a list of {comm.size}")
    return list(values)


def _check_types(names: List[str]) -> None:
    for rank, name in enumerate(names):
        if name != names[0]:
            raise _errors.Invalid(
                f"arrays of {names[0]} meet arrays of {name} (at place {rank}); expected one type "
                "on all ranks, and all on GPUs or none: convert by astype(), or copy"
            )


def _kind(x: Any) -> str:
    """The element type, and whether it is on a GPU."""
    return _arrays.describe(x)[0] + (_ON_GPU if _arrays.on_gpu(x) else "")


def _room(kind: str, shape: _arrays.Shape, like: Any) -> Tuple[Any, _arrays.Finish]:
    """What receives an array of a list that the root alone has."""
    if like is None and kind.endswith(_ON_GPU):
        raise _errors.Invalid(
            "scatter_v(): like is None, and the arrays of the root are on a GPU; expected an array "
            "of their type on this rank's GPU, which may be empty: the result is made like it"
        )
    if like is None:
        return _arrays.empty(kind, shape), None
    if _kind(like) != kind:
        raise _errors.Invalid(
            f"scatter_v(): like is an array of {_kind(like)}, expected one of {kind}, as the root "
            "has them"
        )
    return _arrays.like(like, shape)


def _record(x: Any) -> bytearray:
    name, shape = _kind(x), _arrays.describe(x)[1]
    text = ",".join([name, *map(str, shape)]).encode()
    if len(text) > _RECORD:
        raise _errors.Invalid(f"an array of {name} with {len(shape)} dimensions is too much")
    return bytearray(text.ljust(_RECORD, b"\0"))


def _read(record: memoryview) -> Tuple[str, _arrays.Shape]:
    name, *shape = record.tobytes().rstrip(b"\0").decode().split(",")
    return name, tuple(map(int, shape))


# ---------------------------------------------------------------- without a communicator


def init(
    *,
    timeout: Optional[float] = None,
    transports: Optional[str] = None,
    algorithm: Optional[str] = None,
    host_id: Optional[str] = None,
    reproducible: Optional[bool] = None,
    key: Optional[str] = None,
    encrypt: Optional[bool] = None,
    wire: Optional[str] = None,
) -> Communicator:
    """Make the communicator of all processes that a launcher has started, from the environment.

    The launcher is tutti-run, torchrun, mpirun (Open MPI, MPICH) or srun. A process of none of
    them becomes the only rank. Where an argument is None, the variable counts.

    timeout: deadline of every operation in seconds (TUTTI_TIMEOUT, 300).
    transports: those allowed, such as "shm,tcp" (TUTTI_TRANSPORT).
    algorithm: force one by name (TUTTI_ALGORITHM).
    host_id: ranks share memory only with equal ones (TUTTI_HOST_ID).
    reproducible: reductions give the same bits whatever the algorithm (TUTTI_REPRODUCIBLE).
    key: the job's key, 64 hexadecimal digits (TUTTI_KEY, TUTTI_KEY_FILE).
    encrypt: TLS on all TCP connections (TUTTI_ENCRYPT).
    wire: what float32 travels as in all_reduce by "sum" and "avg": "bf16", "fp16", "fp8" or "int8",
        fewer bytes with a bounded error; "auto:int8" where that is faster; "none" (TUTTI_WIRE).
    """
    settings = _settings(
        timeout, transports, algorithm, host_id, reproducible, key, encrypt, wire
    )
    return Communicator._init(settings)


def join(
    store: Any = None,
    *,
    timeout: Optional[float] = None,
    transports: Optional[str] = None,
    algorithm: Optional[str] = None,
    host_id: Optional[str] = None,
    reproducible: Optional[bool] = None,
    key: Optional[str] = None,
    encrypt: Optional[bool] = None,
    wire: Optional[str] = None,
) -> Communicator:
    """Become a rank of a communicator that grows: see Communicator.grow().

    store: where they meet; None: that of TUTTI_STORE. Settings are those of init().
    """
    settings = _settings(
        timeout, transports, algorithm, host_id, reproducible, key, encrypt, wire
    )
    return Communicator._join(settings, store)


def empty(shape: Union[int, Sequence[int]], dtype: Any = "float64") -> Any:
    """A new array of NumPy in memory that the ranks of this host share.

    Collectives between such arrays read the peers' memory without a copy. It is zeroed at first,
    and freed with its last array. `shape` and `dtype` are those of numpy.empty(). For memory
    without NumPy see tutti.Memory.
    """
    import numpy

    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    kind = numpy.dtype(dtype)
    memory = _core.Memory(max(_arrays.count(lengths) * kind.itemsize, 1))
    return numpy.ndarray(lengths, kind, buffer=memory)  # type: ignore


def _directory(name: str) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


def get_include() -> str:
    """The directory of <tutti/tutti.h>, for programs in C that use this package's library."""
    return _directory("include")


def get_library_dir() -> str:
    """The directory of the library: link it by -l: and the last part of get_library()."""
    return _directory("lib")


def get_library() -> str:
    """The file of the library."""
    first, second = _core.version().split(".")[:2]
    number = f"0.{second}" if first == "0" else first
    return os.path.join(get_library_dir(), f"libtutti.so.{number}")
