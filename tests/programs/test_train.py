#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tutti-train as a user runs it: under tutti-run, on real and on broken data. With TRAIN_DEVICE=cuda all of that is
done on GPUs, and what there is beyond. Names of tests may follow; without them, all that the device has."""
import glob
import gzip
import operator
import os
import re
import shutil
import unittest

from local_sgd import local_sgd
from training import DEVICE, DIGITS, RUN, TRAIN, TrainingTest, host_only, paired

WAYS = ('allreduce', 'zero1', 'ps', 'local')
KNOWN = {}      # logs of one process, by its options: several ways are held against it
GNUPLOT = unittest.skipUnless(shutil.which('gnuplot'), 'gnuplot was not found')
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../docs')
ON_STANDIN = unittest.skipUnless(os.environ.get('STANDIN_PEERS'), 'there is no stand-in for GPUs')


def numbers_of_ranks(way):
    """Servers need a worker, and each rank a share."""
    return (4,) if '--shares' in way else (2, 4) if 'ps' in way else (1, 2, 4)


class Train(TrainingTest):
    def alone(self, options):
        """One process on the host."""
        if options not in KNOWN:
            KNOWN[options] = self.digits(1, options, device='host')
        return KNOWN[options]

    def assert_same(self, log, alone):
        """The same training, but for the order of sums."""
        self.assert_losses(log, alone, 1e-4)
        self.assertAlmostEqual(log.end['test_accuracy'], alone.end['test_accuracy'], delta=1e-12)

    def alone_without_launcher(self, options, status=0, **env):
        return self.run_to_end(TRAIN, *options.split(), status=status, cwd=self.dir, **env)

    def assert_resumed(self, options):
        """A killed training goes on bit for bit."""
        whole = self.digits(2, f'--epochs 6 {options}')
        self.kill_when_saved(2, f'--epochs 6 {options}')
        resumed = self.digits(2, f'--epochs 6 {options} --save ck --every-epochs 3 --resume')
        self.assertIn('resumed after epoch 3', self.last.said)
        self.assertEqual(resumed.bits, whole.bits)
        os.unlink(self.path('ck'))


class Learning(Train):
    """That training learns, the same on any number of ranks."""

    @unittest.skipIf(DEVICE == 'cuda', 'test_gpus_reach_the_losses_of_the_host shows it')
    def test_loss_curve_is_the_same_for_1_2_4_and_8_ranks(self):
        """53 is no multiple of any of the sizes, and leaves a last batch of 7 samples: less than 8 ranks."""
        options = '--epochs 8 --batch 53 --bucket 4K --dtype f64'
        alone = self.alone(options)
        self.assertEqual(len(alone.epochs), 8)
        for ranks in 2, 4, 8:
            self.assert_same(self.digits(ranks, options), alone)

    def test_four_ranks_reach_an_accuracy_of_96_percent(self):
        for options in '', '--batch all':
            end = self.digits(4, options).end
            self.assertGreaterEqual(end['test_accuracy'], 0.96, options)
            self.assertTrue(0 < end['blocked_share'] < 1)
        for words in 'test accuracy', 'samples/s', 'communication':
            self.assertIn(words, self.last.said)

    def test_weights_stay_the_same_on_every_rank_by_sockets_as_by_shared_memory(self):
        shared = self.digits(3, '--epochs 3 --verify')
        self.assert_losses(self.digits(3, '--epochs 3 --verify --bucket 1', TUTTI_TRANSPORT='tcp'), shared, 1e-4)

    def test_same_seed_and_ranks_give_the_same_bits(self):
        one, two, other = (self.digits(2, f'--epochs 3 --seed {seed}') for seed in (9, 9, 10))
        self.assertEqual((two.bits, two.test_losses), (one.bits, one.test_losses))
        self.assertNotEqual(other.train_losses, one.train_losses)


class Guide(Train):
    """Pages, followed by a shell in a directory that has the data. Behind each block of commands a page says what is to
    be seen: `accuracy of NUMBER or more`, or a row for each training that is compared, of columns of the output."""

    # what stands in a line of `compare`; the accuracy of a training or a prediction
    ROW = re.compile(r'^(\S+) +\d+ .* ([\d.]+) +(\S+) +([\d.]+) +[\d.]+ +\d+$|accuracy +([\d.]+) \(', re.M)
    SHELL = 'exec 3<&0 </dev/null 2>&1; while read -rd "" block <&3; do eval "$block"; echo "status $?"; done'

    def follow(self, page):
        with open(page) as file:
            blocks = re.split(r'^```sh\n(.*?)^```$', file.read(), flags=re.M | re.S)[1:]
        path = f'{os.path.dirname(RUN)}:{os.path.dirname(TRAIN)}:{os.environ["PATH"]}'
        shell = self.start('bash', '-c', self.SHELL, cwd=self.dir, PATH=path)
        done, begun, trainings = 0, 0, 0
        for block, prose in zip(blocks[::2], blocks[1::2]):
            with self.subTest(page=os.path.basename(page), block=block):
                if ('--device cuda' in block) != (DEVICE == 'cuda'):
                    self.skipTest(f'on {DEVICE} it is not run')
                if '--plot' in block and not shutil.which('gnuplot'):
                    self.skipTest('gnuplot was not found')
                shell.write(block + '\0')
                done += 1
                shell.await_text('status 0\n', times=done)
                trainings += block.count('tutti-train')
                if block.endswith('&\n'):   # the next one is about it
                    shell.await_text('] epoch ', times=shell.out.count('] epoch ') + 1)
                    continue
                said, count = shell.out[begun:], trainings
                begun, trainings = len(shell.out), 0
                self.expect(prose, said, count)
                if 'kill' in block:
                    self.assertIn('lost rank', said)

    def expect(self, prose, said, trainings):
        least = re.search(r'accuracy of\s(0\.\d+) or more', prose)
        table = re.search(r'^\| log \|(.*)\|\n.*\n((?:\|.*\n)+)', prose, re.M)
        rows = dict(re.findall(r'^\| `(.*?)` \|(.*)\|$', table[2], re.M)) if table else {}
        said = said[-3000:]
        seen = self.ROW.findall(said)
        self.assertGreaterEqual(len(seen), trainings, said)
        self.assertLessEqual(set(rows), {name for name, *_ in seen}, said)
        for name, megabytes, loss, accuracy, alone in seen:
            if name not in rows:
                self.assertTrue(least, 'the page does not say what accuracy is to be seen')
                self.assertGreaterEqual(float(accuracy or alone), float(least[1]), said)
                continue
            for column, bound in paired(table[1].split('|'), [float(bound) for bound in rows[name].split('|')]):
                if 'accuracy at least' in column:
                    self.assertGreaterEqual(float(accuracy), bound, said)
                elif 'loss at most' in column:
                    self.assertLessEqual(float(loss), bound, said)
                else:
                    self.assertEqual((column.strip(), float(megabytes)), ('MB/step', bound), said)

    def follow_each_second(self, first):
        """On a busy machine all of them take too long for one test."""
        os.symlink(os.path.dirname(DIGITS), self.path('data'))
        os.symlink(DIGITS, self.path('mine.csv.gz'))
        for page in sorted(glob.glob(f'{DOCS}/guide/train.md') + glob.glob(f'{DOCS}/guide/training/*.md'))[first::2]:
            self.follow(page)

    def test_each_command_trains_as_its_page_says(self):
        self.follow_each_second(0)

    def test_so_does_each_command_of_the_other_pages(self):
        self.follow_each_second(1)


@host_only
class Ways(Train):
    """Each way to train together against one process."""

    def test_each_way_to_train_equals_one_process(self):
        """Its last batch of an epoch has 7 samples: less than 8 ranks."""
        usual = '--epochs 4 --batch 53 --dtype f64'
        for way in ('--sync zero1 --bucket 4K --verify', '--sync local --every 1', '--accumulate 3 --verify',
                    '--sync ps --verify', '--shares 1,3,0.5,2 --verify', '--sync zero1 --shares 1,3,0.5,2'):
            # who steps alone shortens gradients of its own, and a server sees a part
            options = usual if 'local' in way or 'ps' in way else f'{usual} --clip 0.7'
            for ranks in numbers_of_ranks(way):
                self.assert_losses(self.digits(ranks, f'{options} {way}'), self.alone(options), 1e-9)

    def test_zero1_divides_the_memory_of_velocity_by_the_ranks(self):
        """Weights and velocity have two copies. Of the 2n numbers of velocity, zero1 leaves 2n/P on a rank."""
        options = '--data synthetic:256x784x10 --hidden 2048,2048 --batch 128 --epochs 1 --sync'
        size = 4 * (785 * 2048 + 2049 * 2048 + 2049 * 10)
        for ranks in 2, 4:
            whole, shared = (self.log_of_ranks(ranks, f'{options} {way}').of_ranks('memory')
                             for way in ('allreduce', 'zero1'))
            self.assertGreater(min(shared), 0)
            self.assertGreater(min(whole) - max(shared), 0.8 * size * (2 - 2 / ranks))

    def test_ranks_that_average_are_local_sgd(self):
        """As a reference has it. Features are -1 and 1, of which standardising leaves what they are; the last batch of
        an epoch leaves a rank without a sample."""
        samples = [([1.0 if i >> bit & 1 else -1.0 for bit in range(6)], i % 5 % 3) for i in range(64)]
        self.write('data', ''.join(f'{",".join(map(str, x))},{label}\n' for x, label in samples))
        options = '--data data --test-data data --hidden none --dtype f64 --lr-scaling none --schedule constant --warmup 0'
        for ranks in 2, 3, 4:
            for every, momentum, outer in (1, 0.9, None), (3, 0.9, (0.7, 0.9, True)), (5, 0, (0.9, 0.5, False)):
                way = f'--sync local --every {every} --momentum {momentum} --lr 0.2 --batch 7 --epochs 4'
                if outer:
                    way += f' --outer {"nesterov" if outer[2] else "sgd"},{outer[0]},{outer[1]}'
                log = self.log_of_ranks(ranks, f'{options} {way}')
                expected = local_sgd(samples, ranks, every, 4, 7, 0.2, momentum, outer=outer)
                self.assert_close(log.train_losses + log.test_losses, sum(expected, []), 1e-9, (ranks, way))


@host_only
class Bfloat16(Train):
    """Training in mixed precision."""

    # Of twelve seeds, 1, 2 and 4 ranks and all ways, losses in training differed by up to 0.8 %, in validation by up to
    # 3.2 %, and accuracy by one sample of 359. At five times the rate, which is the usual one, curves part half-way, as
    # they do from one number of ranks to another.
    def assert_like(self, found, expected, what):
        self.assert_close(found.train_losses, expected.train_losses, 0.02, what)
        self.assert_close(found.test_losses, expected.test_losses, 0.06, what)
        self.assertAlmostEqual(found.end['test_accuracy'], expected.end['test_accuracy'], delta=2.5 / 359, msg=what)

    def test_bfloat16_trains_like_float32_on_any_number_of_ranks_by_each_way(self):
        usual = '--epochs 30 --lr 0.02'
        alone = self.alone(f'{usual} --dtype bf16')
        for way in ('--sync allreduce --bucket 4K', '--sync zero1 --clip 5', '--sync ps', '--sync local --every 3',
                    '--sync local --every 1', '--accumulate 3', '--optimizer adagrad', '--sync ps --optimizer adagrad'):
            for ranks in numbers_of_ranks(way):
                half = self.digits(ranks, f'{usual} --dtype bf16 --verify {way}')
                self.assert_like(half, self.digits(ranks, f'{usual} {way}'), (ranks, way))
                # hits do not lose their digits: each epoch's are a whole number
                for epoch in half.epochs:
                    hits = epoch['train_accuracy'] * half.starts[0]['train_samples']
                    self.assertAlmostEqual(hits, round(hits), delta=1e-6)
                if 'adagrad' not in way and '--every 3' not in way:
                    self.assert_like(half, alone, (ranks, way))

    def test_bfloat16_sends_half_of_the_bytes(self):
        """To the byte: gradients, and of each step three sums; and those of validation of each epoch."""
        for dtype, size, sums in ('bf16', 2, 8), ('f32', 4, 4):
            log = self.digits(2, f'--epochs 2 --dtype {dtype}')
            self.assertEqual(log.end['sent_bytes'],
                             log.end['steps'] * (size * log.starts[0]['parameters'] + 3 * sums) + 2 * 3 * 8)

    def test_bfloat16_is_resumed_bit_for_bit(self):
        """So the same ranks have the same bits, too."""
        for way in WAYS:
            clip = '--clip 5' if way == 'allreduce' else ''
            self.assert_resumed(f'--dtype bf16 --sync {way} {clip}')


@host_only
class Optimisers(Train):
    """On several ranks, and resumed."""

    def test_each_optimiser_equals_one_process(self):
        """Whoever has the sums, the shares of layers and the numbers that an optimiser keeps."""
        for name in 'sgd', 'momentum', 'nesterov', 'adagrad', 'adam', 'adamw', 'lars', 'lamb':
            options = f'--epochs 2 --dtype f64 --optimizer {name}'
            for way in 'allreduce --bucket 8K', 'zero1', 'ps':
                for ranks in 2, 4:
                    self.assert_losses(self.digits(ranks, f'{options} --sync {way}'), self.alone(options), 1e-9)

    def test_optimisers_are_resumed_bit_for_bit(self):
        """With as many numbers for each weight as there are, wherever they are kept."""
        for way in 'sgd --sync zero1', 'nesterov', 'adamw', 'lamb --sync zero1', 'adam --sync ps':
            self.assert_resumed(f'--optimizer {way}')


@host_only
class Pieces(Train):
    """Models that are cut in pieces."""

    def test_a_model_in_pieces_equals_one_process(self):
        for ranks, of, cut in (
                (2, '', 'pipeline'), (2, '', 'pipeline --order gpipe --accumulate 5'),
                (3, '--clip 0.7', 'pipeline --accumulate 7'), (3, '--optimizer lamb', 'pipeline --order gpipe --accumulate 1'),
                (4, '--hidden 40,30,20,10 --momentum 0', 'pipeline --shares 4,1,1,2'),
                (4, '', 'data=2,pipeline=2 --bucket 4K'), (4, '--optimizer lars', 'pipeline=2 --sync zero1'),
                (4, '--clip 0.7 --batch 53', 'data=2,pipeline --sync zero1 --accumulate 3'),
                (4, '', 'pipeline=2 --sync local --every 1'), (1, '', 'pipeline'), (2, '--hidden 64,32,16', 'tensor'),
                (3, '--optimizer lamb --clip 100', 'tensor --accumulate 2'),
                (2, '--hidden 33,17 --optimizer lars --bucket 380', 'tensor'),
                (4, '--optimizer lars', 'data=2,tensor=2 --sync zero1'), (4, '--hidden none', 'tensor'),
                (4, '', 'pipeline,tensor=2 --order gpipe --accumulate 3'),
                (8, '--hidden 48,32,24 --clip 0.7', 'data=2,pipeline=2,tensor=2 --sync zero1'),
                (8, '--hidden 48,32,24', 'tensor=2,pipeline=2 --sync local --every 1')):
            options = f'--epochs 3 --dtype f64 {of}'
            found = self.digits(ranks, f'{options} --verify --parallel {cut}')
            self.assert_losses(found, self.alone(options), 1e-9)

    def test_a_validation_may_be_longer_than_a_batch(self):
        """It has 15 parts, and a stage keeps two micro-batches at most, or, that is the last, one."""
        options = '--epochs 2 --dtype f64 --test-fraction 0.5'
        alone = self.alone(options)
        for ranks, cut in (3, 'pipeline --accumulate 2'), (2, 'pipeline --accumulate 1'), (4, 'data=2,pipeline --accumulate 2'):
            for order in '1f1b', 'gpipe':
                self.assert_losses(self.digits(ranks, f'{options} --parallel {cut} --order {order}'), alone, 1e-9)

    def test_lines_of_stages_average_as_ranks_do(self):
        """Of the steps between averages, too: those of a column average as ranks of whole models do."""
        options = '--epochs 3 --dtype f64 --sync local --every 7'
        self.assert_losses(self.digits(4, f'{options} --parallel pipeline=2'), self.digits(2, options), 1e-9)

    def test_a_pipeline_has_the_bits_of_parts_of_a_batch(self):
        """Micro-batches are added up in their order, whoever computes which layer."""
        for dtype in 'f32', 'bf16':
            options = f'--epochs 20 --dtype {dtype} --batch all --lr 0.01'
            parts = self.alone(f'{options} --accumulate 2')
            for order in '1f1b', 'gpipe':
                cut = self.digits(3, f'{options} --parallel pipeline --accumulate 2 --order {order}')
                self.assertEqual(cut.train_losses, parts.train_losses, (dtype, order))

    def test_pieces_divide_the_memory(self):
        """A rank has the weights of its piece alone, twice with what an optimiser keeps for them. Of five layers one
        stage has two or three large ones of three."""
        options = '--data synthetic:512x64x10 --hidden 1024,1024,1024,1024 --epochs 1 --batch 64 --optimizer adam'
        whole, = self.log_of_ranks(1, options).of_ranks('memory')
        # of 3.2 million weights two copies of three numbers, and gradients: 28 bytes each
        for way, part in ('pipeline', 3), ('tensor', 2):
            most = max(self.log_of_ranks(2, f'{options} --parallel {way}').of_ranks('memory'))
            self.assertGreater(whole - most, 0.8 * 28 * 3.2e6 / part, way)

    def test_a_model_in_pieces_is_resumed_in_others(self):
        ways = (4, '--parallel pipeline=2 --sync zero1'), (4, '--parallel pipeline,tensor=2'), (2, '--sync zero1')
        usual = '--epochs 6 --dtype f64 --optimizer adamw'
        for ranks, way in ways[:2]:
            self.kill_when_saved(ranks, f'{usual} {way}')
            shutil.move(self.path('ck'), self.path('saved'))
            for others, other in ways:
                shutil.copy(self.path('saved'), self.path('ck'))
                log = self.digits(others, f'{usual} {other} --save ck --resume')
                self.assertIn('resumed after epoch 3', self.last.said)
                self.assert_losses(log, self.alone(usual), 1e-9)

    def test_models_that_cannot_be_cut_are_refused(self):
        for ranks, options, text in (
                (4, 'pipeline', 'found 4 stages for 3 layers'),
                (3, 'pipeline=2', 'found pipeline=2 with 3 ranks, expected a multiple of 2'),
                (3, 'tensor --hidden 2', 'found 3 parts of hidden layer 1, which has 2'),
                (4, 'pipeline=2,tensor --hidden 20',
                 'found 2 stages for 2 layers in parts, expected two layers for each stage'),
                (3, 'data=2,pipeline', 'found data=2,pipeline with 3 ranks, expected a multiple of 2'),
                (2, 'data=2,pipeline=2', 'found data=2,pipeline=2 with 2 ranks, expected 4'),
                (2, 'pipeline --shares 1,2,3', 'found 3 numbers for 2 stages')):
            self.refuses(ranks, f'--data {DIGITS} --parallel {options}', text)
        self.refuses(2, f'--data {DIGITS} --parallel pipeline', "found --parallel with tutti-run's --min-ranks or --restart",
                     run='--min-ranks 1')


@host_only
class Shares(Train):
    """Ranks that are not equally fast."""

    def test_a_slow_rank_gets_a_smaller_share_by_itself(self):
        options = '--epochs 4 --dtype f64'
        log = self.digits(2, f'{options} --shares auto --slow 0:100')
        self.assert_losses(log, self.alone(options), 1e-9)
        # a hundredth, if nothing else runs
        self.assertLess(min(epoch['least_share'] for epoch in log.epochs[1:]), 0.4)
        shares = self.digits(2, '--epochs 1 --shares 1,3').of_ranks('share')
        self.assertAlmostEqual(shares[0], 0.25, delta=1e-9)

    def test_speeds_change_in_an_epoch_that_there_is(self):
        self.refuses(2, '--data nowhere --epochs 3 --slow 0:2:4',
                     '--slow: found epoch 4, expected one from 1 to 3 (--epochs)')


@host_only
class Saved(Train):
    """Checkpoints, as users see them."""

    def test_a_page_of_python_reads_a_checkpoint(self):
        for dtype, kind in ('f32', '<f4'), ('f64', '<f8'), ('bf16', '<f4'):
            log = self.digits(2, f'--epochs 2 --hidden 7 --optimizer adam --dtype {dtype} --save ck')
            header, arrays = self.read_by_the_page('ck')
            count = 65 * 7 + 8 * 10
            self.assertEqual(header['arrays'], [['mean', '<f8', 64], ['factor', '<f8', 64], ['weights', kind, count],
                                                ['velocity', kind, 2 * count]])
            self.assertEqual((header['width'], header['steps'], header['ranks']), ([64, 7, 10], 46, 2))
            self.assertEqual((header['options']['lr'], header['options']['dtype']), (0.001, dtype))
            for found, shown in paired(header['epochs'], log.epochs):
                self.assertAlmostEqual(found['train_loss'], shown['train_loss'], delta=1e-12)
            self.assertEqual(len(arrays['velocity']), 2 * count)

    def test_shares_of_velocity_are_those_of_one_rank(self):
        """Collected, shared out among others, and collected again."""
        usual = '--epochs 6 --dtype f64 --optimizer adam --save ck'
        self.digits(1, usual)
        alone = self.read_by_the_page('ck')[1]
        os.unlink(self.path('ck'))
        for way in 'zero1 --bucket 4K', 'ps':
            self.kill_when_saved(4, f'{usual} --sync {way}'.replace('--save ck', ''))
            self.digits(3, f'{usual} --sync {way} --resume')
            self.assertIn('resumed after epoch 3', self.last.said)
            self.assert_arrays(self.read_by_the_page('ck')[1], alone)
            os.unlink(self.path('ck'))

    def test_a_training_is_resumed_by_no_other(self):
        """The message names the option, and both values."""
        usual = '--epochs 1 --save ck'
        self.digits(2, usual)
        for option, was, now in (('seed', 1, 2), ('lr', 0.1, 0.2), ('batch', 64, 32), ('hidden', '128,64', 'none'),
                                 ('momentum', 0.9, 0.5), ('schedule', 'cosine', 'step:3:0.5'),
                                 ('test-fraction', 0.2, 0.3), ('sync', 'allreduce, zero1 or ps', 'local'),
                                 ('epochs', 1, 2), ('lr-scaling', 'linear', 'none'), ('dtype', 'f32', 'bf16'),
                                 ('optimizer', 'momentum', 'nesterov')):
            self.refuses(2, f'--data {DIGITS} {usual} --resume --{option} {now}',
                         f'ck: is of a training with --{option} {was}, expected {now} as now; give the same as')
        self.refuses(2, f'--data {DIGITS} {usual} --resume --clip 2.5',
                     'ck: is of a training with no --clip, expected 2.5 as now; give the same as')
        self.ranks(2, f'--data {DIGITS} {usual} --resume --seed 01 --hidden 128,064 --test-fraction .2')   # the same
        self.write('data', '1,0\n2,1\n3,0\n4,1\n' * 40)
        self.refuses(1, f'--data data {usual} --resume', 'ck: is of a training with other data; give the same as then')

    def test_a_training_whose_rate_does_not_end_is_made_longer(self):
        for schedule in 'constant', 'step:2:0.5':
            whole, _, longer = (self.digits(2, f'--schedule {schedule} {options}') for options in
                                ('--epochs 5', '--epochs 3 --save ck', '--epochs 5 --save ck --resume'))
            self.assertEqual(longer.bits, whole.bits)
            self.refuses(2, f'--data {DIGITS} --schedule {schedule} --epochs 4 --save ck --resume',
                         'ck: is of a training with 5 epochs, expected at most --epochs 4 as now')
            os.unlink(self.path('ck'))

    def test_labels_are_predicted_in_the_order_of_the_data(self):
        """Of samples in a file of their own, in its order: as many are right as the accuracy says. And once more by the
        model that was saved, with the labels and without, of CSV and of IDX."""
        lines = self.lines_of_digits()
        self.write('test', ''.join(lines[:300]))
        self.write('train', ''.join(lines[300:]))
        rows, truth = zip(*(line.rstrip().rsplit(',', 1) for line in lines[:300]))
        self.write('unlabelled', ''.join(f'{row}\n' for row in rows))
        for name, shape, content in (('x.idx', (300, 64), (pixel for row in rows for pixel in row.split(','))),
                                     ('y.idx', (300,), truth)):
            self.write(name, bytes([0, 0, 8, len(shape)]) + b''.join(n.to_bytes(4, 'big') for n in shape) +
                       bytes(map(int, content)))
        for dtype in 'f32', 'f64', 'bf16':
            log = self.log_of_ranks(2, '--data train --test-data test --epochs 6 --hidden 20,10 --save ck '
                                       f'--predict labels --dtype {dtype}')
            labels = self.text_of('labels')
            right = sum(map(str.__eq__, labels.split(), truth))
            self.assertEqual((labels.count('\n'), right), (300, round(300 * log.end['test_accuracy'])))
            said = f'accuracy {right / 300:.4f} ({right} of 300 samples)\n'
            for data, told in ('test', said), ('unlabelled', ''), ('x.idx --labels y.idx', said), ('x.idx', ''):
                job = self.alone_without_launcher(f'predict ck --data {data}')
                self.assertEqual((job.out, job.err), (labels, told))
                job = self.alone_without_launcher(f'predict ck --data {data} --predict again')
                self.assertEqual((job.out, self.text_of('again')), (told, labels))
            if dtype == 'f64':
                self.assertEqual(self.labels_by_the_page('ck', rows[:20]), labels.split()[:20])
        # the model knows which field was the label
        self.write('first', ''.join(f'{label},{row}\n' for label, row in zip(truth, rows)))
        self.log_of_ranks(1, '--data first --label-column 1 --epochs 6 --hidden 20,10 --save ck2')
        said = self.alone_without_launcher('predict ck2 --data first').err
        self.assertGreater(float(said.split()[1]), 0.5)

    def labels_by_the_page(self, name, rows):
        """By what docs/reference/trainer.md says of a checkpoint's arrays."""
        header, arrays = self.read_by_the_page(name)
        width, weights, layers, at = header['width'], arrays['weights'], [], 0
        for columns, lines in list(zip(width, width[1:]))[::-1]:
            matrix = [weights[at + i * columns:at + (i + 1) * columns] for i in range(lines)]
            at += lines * columns
            layers.insert(0, (matrix, weights[at:at + lines]))
            at += lines
        labels = []
        for row in rows:
            x = [(float(value) - mean) * factor
                 for value, mean, factor in paired(row.split(','), arrays['mean'], arrays['factor'])]
            for matrix, biases in layers:
                y = [sum(map(operator.mul, line, x)) + bias for line, bias in paired(matrix, biases)]
                x = [max(value, 0) for value in y]
            labels.append(str(y.index(max(y))))
        return labels

    def test_samples_that_a_model_cannot_have_are_refused(self):
        self.write('data', '1,2,0\n2,1,1\n' * 80)
        self.write('other', '1,0\n')
        self.alone_without_launcher('--data data --epochs 1 --save ck')
        with open(self.path('ck'), 'rb') as model:
            self.write('ck.gz', gzip.compress(model.read()))
        for options, status, text in (
                ('', 2, 'found no model, expected tutti-train predict MODEL --data FILE'),
                ('--data data', 2, 'found no model, expected tutti-train predict'),
                ('ck', 2, 'found no --data'), ('ck --data data --lr 1', 2, 'found --lr with predict, expected --data'),
                ('nowhere --data data', 1, 'nowhere: cannot be read'),
                ('data --data data', 1, 'data: is not a checkpoint of tutti-train'),
                ('ck.gz --data data', 1, 'ck.gz: found a gzip stream, expected the file as it was written; unpack it'),
                ('ck --data other', 0, ''), ('ck --data synthetic:9x2x2', 0, ' of 9 samples)'),
                ('ck --data ck', 1, 'ck: found byte 0x00'),
                ('ck --data data --predict ck', 1, '--predict: found ck, the file of MODEL, which would be overwritten'),
                ('ck --data data --predict nowhere/p', 1, 'nowhere/p: cannot be written')):
            self.assertIn(text, self.alone_without_launcher(f'predict {options}', status).said)
        job = self.run_to_end('sh', '-c', 'exec "$0" predict ck --data data --predict out >out', TRAIN, status=1, cwd=self.dir)
        self.assertIn('found out, the file of standard output', job.err)
        self.write('other', '1,2,3,0\n')
        self.assertIn('other: found 3 features and a label, expected the 2 of the model',
                      self.alone_without_launcher('predict ck --data other', 1).said)

    def test_an_output_is_no_other_file(self):
        """By whatever name: neither one that is read, nor another output."""
        content = '1,2,0\n2,1,1\n' * 80
        for name in 'data', 'test', 'old':
            self.write(name, content)
        os.symlink('data', self.path('link'))
        os.link(self.path('test'), self.path('hard'))
        os.symlink('./new', self.path('dangling'))
        for options, text in (('--json data', '--json: found data, the file of --data'),
                              ('--json link', '--json: found link, the file of --data'),
                              ('--save ./data', '--save: found ./data, the file of --data'),
                              ('--predict hard', '--predict: found hard, the file of --test-data'),
                              ('--plot new.svg --json ./new.svg', '--plot: found new.svg, the file of --json'),
                              ('--save new --predict new', '--predict: found new, the file of --save'),
                              ('--save new --json dangling', '--json: found dangling, the file of --save')):
            self.refuses(2, f'--data data --test-data test {options}',
                         f'{text}, which would be overwritten; expected a file of its own')
        for options in '--save /dev/stdout', '--predict out', '--json ./out':
            job = self.run_to_end('sh', '-c', f'exec "$0" --data data {options} >out', TRAIN, status=1, cwd=self.dir)
            name = options.split()[1]
            self.assertIn(f'found {name}, the file of standard output, which would be overwritten; expected', job.err)
            self.assertEqual(self.text_of('out'), '')
        job = self.run_to_end('sh', '-c', 'exec "$0" --data data >>data', TRAIN, status=1, cwd=self.dir)
        self.assertIn('standard output: found /dev/stdout, the file of --data, which', job.err)
        # nor is an earlier one lost to a training that does not begin
        self.ranks(2, '--data nowhere --json old', status=1)
        self.ranks(2, '--data data --batch 10000 --json old', status=1)
        for name in 'data', 'test', 'old':
            self.assertEqual(self.text_of(name), content)
        self.assertFalse(os.path.exists(self.path('new')))
        self.log_of_ranks(2, '--data data --epochs 1')
        self.log_of_ranks(2, '--data data --epochs 1')  # instead of the other log


