# SPDX-License-Identifier: BSD-3-Clause
"""tutti in Ray: communicators of actors, and a backend of ray.util.collective.

    @ray.remote
    class Worker:
        def total(self, x):
            return tutti.ray.communicator().all_reduce(x)

    workers = [Worker.remote() for _ in range(4)]     # in a placement group, for example
    tutti.ray.init(workers)                           # rank r is workers[r]
    ray.get([w.total.remote(numpy.ones(3)) for w in workers])

With Ray's own calls, in actors that import this module:

    ray.util.collective.init_collective_group(4, rank, backend="tutti")
    ray.util.collective.allreduce(x)

Arrays are those of the host's memory. An actor that is lost ends the communicator: the others get
tutti.PeerLost, and init() may make another one.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

import ray
from ray.experimental import internal_kv
from ray.util.collective.backend_registry import register_collective_backend
from ray.util.collective.collective_group.base_collective_group import BaseGroup

from . import _meeting
from ._communicator import Communicator
from ._core import Store, key_make
from ._errors import Error, Invalid, Timeout

__all__ = ["Group", "communicator", "init"]

_NAMES = {"SUM": "sum", "PRODUCT": "prod", "MIN": "min", "MAX": "max"}
_PAUSE = 0.02  # seconds between two looks for rank 0's place

_communicators: Dict[str, Communicator] = {}  # of this actor
_stores: Dict[str, Store] = {}  # by their addresses, until all have joined


# ---- actors


def _open(_actor: Any, key: str) -> str:
    store = _meeting.serve(ray.util.get_node_ip_address(), key)
    _stores[store.address] = store
    return store.address


def _join(
    _actor: Any,
    name: str,
    place: _meeting.Place,
    rank: int,
    size: int,
    timeout: Optional[float],
    settings: Dict[str, Any],
) -> None:
    before = _communicators.pop(name, None)
    if before is not None:
        before.close()
    with _stores.pop(place.address, None) or _meeting.visit(place, timeout) as store:
        _communicators[name] = _meeting.join(store, place, rank, size, timeout, **settings)


def init(
    actors: Sequence[Any],
    *,
    name: str = "default",
    timeout: Optional[float] = None,
    **settings: Any,
) -> None:
    """Make a communicator of these actors, of which actors[r] is rank r. To be called where the actors
    were made, or by whoever has them; returns once all have joined.

    An actor may be in several, which `name` tells apart. `settings` are those of tutti.init(). An actor
    must be free to take a call.
    """
    if not actors:
        raise Invalid("tutti.ray.init(): found no actors, expected one or more")
    key = settings.pop("key", None) or key_make()
    address = ray.get(actors[0].__ray_call__.remote(_open, key), timeout=timeout)
    place = _meeting.Place(address, key)
    ray.get(
        [
            actor.__ray_call__.remote(_join, name, place, rank, len(actors), timeout, settings)
            for rank, actor in enumerate(actors)
        ]
    )


def communicator(name: str = "default") -> Communicator:
    """That of this actor, which init() has made."""
    if name not in _communicators:
        raise Invalid(
            f"tutti.ray.communicator(): this process has none called {name!r}; expected "
            "tutti.ray.init(actors) before, with this actor among them"
        )
    return _communicators[name]


# ---- Ray's own collectives


def _seconds(options: Any) -> Optional[float]:
    given = getattr(options, "timeout_ms", None)  # not all of Ray's options have it
    seconds: float = given.total_seconds() if given is not None else 0.0
    return seconds if seconds > 0 else None


def _stack(arrays: Sequence[Any]) -> Any:
    library = importlib.import_module(type(arrays[0]).__module__.split(".")[0])
    return library.stack(arrays)


def _only(arrays: Sequence[Any]) -> Any:
    if len(arrays) != 1:
        raise Invalid(f"tutti in Ray: found arrays of {len(arrays)} GPUs, expected one array")
    return arrays[0]


def _find_store(name: str, timeout: float) -> Tuple[_meeting.Place, Store]:
    """Rank 0's. A place that an earlier group has left, which nobody serves, is as good as none."""
    end = time.monotonic() + timeout
    while True:
        found = internal_kv._internal_kv_get(name)
        if found:
            place = _meeting.place_of(found)
            with contextlib.suppress(Error):
                return place, _meeting.visit(place, 1.0)
        if time.monotonic() >= end:
            raise Timeout(
                f"rank 0 of the collective group did not come within {timeout:g} s: was the group "
                "made in its actor, too?"
            )
        time.sleep(_PAUSE)


