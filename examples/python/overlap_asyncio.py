# SPDX-License-Identifier: BSD-3-Clause
"""Communication beside other work in asyncio: requests are awaited.

    tutti-run -n 4 -- python overlap_asyncio.py

Blocks of a vector are summed over the ranks while the next ones are computed, and a task of its
own goes on meanwhile.
"""

from __future__ import annotations

import asyncio

import numpy as np
import numpy.typing as npt

import tutti

BLOCKS, LENGTH = 8, 100_000


def compute(block: int, rank: int) -> npt.NDArray[np.float64]:
    return np.full(LENGTH, float(block * (rank + 1)))


async def count(ticks: "list[int]") -> None:
    """What a program does besides: here it counts its turns."""
    while True:
        ticks.append(1)
        await asyncio.sleep(0)


async def main() -> None:
    ticks: "list[int]" = []
    beside = asyncio.create_task(count(ticks))
    with tutti.init() as comm:
        pending = []
        for block in range(BLOCKS):
            pending.append(comm.start_all_reduce(compute(block, comm.rank)))
            await asyncio.sleep(0)  # the loop turns while the block is on its way
        sums = await asyncio.gather(*pending)
        total = sum(float(part[0]) for part in sums)
        ranks = comm.size * (comm.size + 1) // 2
        assert total == ranks * sum(range(BLOCKS)), total
        beside.cancel()
        if comm.rank == 0:
            print(f"{comm.size} ranks: the blocks sum up to {total:g}")


asyncio.run(main())