class Output(Train):
    """What can be said in other words, and what is told: logs, predictions, pictures, the terminal."""

    def test_batches_are_said_in_three_ways(self):
        whole, each = (self.digits(2, f'--epochs 2 --dtype f64 {batch}')
                       for batch in ('--batch 48', '--batch-per-rank 24'))
        self.assert_losses(each, whole, 0)
        log = self.digits(1, '--epochs 3 --batch all --lr-scaling none')
        self.assertEqual((log.starts[0]['batch'], log.end['steps']), (1438, 3))
        self.assertEqual(self.digits(1, '--epochs 1 --batch 1').end['steps'], 1438)

    def test_the_log_may_go_to_standard_output(self):
        job = self.alone_without_launcher(f'--data {DIGITS} --epochs 2 --json -')
        self.assertEqual([line['event'] for line in job.objects], ['start', 'epoch', 'epoch', 'end'])
        self.assertEqual(job.err, '')

    def test_a_name_that_is_no_text_is_logged_as_messages_show_it(self):
        self.write('\udcff.csv', '1,2,0\n2,1,1\n' * 80)
        self.assertEqual(self.log_of_ranks(1, '--data \udcff.csv --epochs 1').starts[0]['data'], '?.csv')

    @GNUPLOT
    def test_pictures_are_written(self):
        name = 'it\'\'s"one".svg'
        self.digits(2, f'--epochs 2 --plot {name} --plot a.png')
        for text in ('<?xml', 'width="900"', '>training<', '>validation<', '>epoch<', '>loss (cross-entropy)<', '>accuracy<',
                     'tutti-train, digits.csv.gz, 2 ranks', ' core', ' · tutti 0.'):
            self.assertIn(text, self.text_of(name))
        with open(self.path('a.png'), 'rb') as file:
            self.assertEqual(file.read(20), b'\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\3\x84')     # 900 wide
        self.write('\udcff.csv', '1,2,0\n2,1,1\n' * 80)
        self.log_of_ranks(1, '--data \udcff.csv --epochs 2 --plot name.svg')
        self.assertIn('tutti-train, ?.csv, 1 rank', self.text_of('name.svg'))
        # of a single point, too, and where all are right: gnuplot has nothing to say
        self.write('easy', '0,0\n1,1\n' * 80)
        for options in '--epochs 1 --test-fraction 0', '--epochs 1', '--epochs 3 --lr 1e-12':
            self.assertEqual(self.alone_without_launcher(f'--data easy --plot b.svg {options}').err, '')

    def test_terminal_gets_a_bar_and_others_lines(self):
        """Without a launcher."""
        job = self.run_to_end('script', '-qec', f'{TRAIN} --data {DIGITS} --epochs 2', '/dev/null', cwd=self.dir)
        self.assertIn('100 %', job.said)
        self.assertNotIn('epoch  1/2', job.said)
        job = self.alone_without_launcher(f'--data {DIGITS} --epochs 2 --json log')
        self.assertIn('epoch  1/2', job.said)
        self.assertNotIn('100 %', job.said)
        self.assertIn('"ranks":1,', self.text_of('log'))

    def test_without_validation_there_is_no_test_accuracy(self):
        job = self.alone_without_launcher(f'--data {DIGITS} --epochs 2 --test-fraction 0 --json log')
        self.assertNotIn('test accuracy', job.said)
        self.assertIn('"test_loss":null,"test_accuracy":null', self.text_of('log'))


