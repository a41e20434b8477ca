# SPDX-License-Identifier: BSD-3-Clause
"""tutti.ray: communicators of actors, and the backend of ray.util.collective."""

import os
import signal
import subprocess
import sys
import unittest

import numpy
import ray
import ray.util.collective as collective
import tutti
import tutti.ray
from guide import program_with
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

RANKS = 3


@ray.remote(num_cpus=1, max_restarts=0)
class Worker:
    def pid(self):
        return os.getpid()

    def total(self, name="default"):
        comm = tutti.ray.communicator(name)
        return comm.all_reduce(numpy.full(1000, comm.rank + 1.0)), comm.rank, comm.size

    def wait_for_others(self):
        try:
            tutti.ray.communicator().barrier()
        except tutti.PeerLost as error:
            return str(error)
        return "nobody was lost"

    def collectives(self, rank, size):
        import tutti.ray  # in each actor: it registers the backend

        collective.init_collective_group(size, rank, backend="tutti", group_name="g")
        x = numpy.full(5, rank + 1, dtype=numpy.float32)
        collective.allreduce(x, "g")
        product = numpy.full(2, rank + 1.0)
        collective.allreduce(product, "g", op=collective.types.ReduceOp.PRODUCT)
        reduced = numpy.full(2, float(rank))
        collective.reduce(reduced, dst_rank=1, group_name="g", op=collective.types.ReduceOp.MAX)
        b = numpy.arange(4.0) if rank == 2 else numpy.zeros(4)
        collective.broadcast(b, src_rank=2, group_name="g")
        parts = [numpy.zeros(2) for _ in range(size)]
        collective.allgather(parts, numpy.full(2, float(rank)), "g")
        mine = numpy.zeros(2)
        collective.reducescatter(mine, [numpy.full(2, float(r)) for r in range(size)], "g")
        got = numpy.zeros(3)
        if rank == 0:
            collective.send(numpy.arange(3.0), 1, "g")
        elif rank == 1:
            collective.recv(got, 0, "g")
        collective.barrier("g")
        collective.destroy_collective_group("g")
        return [a.tolist() for a in (x, product, reduced, b, *parts, mine, got)]


class InRay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        ray.init(num_cpus=RANKS, include_dashboard=False, log_to_driver=False, configure_logging=False)
        cls.group = placement_group([{"CPU": 1}] * RANKS)
        ray.get(cls.group.ready(), timeout=60)
        strategy = PlacementGroupSchedulingStrategy(placement_group=cls.group)
        cls.workers = [Worker.options(scheduling_strategy=strategy).remote() for _ in range(RANKS)]

    @classmethod
    def tearDownClass(cls):
        ray.shutdown()

    def totals(self, workers, name="default"):
        found = ray.get([w.total.remote(name) for w in workers], timeout=60)
        size = len(workers)
        for rank, (x, its_rank, its_size) in enumerate(found):
            self.assertEqual((rank, size), (its_rank, its_size))
            numpy.testing.assert_array_equal(x, numpy.full(1000, size * (size + 1) / 2))

    def test_1_actors_have_communicators(self):
        tutti.ray.init(self.workers)
        tutti.ray.init(self.workers[::-1][:2], name="two", reproducible=True)
        self.totals(self.workers)
        self.totals(self.workers[::-1][:2], "two")
        tutti.ray.init(self.workers)  # another one in its place
        self.totals(self.workers)

    def test_2_rays_own_calls(self):
        found = ray.get([w.collectives.remote(r, RANKS) for r, w in enumerate(self.workers)], timeout=60)
        for rank, result in enumerate(found):
            x, product, reduced, b, *parts, mine, got = result
            self.assertEqual(x, [6.0] * 5)
            self.assertEqual(product, [6.0] * 2)
            self.assertEqual(reduced, [2.0 if rank == 1 else float(rank)] * 2)
            self.assertEqual(b, [0.0, 1.0, 2.0, 3.0])
            self.assertEqual(parts, [[float(r)] * 2 for r in range(RANKS)])
            self.assertEqual(mine, [3.0 * rank] * 2)
            self.assertEqual(got, [0.0, 1.0, 2.0] if rank == 1 else [0.0] * 3)

    def test_3_the_driver_has_none(self):
        with self.assertRaisesRegex(tutti.Invalid, "none called 'default'"):
            tutti.ray.communicator()
        with self.assertRaisesRegex(tutti.Invalid, "no actors"):
            tutti.ray.init([])

    def test_4_a_lost_actor_is_named_and_the_others_go_on(self):
        pid = ray.get(self.workers[1].pid.remote())
        waiting = [self.workers[r].wait_for_others.remote() for r in (0, 2)]
        os.kill(pid, signal.SIGKILL)
        for text in ray.get(waiting, timeout=60):
            self.assertRegex(text, f"rank 1 .*{pid}")
        tutti.ray.init([self.workers[0], self.workers[2]])
        self.totals([self.workers[0], self.workers[2]])

    def test_5_the_program_of_the_guide_runs(self):
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program_with("tutti.ray")],
            stdout=subprocess.PIPE, timeout=120, check=True, text=True,
        )
        self.assertEqual(run.stdout, f"{[numpy.full(3, 4.0)] * 4}\n")


if __name__ == "__main__":
    unittest.main()
