#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What programs do around their training: micro-batches, pipelines, loaders, threads, profilers, long tensors, ranks that
are late or raise."""
from __future__ import annotations

import copy
import multiprocessing
import tempfile
import threading
import time
import unittest

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as checkpoint
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import test_training
from ranks import on_ranks
from test_training import batches, make_model, my_part, train


class Clients(unittest.TestCase):
    close = test_training.Training.close

    @on_ranks(2)
    def test_gradients_of_several_batches_are_summed_once(self):
        model = DistributedDataParallel(make_model())
        alone = make_model()
        given = list(batches())
        for i, (inputs, wanted) in enumerate(given):
            torch.nn.functional.mse_loss(alone(inputs), wanted).backward()
            if i + 1 < len(given):
                with model.no_sync():
                    torch.nn.functional.mse_loss(model(my_part(inputs)), my_part(wanted)).backward()
            else:
                torch.nn.functional.mse_loss(model(my_part(inputs)), my_part(wanted)).backward()
        for ours, theirs in zip(model.parameters(), alone.parameters()):
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-5, atol=1e-6)

    @on_ranks(2)
    def test_fully_sharded_the_first_way(self):
        model = FullyShardedDataParallel(make_model(), device_id=torch.device('cpu'), use_orig_params=True)
        train(model)
        with FullyShardedDataParallel.summon_full_params(model):
            self.close({name.replace('_fsdp_wrapped_module.', ''): value
                        for name, value in model.named_parameters()})

    @on_ranks(2)
    def test_a_pipeline(self):
        rank, layers = dist.get_rank(), list(make_model())
        half = torch.nn.Sequential(*(layers[:2], layers[2:])[rank])
        stage = PipelineStage(half, rank, 2, torch.device('cpu'))
        schedule = ScheduleGPipe(stage, 4, loss_fn=torch.nn.functional.mse_loss)
        inputs, wanted = next(batches())
        losses: list = []
        if rank == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=wanted, losses=losses)
            expected = torch.nn.functional.mse_loss(make_model()(inputs), wanted)
            torch.testing.assert_close(torch.stack(losses).mean(), expected)
        self.assertTrue(all(parameter.grad is not None for parameter in half.parameters()))

    @on_ranks(2)
    def test_a_checkpoint_is_written_while_training_goes_on(self):
        path = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(path)
        model = make_model()
        saved = copy.deepcopy(model.state_dict())
        # a thread writes it, whose operations are not to come between those of the training
        written = checkpoint.async_save({'model': model.state_dict()}, checkpoint_id=path[0],
                                        process_group=dist.new_group())
        train(DistributedDataParallel(model))
        written.result()
        state = {'model': make_model().state_dict()}
        checkpoint.load(state, checkpoint_id=path[0])
        for name, value in saved.items():
            torch.testing.assert_close(state['model'][name], value)

    @on_ranks(2)
    def test_loaders_with_processes_of_their_own(self):
        multiprocessing.current_process()._config['daemon'] = False     # those of tests may have no children
        data = TensorDataset(torch.arange(24.0))
        for way in 'fork', 'forkserver', 'spawn':
            loader = DataLoader(data, batch_size=3, num_workers=1, multiprocessing_context=way,
                                sampler=DistributedSampler(data, shuffle=False))
            total = torch.zeros(1)
            for batch, in loader:
                part = batch.sum().reshape(1)
                dist.all_reduce(part)
                total += part
            self.assertEqual(total.item(), sum(range(24)), way)

    @on_ranks(2)
    def test_each_thread_has_its_group(self):
        groups = [dist.new_group() for _ in range(3)]
        found = [0.0] * len(groups)

        def work(i):
            x = torch.full((1000,), float(i))
            for _ in range(20):
                dist.all_reduce(x, op=dist.ReduceOp.MAX, group=groups[i])
            dist.all_reduce(x, group=groups[i])
            found[i] = x[-1].item()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(groups))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [0.0, 2.0, 4.0])

    @on_ranks(2)
    def test_the_profiler_names_the_operations(self):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            dist.all_reduce(torch.ones(100))
            dist.broadcast(torch.ones(100), 0)
        names = ' '.join(event.key for event in profile.key_averages())
        self.assertIn('all_reduce', names.replace('allreduce', 'all_reduce'))
        self.assertIn('broadcast', names)

    @on_ranks(2)
    def test_functional_collectives(self):
        rank, group = dist.get_rank(), dist.group.WORLD
        x = torch.arange(4.0) + rank
        self.assertEqual(functional.all_reduce(x, 'sum', group).tolist(), [1, 3, 5, 7])
        self.assertEqual(functional.all_gather_tensor(x, 0, group).tolist(), [0, 1, 2, 3, 1, 2, 3, 4])
        self.assertEqual(functional.reduce_scatter_tensor(x, 'sum', 0, group).tolist(), [[1, 3], [5, 7]][rank])
        self.assertEqual(functional.broadcast(x, 1, group).tolist(), [1, 2, 3, 4])

    @on_ranks(2)
    def test_tensors_of_a_gibibyte(self):
        x = torch.ones(1 << 28)
        x[-1] = dist.get_rank()
        dist.all_reduce(x)
        self.assertEqual([x[0].item(), x[1 << 27].item(), x[-1].item()], [2, 2, 1])

    @on_ranks(2)
    def test_a_late_rank_is_waited_for(self):
        store, x = dist.distributed_c10d._get_default_store(), torch.ones(1)
        if dist.get_rank() == 0:
            work = dist.all_reduce(x, async_op=True)
            self.assertFalse(work.is_completed())
            store.set('late', 'come')
            work.wait()
        else:
            store.get('late')
            dist.all_reduce(x)
        self.assertEqual(x.item(), 2)

    @on_ranks(2, timeout=20, raising=[1])
    def test_a_rank_that_raises_ends_the_others_wait(self):
        if dist.get_rank() == 1:
            raise ValueError('of the program itself')
        began = time.monotonic()
        with self.assertRaisesRegex(RuntimeError, 'rank 1'):
            dist.all_reduce(torch.ones(1))
        self.assertLess(time.monotonic() - began, 15)


if __name__ == '__main__':
    unittest.main()
