# SPDX-License-Identifier: BSD-3-Clause
"""tutti in Dask: a function on several workers at once, which have a communicator.

    def train(comm, rows):
        ...
        return comm.all_reduce(gradients)

    client = distributed.Client(scheduler)
    results = tutti.dask.run(client, train, [rows_0, rows_1])     # rank r gets rows_r

Results are in the order of ranks. Each rank is a task, which keeps one thread of its worker until the
function returns. Arguments may be futures: data that a worker holds stays there, if the rank is put
there (`workers`).
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, List, Optional, Sequence

import distributed

from . import _meeting
from ._core import Store, key_make
from ._errors import Error, Invalid

__all__ = ["run"]

_GRACE = 5.0  # seconds for ranks to learn that another one has failed

_hosted: List[Store] = []  # of the rank 0 that is about to begin here


def _open(key: str) -> str:
    scheme, _, place = distributed.get_worker().address.partition("://")
    # workers that are threads of one process have no address
    host = "127.0.0.1" if scheme == "inproc" else place.rsplit(":", 1)[0].strip("[]")
    store = _meeting.serve(host, key)
    _hosted.append(store)
    return store.address


def _take(address: str) -> Optional[Store]:
    for store in _hosted:
        if store.address == address:
            _hosted.remove(store)
            return store
    return None


def _be_rank(
    function: Callable[..., Any],
    place: _meeting.Place,
    rank: int,
    size: int,
    timeout: Optional[float],
    arguments: Sequence[Any],
) -> Any:
    with _take(place.address) or _meeting.visit(place, timeout) as store:
        comm = _meeting.join(store, place, rank, size, timeout)
    with comm:
        try:
            return function(comm, *arguments)
        except Exception as error:
            comm.abort(f"rank {rank} failed: {type(error).__name__}: {error}")  # others say why
            raise


def _await(client: Any, ranks: Sequence[Any]) -> None:
    """Until all have returned. One that failed ends the others, which may be without a worker, and would
    wait for one."""
    pending = set(ranks)
    while pending and not any(future.status == "error" for future in ranks):
        pending -= distributed.wait(list(pending), return_when="FIRST_COMPLETED").done
    if pending:
        with contextlib.suppress(TimeoutError):
            distributed.wait(list(pending), timeout=_GRACE)
    errors = [future.exception() for future in ranks if future.status == "error"]
    if errors:
        client.cancel(list(ranks))
        raise next((error for error in errors if not isinstance(error, Error)), errors[0])


def run(
    client: Any,
    function: Callable[..., Any],
    arguments: Optional[Sequence[Any]] = None,
    *,
    workers: Optional[Sequence[str]] = None,
    timeout: Optional[float] = None,
) -> List[Any]:
    """function(comm), or function(comm, arguments[r]), on each of `workers` (all of the client's), and
    what it returned.

    `timeout` is the deadline of the communicator's calls in seconds. If a rank fails, the others get
    the error that names it, and this call raises that of the first rank that failed by itself.
    """
    places = list(workers if workers is not None else client.scheduler_info(n_workers=-1)["workers"])
    if not places:
        raise Invalid("tutti.dask.run(): found no workers, expected one or more")
    if arguments is not None and len(arguments) != len(places):
        raise Invalid(
            f"tutti.dask.run(): found {len(arguments)} arguments for {len(places)} workers, expected "
            "one for each"
        )
    key = key_make()
    address = client.submit(_open, key, workers=places[:1], pure=False).result(timeout=timeout)
    place = _meeting.Place(address, key)
    ranks = [
        client.submit(
            _be_rank,
            function,
            place,
            rank,
            len(places),
            timeout,
            [arguments[rank]] if arguments is not None else [],
            workers=[worker],
            pure=False,
            retries=0,
        )
        for rank, worker in enumerate(places)
    ]
    _await(client, ranks)
    results: List[Any] = client.gather(ranks)
    return results
