#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every operation of torch.distributed on tutti: results, types, shapes, groups, and what is refused."""
from __future__ import annotations

import os
import random
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist

from ranks import DEVICE, PYTORCH, on_ranks

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
WIDE = [torch.uint16, torch.uint32, torch.uint64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]
Op = dist.ReduceOp


def mine(*shape, dtype=torch.float32, rank=None):
    """Small numbers of a rank, which every type holds."""
    count = torch.Size(shape).numel()
    numbers = (torch.arange(count) + 2 * (dist.get_rank() if rank is None else rank)) % 5 + 1
    return numbers.to(dtype).reshape(shape)


def all_of(*shape, dtype=torch.float32):
    return torch.stack([mine(*shape, dtype=dtype, rank=rank) for rank in range(dist.get_world_size())])


class Counted(dist.Store):
    """A store that notes what is done of tutti's keys, but not how often one is asked for: that is a matter of time."""
    done = set()

    def __init__(self, path, size):
        super().__init__()
        self.store = dist.FileStore(path, size)
        Counted.made = self         # PyTorch keeps no reference to it

    def note(self, what, key):
        if '/tutti/' in key:
            self.done.add((what, key))

    def check(self, keys):
        for key in keys:
            self.note('check', key)
        return self.store.check(keys)

    def get(self, key):
        self.note('get', key)
        assert self.store.check([key]), f'{key} is waited for in the store'
        return self.store.get(key)

    def set(self, key, value):
        self.note('set', key)
        self.store.set(key, value)

    def add(self, key, number):
        self.note('add', key)
        return self.store.add(key, number)

    def wait(self, keys, timeout=timedelta(seconds=30)):
        self.store.wait(keys, timeout)


class Nonsense(dist.Store):
    """A store in which somebody else has written."""

    def __init__(self, **values):
        super().__init__()
        self.values = values

    def check(self, keys):
        return True

    def get(self, key):
        return self.values[key.rsplit('/', 1)[1]]

    def set(self, key, value):
        pass

    def add(self, key, number):
        return 1


