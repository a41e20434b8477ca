# SPDX-License-Identifier: BSD-3-Clause
# Types of the C part.
from typing import Any, Generator, Generic, List, Optional, Tuple, Type, TypeVar, Union

from ._events import Message, Plan

A = TypeVar("A")
C = TypeVar("C", bound="Communicator")
R = TypeVar("R", covariant=True)

ANY_RANK: int

def key_make() -> str: ...
def version() -> str: ...
def eventfd() -> int: ...
def numpy_is(array: Any, empty_like: Any) -> None: ...

class Op: ...

class Memory:
    def __init__(self, bytes: int) -> None: ...
    def __buffer__(self, flags: int) -> memoryview: ...

class Request(Generic[R]):
    def wait(self, timeout: Optional[float] = None) -> R: ...
    def done(self) -> bool: ...
    def notify_fd(self, fd: int) -> None: ...
    def __await__(self) -> Generator[Any, None, R]: ...

class Store:
    def __init__(
        self,
        address: str,
        serve: bool = False,
        timeout: Optional[float] = None,
        key: Optional[str] = None,
        encrypt: int = 0,
    ) -> None: ...
    @property
    def address(self) -> str: ...
    def set(self, key: str, value: bytes) -> None: ...
    def get(self, key: str, timeout: float = 300.0) -> bytes: ...
    def close(self) -> None: ...
    def __enter__(self) -> Store: ...
    def __exit__(self, kind: Any, error: Any, trace: Any) -> None: ...

class Window:
    def put(
        self,
        x: Any,
        rank: int,
        offset: int = 0,
        *,
        signal: Optional[int] = None,
        add: int = 1,
        timeout: Optional[float] = None,
    ) -> None: ...
    def get(
        self, out: A, rank: int, offset: int = 0, *, timeout: Optional[float] = None
    ) -> A: ...
    def fetch_add(
        self, rank: int, offset: int = 0, add: int = 1, *, timeout: Optional[float] = None
    ) -> int: ...
    def signal(self, rank: int, signal: int = 0, add: int = 1) -> None: ...
    def wait_signal(
        self, least: int, signal: int = 0, *, timeout: Optional[float] = None
    ) -> int: ...
    def flush(self, rank: Optional[int] = None, *, timeout: Optional[float] = None) -> None: ...
    def nbytes(self, rank: int) -> int: ...
    def direct(self, rank: int) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self) -> Window: ...
    def __exit__(self, kind: Any, error: Any, trace: Any) -> None: ...

class CudaWindow:
    def close(self) -> None: ...
    def __enter__(self) -> CudaWindow: ...
    def __exit__(self, kind: Any, error: Any, trace: Any) -> None: ...

