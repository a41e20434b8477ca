# SPDX-License-Identifier: BSD-3-Clause
"""Communicators of processes that another engine has started: Ray's actors, Dask's workers. The engine
carries what tutti.init() gets from a launcher: a place to meet, and a key."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from . import _communicator, _core, _errors


class Place(NamedTuple):
    """Where ranks meet, as the engine carries it. Whoever has it can join them."""

    address: str
    key: str

    def __repr__(self) -> str:  # in logs of engines
        return f"Place({self.address!r})"


def place_of(text: bytes) -> Place:
    """As rank 0 has left it with the engine: the address, a space, the key."""
    words = text.decode(errors="replace").split(" ")
    if len(words) != 2:
        raise _errors.Unsupported(
            f"the place where rank 0 is to be met has {len(words)} words, expected an address and a "
            "key; all ranks must have the same version of tutti"
        )
    return Place(*words)


def serve(host: str, key: str) -> _core.Store:
    """A store for the ranks of one communicator, in the process of rank 0."""
    form = "tcp://[%s]:0" if ":" in host else "tcp://%s:0"
    return _core.Store(form % host, serve=True, key=key)


def visit(place: Place, timeout: Optional[float]) -> _core.Store:
    """The same store, in the other processes."""
    return _core.Store(place.address, timeout=timeout, key=place.key)


def join(
    store: Any, place: Place, rank: int, size: int, timeout: Optional[float], **settings: Any
) -> _communicator.Communicator:
    """Called by all ranks."""
    return _communicator.Communicator(
        store, rank, size, key=place.key, timeout=timeout, **settings
    )