class Collectives(unittest.TestCase):
    def same(self, found, expected):
        self.assertEqual(found.dtype, expected.dtype)
        self.assertTrue(torch.equal(found.to(torch.complex128), expected.to(torch.complex128)),
                        f'found {found}, expected {expected}')

    @on_ranks(2)
    def test_every_type_is_summed(self):
        for dtype in INTEGERS + WIDE + FLOATS + COMPLEX + FLOAT8:
            found = mine(7, dtype=dtype)
            dist.all_reduce(found)
            self.same(found, all_of(7, dtype=torch.complex128 if dtype.is_complex else torch.float64).sum(0).to(dtype))

    @on_ranks(3)
    def test_every_operation(self):
        inputs = all_of(6, dtype=torch.int32)
        expected = {Op.SUM: inputs.sum(0), Op.PRODUCT: inputs.prod(0), Op.MIN: inputs.amin(0), Op.MAX: inputs.amax(0),
                    Op.AVG: inputs.sum(0) // 3, Op.BAND: inputs[0] & inputs[1] & inputs[2],
                    Op.BOR: inputs[0] | inputs[1] | inputs[2], Op.BXOR: inputs[0] ^ inputs[1] ^ inputs[2]}
        for op, result in expected.items():
            found = mine(6, dtype=torch.int32)
            dist.all_reduce(found, op=op)
            self.same(found, result.to(torch.int32))

    @on_ranks(2)
    def test_premultiplied_sum(self):
        for factor in (0.5, torch.tensor(0.5)):
            op = dist._make_nccl_premul_sum(factor)
            found = mine(4)
            dist.all_reduce(found, op=op)
            self.same(found, all_of(4).sum(0) / 2)
            given, out = mine(4), torch.empty(2)
            dist.reduce_scatter_tensor(out, given, op=op)
            self.same(out, (all_of(4).sum(0) / 2)[2 * dist.get_rank():][:2])
            self.same(given, mine(4))       # inputs stay as they are
            dist.reduce(given, 0, op=op)
            self.same(given, all_of(4).sum(0) / 2 if dist.get_rank() == 0 else mine(4))
            for kind in torch.float8_e5m2, torch.float8_e4m3fn, torch.bfloat16:
                found = torch.ones(4).to(kind)
                dist.all_reduce(found, op=op)
                self.same(found.float(), torch.ones(4))

    @on_ranks(3)
    def test_sums_of_sparse_tensors_are_gloos(self):
        rank, gloo = dist.get_rank(), dist.new_group(backend='gloo')
        self.kept = []  # else a thread of Gloo's frees them, and needs the GIL while its end is waited for
        torch.manual_seed(rank)
        for count, dtype, inner in ((5, torch.float32, ()), (3 * rank, torch.float64, (2,)), (0, torch.float32, ()),
                                    (4, torch.int64, ()), (40, torch.bfloat16, ())):
            values = (100 * torch.randn(count, *inner, device='cpu')).to(dtype)
            given = torch.sparse_coo_tensor(torch.randint(4, (2, count), device='cpu'), values, (4, 4, *inner),
                                            device='cpu')
            for how in (False, True):
                found, expected = given.clone(), given.clone()
                work = dist.all_reduce(found, async_op=how)
                if how:
                    work.wait()
                dist.all_reduce(expected, group=gloo)
                self.kept.append(expected)
                self.assertTrue(found.is_coalesced() and torch.equal(found.indices(), expected.indices()))
                self.assertTrue(torch.equal(found.values(), expected.values()))
        with self.assertRaisesRegex(ValueError, 'do not match'):
            dist.all_reduce(torch.ones(2 + rank, device='cpu').to_sparse())

    @on_ranks(2)
    def test_a_wrong_number_of_sparse_elements_is_told(self):
        for count in (-1, 2**62):
            row = torch.tensor([[count, 2, 2, 2, 2] + 62 * [0]], device='cpu')      # csrc/sparse.cpp
            if dist.get_rank() == 0:
                dist.all_gather_into_tensor(torch.empty(2, 67, dtype=torch.int64, device='cpu'), row)
            else:
                with self.assertRaisesRegex(NotImplementedError, f'rank 0 sent {count}, expected its number'):
                    dist.all_reduce(torch.eye(2, device='cpu').to_sparse())

    @on_ranks(2)
    def test_bools_are_or_and_and(self):
        rows = torch.tensor([[False, False, True, True], [False, True, False, True]])
        a, b = rows
        for op, expected in {Op.SUM: a | b, Op.MAX: a | b, Op.BOR: a | b, Op.PRODUCT: a & b, Op.MIN: a & b,
                             Op.BAND: a & b, Op.BXOR: a ^ b}.items():
            found = rows[dist.get_rank()].clone()
            dist.all_reduce(found, op=op)
            self.same(found, expected)
        bytes_of_both = torch.tensor([[2, 2, 0], [1, 0, 0]], dtype=torch.uint8).view(torch.bool)
        for op, expected in {Op.SUM: [True, True, False], Op.PRODUCT: [True, False, False]}.items():
            found = bytes_of_both[dist.get_rank()].clone()
            dist.all_reduce(found, op=op)
            self.assertEqual(found.tolist(), expected)
        with self.assertRaisesRegex(TypeError, 'AVG with bool'):
            dist.all_reduce(rows[0].clone(), op=Op.AVG)

    @on_ranks(2)
    def test_what_is_not_defined_is_refused_and_the_group_goes_on(self):
        for call in (lambda: dist.all_reduce(torch.ones(2), op=Op.BAND),
                     lambda: dist.all_reduce(torch.ones(2, dtype=torch.complex64), op=Op.MAX)):
            with self.assertRaises((TypeError, ValueError)):
                call()
        with self.assertRaisesRegex(ValueError, 'dense'):
            dist.all_reduce(torch.eye(2, device='cpu').to_sparse(), op=Op.MAX)
        with self.assertRaises((RuntimeError, ValueError)):
            dist.all_gather_into_tensor(torch.empty(5), torch.ones(2))
        with self.assertRaises((RuntimeError, ValueError, TypeError)):
            dist.all_gather([torch.empty(2), torch.empty(2, dtype=torch.int32)], torch.ones(2))
        found = torch.ones(2)
        dist.all_reduce(found)
        self.same(found, torch.full((2,), 2.0))

    @on_ranks(3)
    def test_rooted_operations(self):
        rank, size = dist.get_rank(), dist.get_world_size()
        for root in range(size):
            found = mine(2, 3)
            dist.broadcast(found, root)
            self.same(found, mine(2, 3, rank=root))
            found = mine(2, 3)
            dist.reduce(found, root)
            self.same(found, all_of(2, 3).sum(0) if rank == root else mine(2, 3))
            lists = [torch.empty(2, 3) for _ in range(size)] if rank == root else None
            dist.gather(mine(2, 3), lists, dst=root)
            if rank == root:
                self.same(torch.stack(lists), all_of(2, 3))
            found = torch.empty(3)
            dist.scatter(found, list(mine(3, 3).unbind()) if rank == root else None, src=root)
            self.same(found, mine(3, 3, rank=root)[rank])

    @on_ranks(3)
    def test_gathering_and_scattering(self):
        rank, size = dist.get_rank(), dist.get_world_size()
        lists = [torch.empty(2, 2) for _ in range(size)]
        dist.all_gather(lists, mine(2, 2))
        self.same(torch.stack(lists), all_of(2, 2))
        chunks = torch.empty(size, 2, 2)
        dist.all_gather(list(chunks.unbind()), mine(2, 2))
        self.same(chunks, all_of(2, 2))
        out = torch.empty(size, 4)
        dist.all_gather_into_tensor(out, mine(4))
        self.same(out, all_of(4))
        found = torch.empty(4)
        dist.reduce_scatter(found, list(mine(size, 4).unbind()))
        self.same(found, all_of(size, 4).sum(0)[rank])
        dist.reduce_scatter_tensor(found, mine(size, 4), op=Op.MAX)
        self.same(found, all_of(size, 4).amax(0)[rank])

    @on_ranks(3)
    def test_sizes_may_differ_between_ranks(self):
        rank, size = dist.get_rank(), dist.get_world_size()
        lists = [torch.empty(other + 1) for other in range(size)]
        dist.all_gather(lists, torch.full((rank + 1,), float(rank)))
        for other in range(size):
            self.same(lists[other], torch.full((other + 1,), float(other)))
        found = torch.empty(rank + 1)
        dist.reduce_scatter(found, [torch.full((other + 1,), float(other + 1)) for other in range(size)])
        self.same(found, torch.full((rank + 1,), 3.0 * (rank + 1)))

    @on_ranks(3)
    def test_all_to_all(self):
        rank, size = dist.get_rank(), dist.get_world_size()
        out = torch.empty(size, 2)
        dist.all_to_all_single(out, mine(size, 2))
        self.same(out, all_of(size, 2)[:, rank])
        counts = [[(a + b) % 3 for b in range(size)] for a in range(size)]      # rows from a to b
        sent, received = counts[rank], [counts[other][rank] for other in range(size)]
        out = torch.empty(sum(received), 2, dtype=torch.int64)
        given = torch.cat([torch.full((counts[rank][b], 2), 10 * rank + b) for b in range(size)])
        dist.all_to_all_single(out, given, received, sent)
        self.same(out, torch.cat([torch.full((counts[a][rank], 2), 10 * a + rank) for a in range(size)]))
        lists = [torch.empty(other + rank + 1) for other in range(size)]
        dist.all_to_all(lists, [torch.full((rank + other + 1,), float(10 * rank + other)) for other in range(size)])
        for other in range(size):
            self.same(lists[other], torch.full((other + rank + 1,), 10.0 * other + rank))

    @on_ranks(2)
    def test_splits_on_one_rank_only(self):
        out = torch.empty(2, 3)
        dist.all_to_all_single(out, mine(2, 3), [1, 1], [1, 1]) if dist.get_rank() else \
            dist.all_to_all_single(out, mine(2, 3))
        self.same(out, all_of(2, 3)[:, dist.get_rank()])

    @on_ranks(2)
    def test_tensors_with_gaps(self):
        rank = dist.get_rank()
        found = mine(3, 4).t()
        dist.all_reduce(found)
        self.same(found, all_of(3, 4).sum(0).t())
        wide = torch.zeros(3, 8)
        wide[:, ::2] = mine(3, 4)
        dist.broadcast(wide[:, ::2], 1)
        self.same(wide[:, ::2], mine(3, 4, rank=1))
        self.same(wide[:, 1::2], torch.zeros(3, 4))
        out = torch.zeros(2, 4, 3).transpose(1, 2)
        dist.all_gather_into_tensor(out, mine(4, 3).t().contiguous())
        self.same(out, torch.stack([mine(4, 3, rank=other).t() for other in range(2)]))
        lists = [torch.empty(2, dtype=torch.complex64) for _ in range(2)]
        dist.group.WORLD.allgather([lists], [torch.complex(mine(2), mine(2)).conj()]).wait()
        self.same(lists[1], torch.complex(mine(2, rank=1), -mine(2, rank=1)))
        if rank == 0:
            dist.send(mine(3, 4).t(), 1)
        else:
            received = torch.zeros(3, 4).t()
            dist.recv(received, 0)
            self.same(received, mine(3, 4, rank=0).t())

    @on_ranks(2)
    def test_autograd_does_not_keep_tensors_from_being_written(self):
        parameter = torch.nn.Parameter(mine(4))
        dist.all_reduce(parameter, op=dist._make_nccl_premul_sum(0.5))
        self.same(parameter, all_of(4).sum(0) / 2)
        with torch.inference_mode():
            found, lists = mine(3, 4).t(), [torch.empty(4) for _ in range(2)]
        dist.all_reduce(found)
        self.same(found, all_of(3, 4).sum(0).t())
        dist.all_gather(lists, mine(4))
        self.same(torch.stack(lists), all_of(4))

    @on_ranks(2)
    def test_empty_tensors(self):
        dist.all_reduce(torch.empty(0))
        dist.all_gather_into_tensor(torch.empty(0), torch.empty(0))
        dist.all_gather([torch.empty(0, 3), torch.empty(0, 3)], torch.empty(0, 3))
        dist.broadcast(torch.empty(0), 0)

    @on_ranks(2)
    def test_messages_with_tags(self):
        if dist.get_rank() == 0:
            works = [dist.isend(torch.tensor([float(tag)]), 1, tag=tag) for tag in range(4)]
        else:
            found = [torch.zeros(1) for _ in range(4)]
            works = [dist.irecv(found[tag], 0, tag=tag) for tag in reversed(range(4))]
        for work in works:
            work.wait()
        if dist.get_rank() == 1:
            self.assertEqual([one.item() for one in found], [0, 1, 2, 3])

    @on_ranks(3)
    def test_messages_from_any_rank(self):
        if dist.get_rank() != 0:
            dist.send(torch.full((2,), float(dist.get_rank())), 0, tag=1)
            return
        senders = set()
        for _ in range(2):
            found = torch.zeros(2)
            sender = dist.recv(found, tag=1)
            self.same(found, torch.full((2,), float(sender)))
            senders.add(sender)
        self.assertEqual(senders, {1, 2})

    @on_ranks(2)
    def test_what_is_behind_a_short_message_from_any_rank_stays(self):
        if dist.get_rank() == 1:
            dist.send(torch.ones(3), 0, tag=1)
            return
        wide = torch.full((5, 2), 7.0)
        self.assertEqual(dist.recv(wide[:, 0], tag=1), 1)
        self.same(wide, torch.tensor([[1.0, 7.0]] * 3 + [[7.0, 7.0]] * 2))

    @on_ranks(3)
    def test_batches_of_messages(self):
        rank, size = dist.get_rank(), dist.get_world_size()
        found = [torch.zeros(3) for _ in range(size)]
        ops = [dist.P2POp(dist.irecv, found[other], other) for other in range(size) if other != rank]
        ops += [dist.P2POp(dist.isend, mine(3), other) for other in range(size) if other != rank]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        for other in set(range(size)) - {rank}:
            self.same(found[other], mine(3, rank=other))

    @on_ranks(2)
    def test_coalesced_operations(self):
        tensors = [mine(3), mine(2, 2)]
        dist.all_reduce_coalesced(tensors)
        self.same(tensors[1], all_of(2, 2).sum(0))
        with dist._coalescing_manager():
            for tensor in tensors:
                dist.all_reduce(tensor, op=Op.MAX)
        self.same(tensors[0], all_of(3).sum(0))
        outs = [torch.empty(2, 3), torch.empty(2, 4)]
        with dist._coalescing_manager(async_ops=True) as manager:
            dist.all_gather_into_tensor(outs[0], mine(3))
            dist.all_gather_into_tensor(outs[1], mine(4))
        manager.wait()
        self.same(outs[1], all_of(4))
        outs = [torch.empty(3), torch.empty(2)]
        with dist._coalescing_manager():
            dist.reduce_scatter_tensor(outs[0], mine(2, 3))
            dist.reduce_scatter_tensor(outs[1], mine(2, 2))
        self.same(outs[1], all_of(2, 2).sum(0)[dist.get_rank()])
        lists = [[torch.empty(2), torch.empty(3)] for _ in range(2)]
        dist.all_gather_coalesced(lists, [mine(2), mine(3)])
        self.same(lists[1][1], mine(3, rank=1))

    @on_ranks(3)
    def test_objects(self):
        rank, size = dist.get_rank(), dist.get_world_size()
        found = [None] * size
        dist.all_gather_object(found, {'rank': rank, 'text': 'x' * rank})
        self.assertEqual(found, [{'rank': other, 'text': 'x' * other} for other in range(size)])
        one = [('a', 1)] if rank == 1 else [None]
        dist.broadcast_object_list(one, src=1)
        self.assertEqual(one, [('a', 1)])
        dist.scatter_object_list(one, [[other] for other in range(size)] if rank == 0 else None, src=0)
        self.assertEqual(one, [[rank]])
        if rank == 0:
            dist.send_object_list(['to', 2], dst=2)
        elif rank == 2:
            got = [None, None]
            dist.recv_object_list(got, src=0)
            self.assertEqual(got, ['to', 2])

    @on_ranks(4)
    def test_groups_within_the_group(self):
        rank = dist.get_rank()
        halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        found = torch.tensor([float(rank)])
        dist.all_reduce(found, group=halves[rank // 2])
        self.assertEqual(found.item(), 1 if rank < 2 else 5)
        if PYTORCH < (2, 14):   # it wants a device, as NCCL has one
            return
        reversed_pair = dist.split_group(split_ranks=[[1, 0], [3, 2]])
        self.assertEqual(dist.get_rank(reversed_pair), [1, 0, 1, 0][rank])
        found = torch.tensor([float(rank)])
        dist.broadcast(found, group=reversed_pair, group_src=0)
        self.assertEqual(found.item(), 1 if rank < 2 else 3)
        dist.destroy_process_group(halves[rank // 2])
        dist.barrier()

    @on_ranks(2, make_store=Counted)
    def test_a_group_costs_twenty_operations_of_the_store(self):
        dist.all_reduce(torch.ones(1))
        for _ in range(3):
            Counted.done.clear()
            dist.all_reduce(torch.ones(1), group=dist.new_group())
            self.assertLessEqual(len(Counted.done), 40 if DEVICE else 20, Counted.done)

    @on_ranks(2)
    def test_a_group_has_two_descriptors(self):
        descriptors = []
        for _ in range(11):
            dist.all_reduce(torch.ones(1, device='cpu'), group=dist.new_group())
            descriptors.append(len(os.listdir('/proc/self/fd')))
        self.assertLessEqual(descriptors[10] - descriptors[0], 2 * 10, descriptors)

    @on_ranks(1, initialise=False)
    def test_nonsense_in_the_store_is_told(self):
        draw = random.Random(1)
        of_backend = [{'key': value} for value in (b'', b'x', b'0')]
        of_library = [{'key': b'=' + b'0' * 64, 'current': draw.randbytes(n)} for n in (*range(16), 17, 100)]
        for values in of_backend + of_library:
            key, value = list(values.items())[-1]
            with self.assertRaisesRegex((NotImplementedError, ValueError), f'key .*{key} .*has .*{len(value)} bytes, expected'):
                dist.init_process_group('tutti', store=Nonsense(**values), rank=1, world_size=2)

    @on_ranks(2)
    def test_works_and_futures(self):
        found = mine(4)
        work = dist.all_reduce(found, async_op=True)
        self.assertTrue(work.wait())
        while not work.is_completed():      # on a GPU it may go on
            pass
        self.assertTrue(work.is_success())
        self.same(work.result()[0], all_of(4).sum(0))
        found = mine(4)
        work = dist.all_reduce(found, async_op=True)
        doubled = work.get_future().then(lambda future: future.value()[0] * 2)
        self.same(doubled.wait(), all_of(4).sum(0) * 2)
        work = dist.barrier(async_op=True)
        while not work.is_completed():
            pass
        self.assertTrue(work.get_future().done())

    @on_ranks(2)
    def test_a_callback_may_wait_for_an_operation(self):
        def again(future):
            return dist.all_reduce(future.value()[0], async_op=True).get_future().wait()[0]
        found = dist.all_reduce(mine(4), async_op=True).get_future().then(again)
        self.same(found.wait(), all_of(4).sum(0) * 2)

    @on_ranks(2)
    def test_dropped_works_end(self):
        other = 1 - dist.get_rank()
        steps = 1 if DEVICE else 50     # a GPU has room for one message, until the peer takes it
        for step in range(steps):
            dist.isend(torch.full((1000,), float(step)), other)
        for step in range(steps):
            found = torch.empty(1000)
            dist.recv(found, other)
            self.assertEqual(found[999].item(), step)
        dist.barrier()

    @unittest.skipIf(PYTORCH < (2, 14), "this PyTorch counts the calls of its own backends alone")
    @on_ranks(2)
    def test_sequence_numbers_count_collectives(self):
        group = dist.group.WORLD
        before = group._get_sequence_number_for_group()
        dist.all_reduce(mine(2))
        dist.barrier()
        self.assertEqual(group._get_sequence_number_for_group(), before + 2)

    @unittest.skipIf(PYTORCH < (2, 14), "this PyTorch has it for Gloo's groups alone")
    @on_ranks(3)
    def test_monitored_barrier_names_the_missing_and_the_group_goes_on(self):
        dist.monitored_barrier(timeout=timedelta(seconds=20))
        if dist.get_rank() == 0:
            with self.assertRaisesRegex(RuntimeError, 'Ranks 1, 2 failed'):
                dist.monitored_barrier(timeout=timedelta(seconds=0.2), wait_all_ranks=True)
        dist.barrier()
        if dist.get_rank() != 1:        # rank 2 is told, too
            with self.assertRaisesRegex(RuntimeError, 'Rank 1 failed|successfully reached'):
                dist.monitored_barrier(timeout=timedelta(seconds=1))
        dist.barrier()
        dist.monitored_barrier(timeout=timedelta(seconds=20))

    @on_ranks(1)
    def test_a_group_of_one(self):
        found = mine(3)
        dist.all_reduce(found)
        dist.barrier()
        out = torch.empty(1, 3)
        dist.all_gather_into_tensor(out, found)
        self.same(out[0], mine(3))

    @on_ranks(2, initialise=False)
    def test_a_group_of_cpu_and_another_device(self):
        self.assertEqual(dist.Backend('tutti'), 'tutti')
        self.assertIn('cpu', dist.Backend.backend_capability['tutti'])


if __name__ == '__main__':
    unittest.main()
