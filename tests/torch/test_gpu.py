#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What is special about tensors on GPUs: streams, errors, and what is refused. TEST_ON=gpu runs the other tests there."""
from __future__ import annotations

import os
import signal
import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

from ranks import DEVICE, on_ranks

SOON_S = 2.0    # within which the death of a rank is told


def mine(scale=1.0):
    return torch.full((1000,), scale * (dist.get_rank() + 1))


def until_ended(work):
    while not work.is_completed():
        pass


@unittest.skipUnless(DEVICE, 'needs TEST_ON=gpu, and a GPU or TUTTI_CUDA_LIBRARY with the stand-in')
class Gpus(unittest.TestCase):
    def same(self, tensor, number):
        self.assertTrue(torch.equal(tensor.cpu(), torch.full(tensor.shape, float(number), device='cpu')), f'{tensor.cpu()}')

    @on_ranks(2)
    def test_calls_are_in_the_order_of_the_current_stream(self):
        found, given, after = torch.zeros(1000), mine(), torch.zeros(1000)
        DEVICE.close_gate()
        found.copy_(given)
        dist.all_reduce(found)      # returns though the stream has not come to it
        after.copy_(found)
        DEVICE.open_gate()
        self.same(after, 3)

    @on_ranks(2)
    def test_asynchronous_calls_begin_when_the_current_stream_comes_to_them(self):
        found, given = torch.zeros(1000), mine()
        DEVICE.close_gate()
        found.copy_(given)
        work = dist.all_reduce(found, async_op=True)
        self.assertFalse(work.is_completed())
        with self.assertRaisesRegex(dist.DistBackendError, 'still pending after the 50 ms'):
            work.wait(timedelta(milliseconds=50))
        DEVICE.open_gate()
        self.assertTrue(work.wait(timedelta(seconds=20)))
        self.assertTrue(work.is_completed())
        self.same(found, 3)

    @on_ranks(2)
    def test_asynchronous_calls_are_beside_the_current_stream(self):
        found, after = mine(), torch.zeros(1000)
        work = dist.all_reduce(found, async_op=True)
        DEVICE.close_gate()
        until_ended(work)
        work.wait()
        after.copy_(found)
        DEVICE.open_gate()
        self.same(after, 3)

    @on_ranks(2)
    def test_their_memory_is_kept_for_the_other_stream(self):
        if not hasattr(DEVICE, 'recorded'):
            self.skipTest("PyTorch's allocator for GPUs does not tell")
        before = DEVICE.recorded()
        dist.all_reduce(mine())
        self.assertEqual(DEVICE.recorded(), before)
        dist.all_reduce(mine(), async_op=True).wait()
        self.assertGreater(DEVICE.recorded(), before)

    @on_ranks(2)
    def test_a_barrier_comes_behind_the_current_stream(self):
        found = torch.zeros(1000)
        group, options = dist.group.WORLD, dist.BarrierOptions()
        options.device = found.device
        dist.all_reduce(found)
        group.barrier(options).wait()
        self.same(found, 0)

    @on_ranks(2)
    def test_tensors_of_the_host_are_summed_in_the_same_group(self):
        for device in ('cpu', DEVICE.name, 'cpu'):
            found = torch.ones(5, device=device)
            dist.all_reduce(found)
            self.same(found, 2)
        with self.assertRaisesRegex(ValueError, 'on one device'):
            dist.all_gather_into_tensor(torch.empty(10, device='cpu'), torch.ones(5))

    @on_ranks(2, bound=False)
    def test_a_message_cannot_be_the_first(self):
        peer = 1 - dist.get_rank()
        with self.assertRaisesRegex(ValueError, 'device_id'):
            dist.send(mine(), peer)
        with self.assertRaisesRegex(ValueError, 'tag other than 0'):
            dist.all_reduce(mine())
            dist.recv(mine())
        for tag in (0, 1):
            given, found = mine().reshape(20, 50).t(), torch.zeros(20, 50).t()      # with gaps: by copies
            for work in [dist.isend(given, peer, tag=tag), dist.irecv(found, peer, tag=tag)]:
                work.wait()
            self.same(found, peer + 1)

    @on_ranks(2)
    def test_a_refused_call_ends_its_group(self):
        peer, found = 1 - dist.get_rank(), mine()
        with self.assertRaisesRegex(ValueError, 'on one device'):
            dist.batch_isend_irecv([dist.P2POp(dist.isend, mine(), peer),
                                    dist.P2POp(dist.irecv, torch.zeros(1000, device='cpu'), peer)])
        dist.broadcast(found, 0)
        self.same(found, 1)

    @on_ranks(2)
    def test_the_future_of_what_has_no_output_orders_its_input(self):
        given, zeros = mine(), torch.zeros(1000)
        found = [torch.zeros(1000) for _ in range(2)] if dist.get_rank() == 0 else None
        future = dist.gather(given, found, async_op=True).get_future()
        future.wait()
        given.copy_(zeros)
        if found:
            self.same(found[1], 2)

    @on_ranks(2)
    def test_calls_that_differ_are_told_by_a_later_one(self):
        with self.assertRaises(RuntimeError) as raised:
            if dist.get_rank() == 0:
                work = dist.all_reduce(mine(), async_op=True)
            else:
                work = dist.broadcast(mine(), 0, async_op=True)
            until_ended(work)
            dist.all_reduce(mine())
        self.assertRegex(str(raised.exception), 'all_reduce')
        self.assertRegex(str(raised.exception), 'broadcast')

    @on_ranks(3, killed=[1])
    def test_a_rank_dies_while_others_wait(self):
        store = dist.distributed_c10d._get_default_store()
        dist.all_reduce(mine())
        dist.barrier()
        if dist.get_rank() == 1:
            store.wait(['waits0', 'waits2'])
            os.kill(os.getpid(), signal.SIGKILL)
        begun = time.monotonic()
        work = dist.all_reduce(mine(), async_op=True)
        store.set(f'waits{dist.get_rank()}', '')
        until_ended(work)
        self.assertFalse(work.is_success())
        for call in (work.wait, lambda: dist.all_reduce(mine())):
            with self.assertRaisesRegex(dist.DistBackendError, 'rank 1'):
                call()
        self.assertLess(time.monotonic() - begun, SOON_S)
        dist.destroy_process_group()
        self.assertLess(time.monotonic() - begun, 2 * SOON_S)

    @on_ranks(2)
    def test_a_group_ends_behind_what_is_on_streams(self):
        found = mine()
        work = dist.all_reduce(found, async_op=True)
        dist.destroy_process_group()
        work.wait()
        self.same(found, 3)

    @on_ranks(2)
    def test_a_model_is_trained(self):
        if DEVICE.name != 'cuda':
            self.skipTest('autograd knows no streams of the stand-in')
        torch.manual_seed(1)
        inputs = torch.randn(8, 4, device='cpu')
        ends = []
        for device in ('cpu', DEVICE.name):
            torch.manual_seed(2)
            with torch.device('cpu'):
                model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
            model = nn.parallel.DistributedDataParallel(model.to(device))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                model(inputs[dist.get_rank()::2].to(device)).square().mean().backward()
                optimizer.step()
            ends.append(torch.cat([each.detach().cpu().reshape(-1) for each in model.parameters()]))
        self.assertTrue(torch.allclose(ends[0], ends[1], atol=1e-5))


if __name__ == '__main__':
    unittest.main()
