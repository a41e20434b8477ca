#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tutti-bench -m cuda as its users run it, with the stand-in for CUDA's driver: test_bench_cuda.py TUTTI_BENCH"""
import os
import unittest

from bench_runs import BenchTest

# 10 collectives with data, in and out of place, of 2 sizes; and the barrier
ALL, OBJECTS = 'all -r 2 -m cuda -b 64 -e 4K -f 64 -n 33 -w 1', 10 * 2 * 2 + 1
FEW = '-b 64 -e 64 -n 1 -w 0'
ONE = '-b 8 -e 8 -n 1 -w 0'
os.environ.update(STANDIN_DEVICES='1', STANDIN_MPS='1')


class Cuda(BenchTest):
    def said(self, line, status=0, **env):
        """The run, with remarks as they were before they were wrapped."""
        run = self.bench(line, status, **env)
        return run, run.out.replace('\n# ', ' ')

    def right(self, line, count, ranks=2, shared=True, calls=None, checks='gpu', transport='cuda', library='tutti',
              **env):
        """Every object of the run is as it should be, and there are so many."""
        objects = self.bench(f'{line} --json -', **env).objects
        self.assertEqual(len(objects), count)
        for found in objects:
            cuda, barrier = found['cuda'], found['collective'] == 'barrier'
            expected = {'ranks': ranks, 'transport': transport, 'library': library, 'wrong': None if barrier else 0}
            self.assertEqual({**found, **expected}, found)
            expected = {'gpu': 'Stand-in 0', 'shared': shared, 'checks': checks,
                        **{option: f'--{option}' in line for option in ('windows', 'graph', 'threads')}}
            self.assertEqual({**cuda, **expected}, cuda)
            self.assertGreater(found['time_us']['min'], 0)
            self.assertGreater(cuda['enqueue_us'], 0)
            self.assertTrue(cuda['calls'] == calls if calls else cuda['calls'] >= 2, cuda)
            self.assertEqual(cuda['copy_gbs'] is None, barrier)
            for key in 'least_bytes', 'of_copy':
                self.assertEqual(cuda[key] is None, barrier or not shared)
            if shared and found['collective'] == 'all_reduce':
                self.assertEqual(cuda['least_bytes'], 2 * ranks * found['bytes'])

    def test_every_collective_is_right(self):
        for options in '', '--windows', '--graph', '--graph --windows', '--threads':
            self.right(f'{ALL} {options}', OBJECTS)

    def test_a_chain_may_have_more_calls_than_cuda_takes_ahead_of_a_stream(self):
        chain = '-m cuda --threads --chain 700 -b 8 -e 8 -n 700 -w 0'
        self.right(f'all_reduce -r 3 {chain}', 2, ranks=3, calls=700)
        self.right(f'all_reduce -r 2 {chain} --graph --windows', 2, calls=700)

    def test_messages_are_right(self):
        self.right('latency -r 2 -m cuda -b 64 -e 4K -f 64 -n 8 -w 1', 2)
        self.right('bandwidth -r 3 -m cuda -b 64 -e 4K -f 64 -n 8 -w 1 --graph', 2, ranks=3)

    def test_types_and_long_vectors_are_right(self):
        self.right('all_reduce -r 3 -m cuda -b 24K -e 24K -n 1 -w 0 -d bf16 -o avg --windows', 2, ranks=3)
        self.right('reduce_scatter -r 1 -m cuda -b 8K -e 8K -n 1 -w 0 -d int8 -o bxor', 2, ranks=1)
        self.right('scan -r 2 -m cuda -b 2K -e 2K -n 1 -w 0 -d double -o max -c 1', 2)

    def wrong_of(self, line, **env):
        """How many elements are wrong, and where, by what rank 1 says."""
        run = self.bench(f'{line} --json -', 1, STANDIN_SPOILS=1, **env)
        where = next(said for said in run.err.splitlines() if said.startswith('rank 1: '))
        return sum(found['wrong'] for found in run.objects if found['collective'] != 'barrier'), where

    def test_what_is_wrong_is_found_on_the_gpu_as_on_the_host(self):
        for line in ('all -r 3 -m cuda -b 256 -e 6K -f 24 -n 33 -w 1',
                     'all_reduce -r 3 -m cuda -b 4K -e 4K -n 33 -w 1 -d bf16 -o avg',
                     'reduce_scatter -r 2 -m cuda -b 64 -e 64 -n 33 -w 1 -d uint8 -o max --windows'):
            on_gpu = self.wrong_of(line)
            self.assertGreater(on_gpu[0], 0)
            # the library's kernels come first
            self.assertEqual(self.wrong_of(line, STANDIN_FAILS='cuModuleLoadData:2'), on_gpu)

    def test_wrong_elements_are_counted_and_the_first_is_named(self):
        run, out = self.said('all_reduce -r 2 -m cuda -b 4K -e 4K -n 33 -w 1 -p out', 1, STANDIN_SPOILS=1)
        self.assertIn('results verified on the GPU', out)
        self.assertIn('rank 1: all_reduce of 4096 bytes, call 1 of 32: 1 of 1024 elements are wrong, '
                      'the first is number 0', run.err)
        self.assertIn('64 elements were wrong', run.err)    # one of each call, on both ranks

    def test_without_kernels_the_host_verifies_and_says_why(self):
        fails = {'STANDIN_FAILS': 'cuModuleLoadData:2'}
        self.right('all -r 2 -m cuda -b 64 -e 64 -n 33 -w 1', 10 * 2 + 1, checks='host', **fails)
        _, out = self.said(f'all_reduce -m cuda {ONE}', **fails)
        self.assertIn('results verified on the host: the kernels of ', out)
        self.assertIn('cannot be loaded into this GPU: cuModuleLoadData: unknown error', out)
        _, out = self.said(f'all_reduce -m cuda {ONE}', TUTTI_BENCH_KERNELS='')
        self.assertIn('results verified on the GPU' if os.environ.get('BENCH_HAS_KERNELS') else
                      "results verified on the host: tutti-bench was built without CUDA's compiler", out)
        self.refuse('all_reduce -m cuda -b 8 -e 8', 'TUTTI_BENCH_KERNELS is "/nowhere/kernels", which cannot be read: '
                    'No such file', status=1, TUTTI_BENCH_KERNELS='/nowhere/kernels')

    def test_each_rank_has_a_gpu_where_there_are_enough(self):
        several = {'STANDIN_DEVICES': 2, 'STANDIN_PEERS': 'all'}
        self.right(f'all_reduce -r 2 -m cuda {FEW}', 2, shared=False, **several)
        self.right(f'all_reduce -r 2 -m cuda --gpu 0 {FEW}', 2, **several)
        several['STANDIN_PEERS'] = 'none'   # all goes by the host
        for kind, count in ('all_reduce', 2), ('latency', 1):
            self.right(f'{kind} -r 2 -m cuda {FEW}', count, shared=False, transport='shm', **several)

    def test_nccl_is_measured_in_place_of_tutti(self):
        """By the same loop, with the same checks; of what NCCL has not, nothing is shown."""
        nccl = {'ranks': 1, 'transport': 'unknown', 'library': 'nccl'}
        # 5 collectives in and out of place, all_to_all out of place, of 2 sizes; and the barrier
        self.right('all -r 1 -m cuda --library nccl -b 64 -e 4K -f 64 -n 33 -w 1', (5 * 2 + 1) * 2 + 1, **nccl)
        self.right('all_reduce -r 1 -m cuda --library nccl --graph --threads -d bf16 -o avg -b 64 -e 64 -n 33 -w 1', 2,
                   **nccl)
        self.refuse('all_reduce -r 2 -m cuda --library nccl -b 8 -e 8', 'NCCL: invalid usage: Duplicate GPU detected',
                    status=1)
        self.refuse('all_reduce -r 3 -m cuda --threads --library nccl -b 8 -e 8',
                    'a rank has failed, and others have not ended 2 s later', status=1, STANDIN_NCCL_WAITS=1)
        self.refuse('scan -r 1 -m cuda --library nccl --json -', 'nccl has no scan with these options', status=0)
        self.refuse('all_reduce -r 1 -m cuda --library nccl', 'NCCL cannot be opened: /nowhere/libnccl.so.2', status=1,
                    TUTTI_NCCL_LIBRARY='/nowhere/libnccl.so.2')

    def test_the_table_has_two_more_columns(self):
        _, out = self.said(f'all_reduce -m cuda --windows --graph {ONE}', TUTTI_WIRE='int8')
        self.assertIn('memory of one Stand-in 0, in windows, by graphs', out)
        self.assertEqual((out.count('of_copy'), out.count('enqueue'), out.count('wire')), (1, 1, 0))
        _, out = self.said(f'all_reduce -m host {ONE}')
        self.assertIn('memory of malloc', out)
        self.assertNotIn('of_copy', out)

    def test_wrong_use_is_refused(self):
        for line, words in (('all_reduce --windows', '--windows was found without -m cuda'),
                            ('all_reduce --graph -m tutti', '--graph was found without -m cuda'),
                            ('all_reduce --gpu 0', '--gpu was found without -m cuda'),
                            ('all_reduce --threads', '--threads was found without -m cuda'),
                            ('all_reduce --chain 4', '--chain was found without -m cuda'),
                            ('all_reduce -m cuda --chain 1', '--chain "1" is not a whole number from 2 to 65536'),
                            ('all_reduce --library nccl', '--library nccl was found without -m cuda'),
                            ('all_reduce -m cuda --library ncl', 'did you mean nccl?'),
                            ('all_reduce -m cuda --library nccl --windows',
                             '--windows was found beside --library nccl'),
                            ('all_reduce -m cuda --tune', 'beside --tune'),
                            ('all_reduce -m cuda --overlap', 'beside --overlap'), ('init -m cuda', 'init'),
                            ('all_reduce -m cuda --gpu 1', '--gpu is 1, but this process has 1')):
            self.refuse(line, words)
        self.refuse('all_reduce -m cuda --threads', 'a launcher has started this process as a rank', TUTTI_RANK=0)

    def test_a_missing_gpu_is_said_once(self):
        words = 'tutti-bench: -m cuda needs a GPU, and there is none'
        self.assertEqual(self.refuse('all_reduce -m cuda', words, status=1, STANDIN_DEVICES=0).err.count(words), 1)
        self.refuse('all_reduce -m cuda', '/nowhere/libcuda.so', status=1, TUTTI_CUDA_LIBRARY='/nowhere/libcuda.so')

    def test_what_fails_is_said(self):
        run, _ = self.said('all_reduce -m cuda --graph -b 8 -e 8 -n 1 -w 40', 1, STANDIN_FAILS='cuGraphLaunch:2')
        self.assertIn('cuGraphLaunch', run.err)
        self.refuse('all_reduce -m cuda -b 64M', 'lower -e', status=1, STANDIN_MEMORY=150000000)


if __name__ == '__main__':
    unittest.main()