class Errors(Train):
    """What ends a training: every rank, with an error message, in time."""

    def test_data_that_are_broken_or_too_few_end_all_ranks(self):
        """Which data are broken test_train_data.c shows."""
        two, few = (4, '1,0\n2,1\n3,0\n4,1\n'), 'too few samples: found 3 to train on and 1'
        for ranks, content, options, text in (
                (2, '1,0\n1,1\n' * 9, '--batch 4', 'expected a feature that varies'),
                (4, '1,2,0\n3,4,1\n5,1\n', '', 'data: line 3: found 2 fields, expected 3'),
                (*two, '--test-fraction 0.4', few),
                (*two, '--batch 4', 'which --test-fraction 0.2 leaves none to validate'),
                (4, '1,0\n2,1\n3,0\n4,1\n5,0\n6,1\n', '--batch 2', '--batch: found 2 samples per step for 4 ranks')):
            self.write('data', content)
            self.refuses(ranks, f'--data data {options}', text)
        if DEVICE == 'host':
            self.refuses(1, '--data data --batch 2 --test-fraction 0 --predict labels',
                         'found --predict, but no samples to validate')

    def test_results_that_cannot_be_written_end_all_ranks(self):
        self.refuses(4, f'--data {DIGITS} --json nowhere/log', '--json: nowhere/log cannot be written',
                     'cannot go on: rank 0 could not start')
        # found out when the others are already training
        self.refuses(4, f'--data {DIGITS} --json /dev/full',
                     '--json: writing /dev/full failed: No space left on device; make space')

    @host_only
    def test_results_that_cannot_be_written_are_a_failure(self):
        self.alone_without_launcher(f'--data {DIGITS} --epochs 1 --json log')
        for options in f'--data {DIGITS} --epochs 1', f'--data {DIGITS} --epochs 1 --json -', 'report log', '--help':
            self.assert_output_is_missed(TRAIN, *options.split(), cwd=self.dir)
        if shutil.which('gnuplot'):
            os.mkdir(self.path('b.svg'))
            said = self.alone_without_launcher(f'--data {DIGITS} --epochs 1 --plot b.svg', 1).said
            self.assertIn('--plot: b.svg cannot be written: Is a directory', said)
            self.assertNotIn('epoch', said)     # before anything is done for it
            os.symlink('/dev/full', self.path('a.svg'))
            for options in f'--data {DIGITS} --epochs 1 --plot a.svg', 'report log --plot a.svg':
                said = self.alone_without_launcher(options, 1).said
                self.assertIn('--plot: cannot write "a.svg": No space left on device; make space, or', said)

    def test_diverged_training_ends_all_ranks(self):
        self.refuses(4, f'--data {DIGITS} --lr 1e5', 'the training diverged')

    def test_one_rank_without_data_ends_all(self):
        self.refuses_unequal(3, f'[ $TUTTI_RANK = 1 ] && exec "$0" --data nowhere; exec "$0" --data {DIGITS}',
                             'rank 0, 2: cannot go on: rank 1 could not start', 'rank 1: nowhere: cannot be read')
        self.write('other', ''.join(self.lines_of_digits()[1:]))
        self.refuses_unequal(3, f'[ $TUTTI_RANK = 1 ] && exec "$0" --data other; exec "$0" --data {DIGITS}',
                             'rank 1 read other data than rank 0')
        self.refuses_unequal(3, f'exec "$0" --data {DIGITS} --seed $((TUTTI_RANK / 2))',
                             'rank 2 has other options than rank 0')

    def test_wrong_options_end_with_status_2(self):
        for options, text in (('', 'no --data'),
                              ('--data d --rank 0', 'found --rank, expected --size and --store as well'),
                              ('--data d --size 2', 'found --size, expected --rank and --store as well'),
                              ('--data d --rank 0 --size 2', 'found --rank and --size, expected --store as well'),
                              ('--data d --store tcp://h:1', 'found --store, expected --rank and --size as well'),
                              ('--data d --transport foo', '--transport has "foo": expected a list of'),
                              ('--data d --algorithm foo', '--algorithm is "foo": expected one of')):
            self.assertIn(text, self.alone_without_launcher(options, 2).said)
        self.assertIn('Usage: tutti-train', self.alone_without_launcher('--help').said)
        self.assertIn('tutti-train 0.', self.alone_without_launcher('--version').said)

    def test_one_rank_prints_the_error_of_all(self):
        """Before any exits."""
        for options, status, text in (
                ('d --lr 1e9', 2, "--lr: found '1e9', expected a number from 1e-12 to 1000000"),
                ('d --schedule cosin', 2, "found 'cosin' (did you mean cosine?)"),
                ('d --epoch-s 3', 2, 'unknown option --epoch-s (did you mean --epochs?)'),
                ('nowhere', 1, 'all ranks: nowhere: cannot be read: No such file')):
            said = self.ranks(4, f'--data {options}', status=status).said
            self.assertIn(text, said)
            self.assertEqual(said.count('] tutti-train: '), 1, said)


