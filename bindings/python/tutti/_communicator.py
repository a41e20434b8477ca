# SPDX-License-Identifier: BSD-3-Clause
"""Communicators. The plain collectives are in C; here is what consists of several calls."""

from __future__ import annotations

import array
import os
import pickle
from types import TracebackType
from typing import Any, List, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import _arrays, _core, _errors, _lists

A = TypeVar("A")
T = TypeVar("T")
OpLike = Union[str, _core.Op]
_Exit = Optional[Type[BaseException]]

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

    texts = dict(transports=transports, algorithm=algorithm, host_id=host_id, key=key, wire=wire)
    for name, text in texts.items():
        if text is not None and (not isinstance(text, str) or "\0" in text):
            raise _errors.Invalid(f"{name} is {text!r}, expected a string without NUL, or None")
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
        self._wait = bool(wait)
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

    All ranks call the same methods in the same order. Each method but shrink() takes `timeout`,
    the deadline in seconds of each operation that it is made of. Any thread may call. A blocking call that Ctrl-C interrupts aborts the
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

    def _gathered(
        self, number: int, x: A, told: List[_lists.Array], root: int, timeout: Optional[float]
    ) -> List[A]:
        """Collect arrays of which all is known."""
        counts = [array.elements for array in told]
        flat, finish = _arrays.like(x, (sum(counts),))
        self._counted(number, x, flat, None, counts, None, root, timeout)
        return _arrays.pieces(finish(flat) if finish else flat, [array.shape for array in told])

    def all_gather_v(self, x: A, *, timeout: Optional[float] = None) -> List[A]:
        """Collect arrays of different shapes: every rank gets the list of all, by rank.

        x: an array of any shape, of the same type on all ranks. The shapes are exchanged first.
        """
        function = "all_gather_v"
        mine = _lists.tell(self, function, "x", x)
        told = _lists.exchange(self, function, mine, timeout)
        _lists.check_kinds(function, [array.kind for array in told])
        return self._gathered(_ALL_GATHER_V, x, told, 0, timeout)

    def gather_v(
        self, x: A, root: int = 0, *, timeout: Optional[float] = None
    ) -> Optional[List[A]]:
        """Collect arrays of different shapes at `root`, which gets a list by rank; others None.

        x: an array of any shape, of the same type on all ranks. The shapes are exchanged first.
        """
        function = "gather_v"
        _lists.check_root(self, function, root)
        mine = _lists.tell(self, function, "x", x)
        told = _lists.exchange(self, function, mine, timeout)
        _lists.check_kinds(function, [array.kind for array in told])
        if self.rank == root:
            return self._gathered(_GATHER_V, x, told, root, timeout)
        self._counted(_GATHER_V, x, None, None, None, None, root, timeout)
        return None

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
        function = "scatter_v"
        _lists.check_root(self, function, root)
        if self.rank == root:
            return self._scatter_mine(_lists.join(self, function, arrays), root, timeout)
        mine = _lists.Array(None, ())
        if like is not None:
            mine = _lists.tell(self, function, "like", like, True)
        told = _lists.exchange(self, function, mine, timeout, root)
        _lists.check_likes(function, [array.kind for array in told], root)
        came = _lists.room()
        self.scatter(None, root, came, timeout=timeout)
        (array,) = _lists.read(self, function, came, [root])
        if like is None:
            out, finish = _lists.empty(self, function, root, array), None
        else:
            out, finish = _arrays.like(like, array.shape)
        self._counted(_SCATTER_V, None, out, None, None, None, root, timeout)
        return finish(out) if finish else out  # type: ignore

    def _scatter_mine(self, mine: _lists.Joined[A], root: int, timeout: Optional[float]) -> A:
        records = _lists.records("scatter_v", mine.told)
        told = _lists.exchange(self, "scatter_v", mine.told[root], timeout, root)
        _lists.check_likes("scatter_v", [array.kind for array in told], root)
        self.scatter(records, root, _lists.room(), timeout=timeout)
        return self._own_block(_SCATTER_V, mine, None, root, timeout)

    def _own_block(
        self, number: int, mine: _lists.Joined[A], op: Any, root: int, timeout: Optional[float]
    ) -> A:
        """Where a rank's list says all, the result is like its own entry of it."""
        own = mine.told[self.rank]
        flat, finish = _arrays.like(mine.arrays[self.rank], (own.elements,))
        self._counted(number, mine.flat, flat, mine.counts, None, op, root, timeout)
        flat = finish(flat) if finish else flat
        return _arrays.pieces(flat, [own.shape])[0]  # type: ignore

    def all_to_all_v(self, arrays: Sequence[A], *, timeout: Optional[float] = None) -> List[A]:
        """Hand array r of the list to rank r; array r of the result comes from rank r.

        arrays: `size` arrays of any shapes, of one type on all ranks. The shapes are exchanged
        first.
        """
        function = "all_to_all_v"
        mine = _lists.join(self, function, arrays)
        sent = _lists.records(function, mine.told)
        came = self.all_to_all(sent, timeout=timeout)
        told = _lists.read(self, function, came, range(self.size))
        _lists.check_kinds(function, [array.kind for array in told])
        coming = [array.elements for array in told]
        flat, finish = _arrays.like(mine.arrays[0], (sum(coming),))
        self._counted(_ALL_TO_ALL_V, mine.flat, flat, mine.counts, coming, None, 0, timeout)
        return _arrays.pieces(finish(flat) if finish else flat, [array.shape for array in told])

    def reduce_scatter_v(
        self, arrays: Sequence[A], op: OpLike = "sum", *, timeout: Optional[float] = None
    ) -> A:
        """Reduce lists of arrays, element by element; rank r gets array r of the result.

        arrays: `size` arrays of one type; array r has the same shape on all ranks.
        """
        mine = _lists.join(self, "reduce_scatter_v", arrays)
        return self._own_block(_REDUCE_SCATTER_V, mine, op, 0, timeout)

    # ------------------------------------------------------------ objects

    def broadcast_object(self, value: T, root: int = 0, *, timeout: Optional[float] = None) -> T:
        """Give every rank the object of `root`, by pickle: only among ranks that trust each other.

        value: matters at the root only.
        """
        _lists.check_root(self, "broadcast_object", root)
        data = pickle.dumps(value) if self.rank == root else b""
        _lists.tell(self, "broadcast_object", "value", data)
        length = self.broadcast(array.array("q", [len(data)]), root, timeout=timeout)[0]
        if self.rank == root:
            self.broadcast(bytearray(data), root, timeout=timeout)
            return value
        buffer = _lists.room_for_object(self, "broadcast_object", root, length)
        self.broadcast(buffer, root, timeout=timeout)
        came: T = pickle.loads(buffer)
        return came

    def all_gather_object(self, value: T, *, timeout: Optional[float] = None) -> List[T]:
        """Collect the objects of all ranks, by pickle; every rank gets the list."""
        parts = self.all_gather_v(pickle.dumps(value), timeout=timeout)
        return [pickle.loads(data) for data in parts]

    def gather_object(
        self, value: T, root: int = 0, *, timeout: Optional[float] = None
    ) -> Optional[List[T]]:
        """Collect the objects of all ranks at `root`, by pickle; the others get None."""
        parts = self.gather_v(pickle.dumps(value), root, timeout=timeout)
        return None if parts is None else [pickle.loads(data) for data in parts]

    def scatter_objects(
        self, values: Optional[Sequence[T]], root: int = 0, *, timeout: Optional[float] = None
    ) -> T:
        """Hand object r of the root's list to rank r, by pickle."""
        _lists.check_root(self, "scatter_objects", root)
        if self.rank != root:
            return pickle.loads(self.scatter_v(None, root, timeout=timeout))  # type: ignore
        entries = _lists.check_list(self, "scatter_objects", values)
        blocks = [pickle.dumps(value) for value in entries]
        return pickle.loads(self.scatter_v(blocks, root, timeout=timeout))  # type: ignore

    def send_object(
        self, value: Any, dest: int, tag: int = 0, *, timeout: Optional[float] = None
    ) -> None:
        """Send an object to rank `dest`, by pickle, which calls recv_object()."""
        data = pickle.dumps(value)
        _lists.tell(self, "send_object", "value", data)
        self.send(array.array("q", [len(data)]), dest, tag, timeout=timeout)
        self.send(data, dest, tag, timeout=timeout)

    def recv_object(self, source: int, tag: int = 0, *, timeout: Optional[float] = None) -> Any:
        """Receive an object that rank `source`, or tutti.ANY_RANK, sent by send_object()."""
        length = array.array("q", [0])
        _lists.tell(self, "recv_object", "length", length)
        source = self.recv_message(length, source, tag, timeout=timeout).source
        buffer = _lists.room_for_object(self, "recv_object", source, length[0])
        return pickle.loads(self.recv(buffer, source, tag, timeout=timeout))


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

    try:
        kind = numpy.dtype(dtype)
    except TypeError:
        kind = numpy.dtype(object)
    if kind.hasobject:
        raise _errors.Invalid(
            f"empty(): dtype is {dtype!r}, expected a type of NumPy without objects, such as "
            "'float32'"
        )
    lengths = _arrays.lengths("empty", shape)
    memory = _core.Memory(max(_arrays.count(lengths) * kind.itemsize, 1))
    try:
        return numpy.ndarray(lengths, kind, buffer=memory)  # type: ignore
    except ValueError as error:  # too many dimensions
        raise _errors.Invalid(f"empty(): shape is {shape!r}: {error}") from None


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