class Communicator:
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def local_rank(self) -> int: ...
    @property
    def local_size(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def cuda_device(self) -> Optional[int]: ...
    @property
    def last_plan(self) -> Plan: ...
    @classmethod
    def _init(cls: Type[C], settings: Tuple[Any, ...]) -> C: ...
    @classmethod
    def _create(cls: Type[C], settings: Tuple[Any, ...], store: Any, rank: int, size: int) -> C: ...
    @classmethod
    def _join(cls: Type[C], settings: Tuple[Any, ...], store: Any) -> C: ...
    def _group_begin(self, timeout: Optional[float]) -> None: ...
    def _group_end(self, wait: bool) -> Optional[Request[None]]: ...
    def _group_drop(self) -> None: ...
    def _describe(
        self, function: str, name: str, x: Any, any_layout: bool
    ) -> Tuple[str, bool, bool, Tuple[int, ...]]: ...
    def _counted(
        self,
        number: int,
        send: Any,
        recv: Any,
        send_counts: Optional[List[int]],
        recv_counts: Optional[List[int]],
        op: Union[str, Op, None],
        root: int,
        timeout: Optional[float],
    ) -> None: ...
    def window(
        self, x: Any = None, signals: int = 0, *, timeout: Optional[float] = None
    ) -> Window: ...
    def premul_sum(self, scalar: Any) -> Op: ...
    def split(
        self: C, color: int, key: int = 0, *, timeout: Optional[float] = None
    ) -> Optional[C]: ...
    def dup(self: C, *, timeout: Optional[float] = None) -> C: ...
    def shrink(self: C) -> C: ...
    def grow(
        self: C, newcomers: int, store: Any = None, *, timeout: Optional[float] = None
    ) -> C: ...
    def bind_cuda(self, device: int = -1) -> None: ...
    def register_cuda(self, x: Any) -> CudaWindow: ...
    def close(self) -> None: ...
    def abort(self, reason: Optional[str] = None) -> None: ...
    def check(self) -> None: ...
    def transport(self, peer: int) -> str: ...
    def barrier(self, *, timeout: Optional[float] = None, stream: Any = None) -> None: ...
    def start_barrier(self, *, timeout: Optional[float] = None) -> Request[None]: ...
    def all_reduce(
        self,
        x: A,
        op: Union[str, Op] = "sum",
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
        stream: Any = None,
    ) -> A: ...
    def start_all_reduce(
        self,
        x: A,
        op: Union[str, Op] = "sum",
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
    ) -> Request[A]: ...
    def reduce(
        self,
        x: A,
        op: Union[str, Op] = "sum",
        root: int = 0,
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
        stream: Any = None,
    ) -> Optional[A]: ...
    def start_reduce(
        self,
        x: A,
        op: Union[str, Op] = "sum",
        root: int = 0,
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
    ) -> Request[Optional[A]]: ...
    def reduce_scatter(
        self,
        x: A,
        op: Union[str, Op] = "sum",
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
        stream: Any = None,
    ) -> A: ...
    def start_reduce_scatter(
        self,
        x: A,
        op: Union[str, Op] = "sum",
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
    ) -> Request[A]: ...
    def scan(
        self,
        x: A,
        op: Union[str, Op] = "sum",
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
        stream: Any = None,
    ) -> A: ...
    def start_scan(
        self,
        x: A,
        op: Union[str, Op] = "sum",
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
    ) -> Request[A]: ...
    def exscan(
        self,
        x: A,
        op: Union[str, Op] = "sum",
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
        stream: Any = None,
    ) -> A: ...
    def start_exscan(
        self,
        x: A,
        op: Union[str, Op] = "sum",
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
    ) -> Request[A]: ...
    def broadcast(
        self,
        x: A,
        root: int = 0,
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
        stream: Any = None,
    ) -> A: ...
    def start_broadcast(
        self,
        x: A,
        root: int = 0,
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
    ) -> Request[A]: ...
    def all_gather(
        self,
        x: A,
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
        stream: Any = None,
    ) -> A: ...
    def start_all_gather(
        self,
        x: A,
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
    ) -> Request[A]: ...
    def gather(
        self,
        x: A,
        root: int = 0,
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
        stream: Any = None,
    ) -> Optional[A]: ...
    def start_gather(
        self,
        x: A,
        root: int = 0,
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
    ) -> Request[Optional[A]]: ...
    def scatter(
        self,
        x: Any,
        root: int = 0,
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
        stream: Any = None,
    ) -> A: ...
    def start_scatter(
        self,
        x: Any,
        root: int = 0,
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
    ) -> Request[A]: ...
    def all_to_all(
        self,
        x: A,
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
        stream: Any = None,
    ) -> A: ...
    def start_all_to_all(
        self,
        x: A,
        out: Optional[A] = None,
        *,
        timeout: Optional[float] = None,
    ) -> Request[A]: ...
    def send(
        self,
        x: Any,
        dest: int,
        tag: int = 0,
        *,
        timeout: Optional[float] = None,
        stream: Any = None,
    ) -> None: ...
    def start_send(
        self,
        x: Any,
        dest: int,
        tag: int = 0,
        *,
        timeout: Optional[float] = None,
    ) -> Request[None]: ...
    def recv(
        self,
        out: A,
        source: int,
        tag: int = 0,
        *,
        timeout: Optional[float] = None,
        stream: Any = None,
    ) -> A: ...
    def start_recv(
        self,
        out: A,
        source: int,
        tag: int = 0,
        *,
        timeout: Optional[float] = None,
    ) -> Request[A]: ...
    def recv_message(
        self,
        out: Any,
        source: int = ...,
        tag: int = 0,
        *,
        timeout: Optional[float] = None,
    ) -> Message: ...
    def start_recv_message(
        self,
        out: Any,
        source: int = ...,
        tag: int = 0,
        *,
        timeout: Optional[float] = None,
    ) -> Request[Message]: ...
