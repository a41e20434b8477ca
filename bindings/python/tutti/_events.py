# SPDX-License-Identifier: BSD-3-Clause
"""What operations tell, and their end in asyncio.

An event loop has one eventfd, to which the library writes when a request has ended. It stays open
until all requests that know it have ended, since the library writes by its number.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from typing import Any, Generator, List, NamedTuple, Tuple

Pending = Tuple[Any, "asyncio.Future[None]"]


class Message(NamedTuple):
    """What recv_message() took: the rank that sent, and how many elements."""

    source: int
    length: int


class Plan(NamedTuple):
    """How a collective was carried out; segment_bytes is 0 where blocks were not cut."""

    algorithm: str
    transports: str
    segment_bytes: int
    rounds: int


def _close(fd: int, pending: List[Pending]) -> None:
    if not pending:
        os.close(fd)


class _Waker:
    """Wakes those who await requests in one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        from . import _core

        self.fd = _core.eventfd()
        self.pending: List[Pending] = []
        loop.add_reader(self.fd, self.look)
        weakref.finalize(loop, _close, self.fd, self.pending)

    def look(self) -> None:
        """Some requests have ended: tell those who wait."""
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            pass
        pending = self.pending[:]
        self.pending.clear()
        for request, future in pending:
            if not request.done():
                self.pending.append((request, future))
            elif not future.done():  # its task was not cancelled
                future.set_result(None)

    async def wait(self, request: Any) -> None:
        future = asyncio.get_running_loop().create_future()
        self.pending.append((request, future))
        try:
            request.notify_fd(self.fd)
        except BaseException:
            self.pending.remove((request, future))
            raise
        await future


_wakers: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waker]"
_wakers = weakref.WeakKeyDictionary()


async def _result(request: Any) -> Any:
    if not request.done():
        loop = asyncio.get_running_loop()
        waker = _wakers.get(loop)
        if waker is None:
            waker = _wakers[loop] = _Waker(loop)
        await waker.wait(request)
    return request.wait()


def ended(request: Any) -> Generator[Any, None, Any]:
    """The iterator of `await request`."""
    return _result(request).__await__()
