# SPDX-License-Identifier: BSD-3-Clause
"""k-means over ranks: each rank has a part of the points, all have the same centres.

    tutti-run -n 4 -- python kmeans.py

Each round assigns the rank's points to their nearest centres, and sums the points of each centre
over all ranks by one all-reduce.
"""

from __future__ import annotations

from typing import Tuple

import numpy as np
import numpy.typing as npt

import tutti

Array = npt.NDArray[np.float64]

CLUSTERS, POINTS, DIMENSIONS, ROUNDS = 5, 3000, 2, 50


def points_of(rank: int, size: int) -> Array:
    """This rank's part of the points, which lie around the corners of a polygon."""
    random = np.random.default_rng(1)
    corner = random.integers(CLUSTERS, size=POINTS)
    angle = 2 * np.pi * corner / CLUSTERS
    points = 10 * np.stack([np.cos(angle), np.sin(angle)], 1)
    points += random.normal(size=(POINTS, DIMENSIONS))
    return np.ascontiguousarray(points[rank::size])


def spread_out(comm: tutti.Communicator, points: Array) -> Array:
    """First centres: a point of rank 0, then always the one that is farthest from those so far."""
    centres = comm.broadcast(points[:1].copy())
    while len(centres) < CLUSTERS:
        squares = ((points[:, None] - centres[None]) ** 2).sum(2).min(1)
        farthest = squares.argmax()
        found = comm.all_gather(np.append(points[farthest], squares[farthest]))
        centres = np.vstack([centres, found[found[:, -1].argmax(), :-1]])
    return centres


def step(comm: tutti.Communicator, points: Array, centres: Array) -> Tuple[Array, float]:
    """The new centres, and the mean squared distance to the old ones."""
    squares = ((points[:, None] - centres[None]) ** 2).sum(2)
    nearest = squares.argmin(1)
    # of each centre: the sum of its points, their number, their squared distances
    sums = np.zeros((CLUSTERS, DIMENSIONS + 2))
    np.add.at(sums[:, :DIMENSIONS], nearest, points)
    np.add.at(sums[:, DIMENSIONS], nearest, 1)
    np.add.at(sums[:, -1], nearest, squares.min(1))
    comm.all_reduce(sums, out=sums)
    return sums[:, :DIMENSIONS] / sums[:, DIMENSIONS, None], sums[:, -1].sum() / POINTS


def main() -> None:
    with tutti.init() as comm:
        points = points_of(comm.rank, comm.size)
        centres = spread_out(comm, points)
        last = np.inf
        for number in range(ROUNDS):
            centres, distance = step(comm, points, centres)
            if distance == last:
                break
            last = distance
        if comm.rank == 0:
            print(f"{comm.size} ranks, {number} rounds, mean squared distance {last:.4f}")
            print(np.round(centres[np.lexsort(centres.T)], 2))


main()
