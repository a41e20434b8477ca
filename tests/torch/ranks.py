# SPDX-License-Identifier: BSD-3-Clause
"""Tests whose body runs in every rank of a process group of tutti.

Ranks are forked from the test's process, which has loaded PyTorch and the backend: that takes
seconds, a fork none. What a rank raises becomes the test's failure, with the rank's number.

With TEST_ON=gpu tensors are on a GPU unless the test says where: DEVICE (gpu_device.py).
"""
from __future__ import annotations

import functools
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist

import gpu_device
import tutti.torch

LIMIT_S = 150.0         # of a test that hangs: some take 25 s where nothing else runs, and --all ends a file later
PYTORCH = tuple(map(int, torch.__version__.split('.')[:2]))
LEFT = 'left'           # what a test returns that leaves its group as it is

DEVICE = gpu_device.find() if os.environ.get('TEST_ON') == 'gpu' else None

os.environ.setdefault('TUTTI_TRACE', 'off')
tutti.torch._extension()


def _initialise(rank, size, path, timeout=30, bound=True, make_store=dist.FileStore, **options):
    devices = ''
    if DEVICE:
        torch.set_default_device(DEVICE.name)
        devices = f'cpu:tutti,{DEVICE.name}:'
    dist.init_process_group(f'{devices}tutti', store=make_store(path, size), rank=rank, world_size=size,
                            timeout=timedelta(seconds=timeout), **options)
    if DEVICE and bound:        # what init_process_group() does that is given a device_id
        device = torch.device(DEVICE.name, 0)
        dist.group.WORLD._get_backend(device).eager_connect_single_device(device)


def set_timeout(seconds):
    """dist.set_timeout(), and what it calls where PyTorch does not have it yet."""
    backend = dist.group.WORLD._get_backend(torch.device('cpu'))
    if hasattr(dist, 'set_timeout'):
        dist.set_timeout(timedelta(seconds=seconds))
    elif hasattr(backend, '_set_default_timeout'):
        backend._set_default_timeout(timedelta(seconds=seconds))
    else:
        raise unittest.SkipTest("this PyTorch cannot change a group's timeout")


def _rank_main(body, test, rank, size, path, options, raises, pipe):
    torch.set_num_threads(1)
    try:
        if options.pop('initialise', True):
            _initialise(rank, size, path, **options)
        left = body(test)
        if dist.is_initialized() and left is not LEFT:
            dist.destroy_process_group()
        pipe.send(None)
    except unittest.SkipTest as reason:
        pipe.send(reason)
    except BaseException:
        if raises:
            raise
        pipe.send(traceback.format_exc())
    pipe.close()


def _collect(process, pipe, end, expected):
    """What a rank came to: None, a reason to skip, or the text of its failure."""
    if not pipe.poll(max(0.0, end - time.monotonic())):
        process.kill()
        process.join()
        return f'did not end in {LIMIT_S:g} s'
    try:
        found = pipe.recv()
    except EOFError:
        found = f'ended with {process.exitcode} before its end'
        process.join(5)
        if process.exitcode in expected:
            return None
        return f'ended with status {process.exitcode} in the test, expected {" or ".join(map(str, expected)) or 0}'
    process.join(max(1.0, end - time.monotonic()))
    if process.exitcode is None:
        process.kill()
        process.join()
        return 'did not exit after the test'
    if found is None and process.exitcode != 0:
        return f'exited with status {process.exitcode} after the test'
    return found


def on_ranks(size, killed=(), raising=(), **options):
    """Run the test in `size` ranks. `killed`: those that the test kills; `raising`: those whose process ends by what they
    raise. Options go to init_process_group()."""
    def decorate(body):
        @functools.wraps(body)
        def test(self):
            context = multiprocessing.get_context('fork')
            sys.stdout.flush()
            with tempfile.TemporaryDirectory() as directory:
                started = []
                for rank in range(size):
                    mine, theirs = context.Pipe(duplex=False)
                    process = context.Process(target=_rank_main, daemon=True, args=(
                        body, self, rank, size, os.path.join(directory, 'store'), dict(options), rank in raising,
                        theirs))
                    process.start()
                    theirs.close()
                    started.append((process, mine))
                end = time.monotonic() + LIMIT_S
                found = [_collect(process, pipe, end, (-9, -15) if rank in killed else (1,) if rank in raising else ())
                         for rank, (process, pipe) in enumerate(started)]
            for reason in found:
                if isinstance(reason, unittest.SkipTest):
                    raise reason
            failed = [f'rank {rank}: {text}' for rank, text in enumerate(found) if text]
            if failed:
                self.fail('\n'.join(failed))
        return test
    return decorate
