#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What programs see when ranks die, stop, differ, abort or end: errors that name the rank, and no hang."""
from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist

from interrupts import signal_in_a_wait     # of tests/python
from ranks import LEFT, PYTORCH, on_ranks, set_timeout

HAS_ASYNC = unittest.skipUnless(hasattr(dist.AllreduceOptions(), 'asyncOp'), 'in this PyTorch nothing blocks')
HAS_ABORT = unittest.skipUnless(hasattr(dist.ProcessGroup, 'abort'), 'this PyTorch cannot end groups')
SOON_S = 2.0    # within which the death of a rank is told


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def meet_at_the_end():
    """A barrier of a rank whose peer ends its group next, perhaps before this rank has left the barrier."""
    with contextlib.suppress(dist.DistBackendError):
        dist.barrier()


class Failures(unittest.TestCase):
    @on_ranks(3, killed=[1])
    def test_a_rank_dies_while_others_wait(self):
        dist.barrier()
        if dist.get_rank() == 1:
            die()
        begun = time.monotonic()
        with self.assertRaisesRegex(dist.DistBackendError, 'rank 1') as raised:
            dist.all_reduce(torch.ones(4))
        self.assertIsInstance(raised.exception, RuntimeError)
        self.assertLess(time.monotonic() - begun, SOON_S)
        with self.assertRaisesRegex(RuntimeError, 'rank 1'):    # and so do later ones
            dist.barrier()
        dist.destroy_process_group()
        self.assertLess(time.monotonic() - begun, 2 * SOON_S)

    @on_ranks(2, killed=[1])
    def test_pending_works_and_futures_end_with_the_error(self):
        dist.barrier()
        if dist.get_rank() == 1:
            die()
        works = [dist.all_reduce(torch.ones(4), async_op=True), dist.irecv(torch.ones(4), 1)]
        future = works[0].get_future()
        waited = works[1].get_future().then(lambda done: done.value())
        begun = time.monotonic()
        for wait in (works[0].wait, works[1].wait, future.wait, waited.wait):
            with self.assertRaisesRegex(RuntimeError, 'rank 1'):
                wait()
        if PYTORCH >= (2, 14):  # older ones cannot hand it to Python
            self.assertIsNotNone(works[0].exception())
        self.assertFalse(works[0].is_success())
        self.assertLess(time.monotonic() - begun, SOON_S)

    @on_ranks(2, killed=[1])
    def test_destroying_with_works_pending_does_not_hang(self):
        if dist.get_rank() == 1:
            meet_at_the_end()
            die()
        dist.barrier()
        work = dist.all_reduce(torch.ones(4), async_op=True)
        begun = time.monotonic()
        dist.destroy_process_group()
        self.assertLess(time.monotonic() - begun, SOON_S)
        with self.assertRaises(RuntimeError):
            work.wait()

    @on_ranks(2)
    def test_destroying_ends_a_wait_of_another_thread(self):
        if dist.get_rank() == 1:
            meet_at_the_end()
            dist.destroy_process_group()
            return
        dist.barrier()
        group, found = dist.group.WORLD, []

        def wait():
            try:        # both errors are right: the thread may come before the end or after it
                group.recv([torch.ones(4)], 1, 0).wait()
            except RuntimeError as error:
                found.append(error)
        thread = threading.Thread(target=wait)
        thread.start()
        dist.destroy_process_group()
        thread.join(SOON_S)
        self.assertFalse(thread.is_alive())
        self.assertEqual(len(found), 1)

    @on_ranks(2)
    def test_a_stopped_rank_is_named_at_the_deadline(self):
        set_timeout(1)
        stopped = torch.tensor([os.getpid()])
        dist.broadcast(stopped, 1)
        if dist.get_rank() == 1:        # the other has it go on when it has been told
            os.kill(os.getpid(), signal.SIGSTOP)
            with self.assertRaises(RuntimeError):
                dist.all_reduce(torch.ones(4))
            return
        try:
            with self.assertRaisesRegex(dist.DistBackendError, r'Timed out .*rank 1'):
                dist.all_reduce(torch.ones(4))
        finally:
            os.kill(int(stopped), signal.SIGCONT)

    @HAS_ASYNC
    @on_ranks(2)
    def test_a_deadline_of_one_operation(self):
        if dist.get_rank() == 0:
            begun = time.monotonic()
            options = dist.AllreduceOptions()
            options.timeout = timedelta(seconds=0.3)
            options.asyncOp = False
            with self.assertRaisesRegex(RuntimeError, 'Timed out'):
                dist.group.WORLD.allreduce([torch.ones(4)], options).wait()
            self.assertLess(time.monotonic() - begun, SOON_S)
        else:
            with self.assertRaises(RuntimeError):
                dist.recv(torch.ones(4), 0)

    @on_ranks(2)
    def test_waiting_for_a_time_leaves_the_work_pending(self):
        if dist.get_rank() == 0:
            found = torch.zeros(4)
            work = dist.irecv(found, 1)
            with self.assertRaisesRegex(RuntimeError, 'timed out'):
                work.wait(timedelta(seconds=0.1))
            dist.barrier()
            work.wait()
            self.assertEqual(found.sum().item(), 4)
        else:
            dist.barrier()
            dist.send(torch.ones(4), 0)

    @on_ranks(2)
    def test_waiting_for_a_time_ends_while_another_thread_waits(self):
        if dist.get_rank() == 0:
            work = dist.irecv(torch.zeros(4), 1)
            thread = threading.Thread(target=work.wait)
            thread.start()
            for _ in range(20):
                with self.assertRaisesRegex(RuntimeError, 'timed out'):
                    work.wait(timedelta(seconds=0.02))
            dist.barrier()
            thread.join()
        else:
            dist.barrier()
            dist.send(torch.ones(4), 0)

    @on_ranks(2)
    def test_calls_that_differ_are_told_with_both(self):
        with self.assertRaises(RuntimeError) as raised:
            if dist.get_rank() == 0:
                dist.all_reduce(torch.ones(4))
            else:
                dist.broadcast(torch.ones(4), 0)
            dist.barrier()
        self.assertRegex(str(raised.exception), 'all_reduce')
        self.assertRegex(str(raised.exception), 'broadcast')

    @on_ranks(2)
    def test_sizes_that_differ_are_told_with_both(self):
        with self.assertRaises(RuntimeError) as raised:
            dist.all_reduce(torch.ones(4 + dist.get_rank()))
            dist.barrier()
        self.assertRegex(str(raised.exception), '4')
        self.assertRegex(str(raised.exception), '5')

    @HAS_ABORT
    @on_ranks(2)
    def test_abort_ends_the_operations_of_all_ranks(self):
        begun = time.monotonic()
        with self.assertRaisesRegex(RuntimeError, 'abort'):
            dist.barrier()
            if dist.get_rank() == 0:
                dist.group.WORLD.abort()
            dist.recv(torch.ones(4), 1 - dist.get_rank())
        self.assertLess(time.monotonic() - begun, SOON_S)

    def interrupted(self, wait):
        """Rank 0 is interrupted in wait(), for which rank 1 does not come."""
        if dist.get_rank() == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)   # jobs in the background ignore it
            signal_in_a_wait(signal.SIGINT)
            with self.assertRaisesRegex(dist.DistBackendError, 'interrupted by a signal'):
                wait()
        else:
            with self.assertRaisesRegex(dist.DistBackendError, 'rank 0.*interrupted by a signal'):
                dist.recv(torch.ones(4), 0)

    @HAS_ASYNC
    @on_ranks(2)
    def test_a_signal_ends_a_call_that_blocks(self):
        tensors, options = [torch.ones(4)], dist.AllreduceOptions()
        options.asyncOp = False
        self.interrupted(lambda: dist.group.WORLD.allreduce(tensors, options))

    @on_ranks(2)
    def test_a_signal_ends_a_wait(self):
        work = dist.all_reduce(torch.ones(4), async_op=True) if dist.get_rank() == 0 else None
        self.interrupted(lambda: work.wait())

    @HAS_ABORT
    @on_ranks(2)
    def test_a_work_outlives_its_group(self):
        found = torch.ones(4)
        work = dist.all_reduce(found, async_op=True)
        work.wait()
        group = dist.group.WORLD
        dist.destroy_process_group()
        self.assertTrue(work.is_completed())
        with self.assertRaisesRegex(RuntimeError, 'destroyed'):
            group.allreduce([found]).wait()

    @on_ranks(2)
    def test_groups_end_in_any_order_and_begin_again(self):
        for step in range(3):
            first, second = dist.new_group([0, 1]), dist.new_group([1, 0])
            dist.all_reduce(torch.ones(2), group=second)
            dist.destroy_process_group(first)
            dist.all_reduce(torch.ones(2), group=second)
            if step == 1:
                dist.destroy_process_group(second)
        dist.all_reduce(torch.ones(2))

    @on_ranks(2)
    def test_a_rank_that_ends_without_destroying_is_no_crash(self):
        dist.all_reduce(torch.ones(2))
        return LEFT

    @on_ranks(2)
    def test_a_child_of_fork_is_refused(self):
        dist.barrier()
        child = os.fork()
        if child == 0:
            try:
                dist.all_reduce(torch.ones(2))
            except (RuntimeError, ValueError) as error:
                os._exit(0 if 'fork' in str(error) else 1)
            os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        dist.barrier()


if __name__ == '__main__':
    unittest.main()
