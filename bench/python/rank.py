# SPDX-License-Identifier: BSD-3-Clause
"""A rank of bench/python/compare: blocking all-reduces of float32 by one library, in place of none.

    rank.py tutti|mpi4py BYTES,... SECONDS

Rank 0 prints a line for each size: bytes, and microseconds per call, the lower quartile of batches.
Every result is checked.
"""

from __future__ import annotations

import math
import sys
import time
from typing import Any, Callable, List, Tuple

import numpy as np

BATCHES = 12


def library(name: str) -> Tuple[int, int, Callable[[Any, Any], Any], Callable[[], Any]]:
    """Rank, size, the all-reduce and the barrier."""
    if name == "tutti":
        import tutti

        comm = tutti.init()
        return comm.rank, comm.size, lambda x, y: comm.all_reduce(x, "sum", y), comm.barrier
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    return world.rank, world.size, lambda x, y: world.Allreduce(x, y), world.Barrier


def seconds_of(calls: int, reduce: Callable[[Any, Any], Any], x: Any, y: Any) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        reduce(x, y)
    return time.perf_counter() - begin


def main() -> None:
    name, sizes, budget = sys.argv[1], sys.argv[2], float(sys.argv[3])
    rank, size, reduce, barrier = library(name)
    for length in map(int, sizes.split(",")):
        x = np.full(length // 4, rank + 1, np.float32)
        y = np.zeros(length // 4, np.float32)
        for _ in range(3):
            reduce(x, y)
        # every rank has to make as many calls
        once = np.array([seconds_of(3, reduce, x, y) / 3], np.float32)
        slowest = np.zeros(1, np.float32)
        reduce(once, slowest)
        calls = max(3, math.ceil(budget / BATCHES / (float(slowest[0]) / size)))
        times: List[float] = []
        for _ in range(BATCHES):
            barrier()
            times.append(seconds_of(calls, reduce, x, y) / calls)
        assert (y == size * (size + 1) / 2).all(), f"{name}: a sum is wrong"
        if rank == 0:
            print(length, 1e6 * sorted(times)[BATCHES // 4], flush=True)


main()