class Group(BaseGroup):  # type: ignore[misc]
    """The backend "tutti" of ray.util.collective."""

    _TIMEOUT = 60.0  # seconds in which a group's actors come together

    def __init__(self, world_size: int, rank: int, group_name: str) -> None:
        super().__init__(world_size, rank, group_name)
        job = ray.get_runtime_context().get_job_id()
        name = f"tutti_collective_group_{job}_{group_name}"
        if rank == 0:
            self._comm = self._host(name)
        else:
            place, store = _find_store(name, self._TIMEOUT)
            with store:
                self._comm = self._join(store, place)

    def _join(self, store: Store, place: _meeting.Place) -> Communicator:
        return _meeting.join(store, place, self._rank, self._world_size, self._TIMEOUT)

    def _host(self, name: str) -> Communicator:
        key = key_make()
        with _meeting.serve(ray.util.get_node_ip_address(), key) as store:
            place = _meeting.Place(store.address, key)
            internal_kv._internal_kv_put(name, " ".join(place), overwrite=True)
            try:
                return self._join(store, place)
            finally:
                internal_kv._internal_kv_del(name)

    @classmethod
    def backend(cls) -> str:
        return "TUTTI"

    @classmethod
    def check_backend_availability(cls) -> bool:
        return True

    def destroy_group(self) -> None:
        self._comm.close()

    def allreduce(self, tensor: List[Any], allreduce_options: Any) -> None:
        x = _only(tensor)
        op = _NAMES[allreduce_options.reduceOp.name]
        self._comm.all_reduce(x, op, out=x, timeout=_seconds(allreduce_options))

    def barrier(self, barrier_options: Any = None) -> None:
        self._comm.barrier(timeout=_seconds(barrier_options) if barrier_options else None)

    def reduce(self, tensor: List[Any], reduce_options: Any) -> None:
        x = _only(tensor)
        root = reduce_options.root_rank
        self._comm.reduce(
            x,
            _NAMES[reduce_options.reduceOp.name],
            root,
            out=x if root == self._rank else None,
            timeout=_seconds(reduce_options),
        )

    def allgather(
        self, tensor_list: List[List[Any]], tensor: List[Any], allgather_options: Any
    ) -> None:
        all_ = self._comm.all_gather(_only(tensor), timeout=_seconds(allgather_options))
        for rank, out in enumerate(_only(tensor_list)):
            out[...] = all_[rank]

    def broadcast(self, tensor: List[Any], broadcast_options: Any) -> None:
        x = _only(tensor)
        root = broadcast_options.root_rank
        self._comm.broadcast(x, root, out=x, timeout=_seconds(broadcast_options))

    def reducescatter(
        self, tensor: List[Any], tensor_list: List[List[Any]], reducescatter_options: Any
    ) -> None:
        op = _NAMES[reducescatter_options.reduceOp.name]
        part = self._comm.reduce_scatter(
            _stack(_only(tensor_list)), op, timeout=_seconds(reducescatter_options)
        )
        _only(tensor)[...] = part.reshape(_only(tensor).shape)

    def send(self, tensor: List[Any], send_options: Any) -> None:
        self._comm.send(_only(tensor), send_options.dst_rank, timeout=_seconds(send_options))

    def recv(self, tensor: List[Any], recv_options: Any) -> None:
        self._comm.recv(_only(tensor), recv_options.src_rank, timeout=_seconds(recv_options))


def _register() -> None:
    try:
        register_collective_backend("TUTTI", Group)
    except ValueError:
        pass  # it is there: this module was loaded again


_register()
