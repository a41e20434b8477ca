# SPDX-License-Identifier: BSD-3-Clause
"""tutti.dask: a function on several workers, which have a communicator."""

import contextlib
import io
import os
import signal
import unittest

import distributed
import numpy
import tutti
import tutti.dask
from guide import program_with

RANKS = 3


def total(comm, x):
    return comm.rank, comm.size, comm.all_reduce(numpy.asarray(x)).tolist()


def alone(comm):
    return comm.all_gather(numpy.array([comm.rank])).ravel().tolist()


def fail(comm, rank):
    if comm.rank == rank:
        raise KeyError("nothing")
    comm.barrier()


def die(comm, rank):
    if comm.rank == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.barrier()


class InDask(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = distributed.LocalCluster(
            n_workers=RANKS, threads_per_worker=1, dashboard_address=None, silence_logs=50
        )
        cls.client = distributed.Client(cls.cluster)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.cluster.close()

    def test_1_ranks_are_workers(self):
        x = [numpy.arange(4.0) + r for r in range(RANKS)]
        futures = self.client.scatter(x)
        for given in (x, futures):
            found = tutti.dask.run(self.client, total, given, timeout=60)
            expected = sum(x).tolist()
            self.assertEqual(found, [(r, RANKS, expected) for r in range(RANKS)])
        some = list(self.client.scheduler_info(n_workers=-1)["workers"])[:2]
        self.assertEqual(tutti.dask.run(self.client, alone, workers=some, timeout=60), [[0, 1]] * 2)

    def test_2_what_is_wrong_is_said(self):
        with self.assertRaisesRegex(tutti.Invalid, "2 arguments for 3 workers"):
            tutti.dask.run(self.client, total, [1, 2])
        with self.assertRaisesRegex(tutti.Invalid, "no workers"):
            tutti.dask.run(self.client, alone, workers=[])

    def test_3_the_error_is_that_of_the_rank_that_failed(self):
        with self.assertRaisesRegex(KeyError, "nothing"):
            tutti.dask.run(self.client, fail, [2] * RANKS, timeout=60)
        self.assertEqual(tutti.dask.run(self.client, alone, timeout=60), [[0, 1, 2]] * RANKS)

    def test_4_a_lost_worker_is_named(self):
        with self.assertRaisesRegex(tutti.PeerLost, "rank 1 "):
            tutti.dask.run(self.client, die, [1] * RANKS, timeout=60)

    def test_5_the_program_of_the_guide_runs(self):
        program = program_with("tutti.dask").replace("scheduler:8786", self.cluster.scheduler_address)
        names = {"__name__": "__main__"}
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(program, names)
        names["client"].close()
        self.assertRegex(out.getvalue(), r"^\[([46])\. \1\. \1\.\]$")


if __name__ == "__main__":
    unittest.main()