@unittest.skipUnless(DEVICE == 'cuda', 'this is about GPUs')
class Gpus(Train):
    def test_gpus_reach_the_losses_of_the_host(self):
        for options in ('--epochs 8 --batch 53 --bucket 4K --dtype f64',
                        '--epochs 5 --hidden none --seed 3 --dtype f64',
                        '--epochs 3 --hidden 50,40,30,20,10 --bucket 1 --momentum 0 --schedule constant --dtype f64'):
            for ranks in (1, 2, 4, 8) if '--batch 53' in options else (1, 2, 4):
                self.assert_same(self.digits(ranks, options), self.alone(options))

    def test_each_type_and_optimiser_reaches_the_losses_of_the_host(self):
        """In float32 a ReLU opens on one side and not on the other, now and then."""
        for dtype, most in ('f32', 1e-3), ('f64', 1e-4):
            for optimizer in 'sgd', 'momentum', 'nesterov', 'adagrad', 'adam', 'adamw':
                options = f'--epochs 3 --dtype {dtype} --optimizer {optimizer} --weight-decay 1e-3'
                found = self.digits(2, f'{options} --accumulate 3 --verify')
                self.assert_losses(found, self.alone(options), most)

    def test_labels_are_predicted_as_on_the_host(self):
        for device in 'cuda', 'host':
            self.digits(2, f'--epochs 2 --dtype f64 --predict {device}', device=device)
        self.assertEqual(self.text_of('cuda'), self.text_of('host'))

    @ON_STANDIN
    def test_gpus_that_do_not_reach_each_other_do_it_too(self):
        """As their memory cannot be mapped by others."""
        options = '--epochs 3 --batch 50 --verify --dtype f64'
        self.assert_losses(self.digits(3, options, STANDIN_PEERS='none'), self.alone(options), 1e-4)

    @ON_STANDIN
    def test_what_is_not_there_or_fails_is_explained(self):
        for variable, value, text in (
                ('TUTTI_CUDA_LIBRARY', '/nowhere/libcuda.so',
                 "--device cuda: CUDA's driver cannot be opened: /nowhere/libcuda.so: cannot open"),
                ('STANDIN_DEVICES', 0, '--device cuda: cuInit: '),
                ('TUTTI_CUBLAS_LIBRARY', '/nowhere/libcublas.so',
                 '--device cuda: cuBLAS was not found: /nowhere/libcublas.so: cannot open'),
                ('TUTTI_CUBLAS_LIBRARY', os.environ['TUTTI_CUDA_LIBRARY'],
                 'has no cublasGetStatusString: expected cuBLAS of CUDA 12 or 13'),
                ('CUBLAS_FAILS', 1, 'cuBLAS failed to begin: CUBLAS_STATUS_NOT_INITIALIZED'),
                ('TUTTI_TRAIN_KERNELS', '/nowhere/kernels',
                 'TUTTI_TRAIN_KERNELS is "/nowhere/kernels", which cannot be read: No such file'),
                ('STANDIN_FAILS', 'cuModuleLoadData', 'cannot be loaded into this GPU: cuModuleLoadData: '),
                ('STANDIN_MEMORY', 100000, '--device cuda: the GPU has no '),
                ('STANDIN_FAILS', 'work:200', 'the GPU '), ('STANDIN_FAILS', 'cuLaunchKernel:150', 'CUDA')):
            self.refuses(2, f'--data {DIGITS} --epochs 1', text, **{variable: value})
        if not os.environ.get('TRAIN_HAS_KERNELS'):
            self.refuses(2, f'--data {DIGITS} --epochs 1',
                         "--device cuda: tutti-train was built without CUDA's compiler", TUTTI_TRAIN_KERNELS='')

    def test_ranks_on_host_and_gpu_do_not_mix(self):
        self.refuses_unequal(3, f'[ $TUTTI_RANK = 1 ] || set -- --device cuda; exec "$0" "$@" --data {DIGITS}',
                             'rank 1 has other options than rank 0')


if __name__ == '__main__':
    unittest.main()
