#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's ways to train on several ranks run on tutti, and come to what one process comes to."""
from __future__ import annotations

import shutil
import tempfile
import unittest

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from ranks import on_ranks

STEPS, BATCH, WIDTH = 4, 12, 8


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16),
                               torch.nn.ReLU(), torch.nn.Linear(16, 4))


def batches():
    generator = torch.Generator().manual_seed(2)
    for _ in range(STEPS):
        yield torch.randn(BATCH, WIDTH, generator=generator), torch.randn(BATCH, 4, generator=generator)


def my_part(tensor):
    return tensor.chunk(dist.get_world_size())[dist.get_rank()]


def train(model, part=my_part, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for inputs, wanted in batches():
        optimizer.zero_grad()
        F.mse_loss(model(part(inputs)), part(wanted)).backward()
        optimizer.step()
    return model


def reference():
    """What one process comes to, of whole batches."""
    return train(make_model(), part=lambda tensor: tensor).state_dict()


class Training(unittest.TestCase):
    def close(self, state, places=1e-5):
        for name, expected in reference().items():
            found = state[name.replace('module.', '')]
            found = found.full_tensor() if isinstance(found, DTensor) else found
            torch.testing.assert_close(found, expected, rtol=places, atol=places)

    @on_ranks(3)
    def test_data_parallel(self):
        for view in (False, True):
            model = DistributedDataParallel(make_model(), bucket_cap_mb=0.0005, gradient_as_bucket_view=view)
            self.close(train(model).module.state_dict())

    @on_ranks(2)
    def test_data_parallel_with_hooks(self):
        model = DistributedDataParallel(make_model())
        model.register_comm_hook(None, default_hooks.allreduce_hook)
        self.close(train(model).module.state_dict())
        model = DistributedDataParallel(make_model())
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
        self.close(train(model).module.state_dict(), 1e-2)
        model = DistributedDataParallel(make_model())
        model.register_comm_hook(powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2),
                                 powerSGD_hook.powerSGD_hook)
        train(model)        # its callbacks wait for operations of the same group

    @on_ranks(2)
    def test_data_parallel_with_uneven_inputs(self):
        model = DistributedDataParallel(make_model())
        with model.join():
            for _ in range(2 + dist.get_rank()):
                model(torch.ones(2, WIDTH)).sum().backward()
        dist.barrier()

    @on_ranks(2)
    def test_sharded_optimizer(self):
        model = DistributedDataParallel(make_model())
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
        self.close(train(model, optimizer=optimizer).module.state_dict())

    @on_ranks(2)
    def test_fully_sharded(self):
        model = make_model()
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer)
        fully_shard(model)
        self.close(train(model).state_dict())

    @on_ranks(4)
    def test_sharded_and_replicated(self):
        mesh = init_device_mesh('cpu', (2, 2), mesh_dim_names=('replicate', 'shard'))
        model = make_model()
        fully_shard(model, mesh=mesh)
        self.close(train(model).state_dict())

    @on_ranks(2)
    def test_distributed_tensors(self):
        mesh = init_device_mesh('cpu', (2,))
        whole = torch.arange(24.0).reshape(6, 4)
        sharded = distribute_tensor(whole, mesh, [Shard(0)])
        self.assertTrue(torch.equal(sharded.redistribute(placements=[Shard(1)]).full_tensor(), whole))
        self.assertTrue(torch.equal(sharded.redistribute(placements=[Replicate()]).to_local(), whole))
        torch.testing.assert_close((sharded @ distribute_tensor(whole.t(), mesh, [Replicate()])).full_tensor(),
                                   whole @ whole.t())
        torch.testing.assert_close(sharded.sum().full_tensor(), whole.sum())

    @on_ranks(2)
    def test_tensor_parallel(self):
        mesh = init_device_mesh('cpu', (2,))
        model = parallelize_module(make_model(), mesh, {'0': ColwiseParallel(), '2': RowwiseParallel()})
        self.close(train(model, part=lambda tensor: tensor).state_dict())

    @on_ranks(2)
    def test_checkpoints(self):
        path = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(path)
        model = make_model()
        fully_shard(model)
        train(model)
        checkpoint.save({'model': get_model_state_dict(model)}, checkpoint_id=path[0])
        again = make_model()
        fully_shard(again)
        state = {'model': get_model_state_dict(again)}
        checkpoint.load(state, checkpoint_id=path[0])
        set_model_state_dict(again, state['model'])
        self.close(again.state_dict())
        dist.barrier()
        if dist.get_rank() == 0:
            shutil.rmtree(path[0])


if __name__ == '__main__':
    unittest.main()
