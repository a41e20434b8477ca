#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What tutti-trace tells of jobs and of files: test_trace.py TUTTI_TRACE_PROGRAM TUTTI_RUN TRACE_RANK CUDA_STANDIN

CUDA_STANDIN: "", or the library that stands in for CUDA's driver."""
import glob
import json
import os
import pathlib
import signal
import socket
import time
import unittest

from launched import ProgramTest, arguments, bound_s

PROGRAM, RUN, RANK, STANDIN = arguments(4)
MS = 1_000_000
START = 1_000_000_000_000


def header(number, collective='all_reduce', count=4096, **other):
    return {'header': number, 'collective': collective, 'count': count, 'dtype': 'float32', 'op': 'sum', 'op_number': 0,
            'root': -1, 'detail': '0' * 16, 'algorithm': 'ring', 'segments': 1,
            'peers': [{'rank': 0, 'sent': 100, 'received': 50}], 'peers_left_out': 0, **other}


def call(number, posted, done, first=None, result=0, **other):
    """A collective; times in ms after START."""
    def ns(ms):
        return None if ms is None else START + round(ms * MS)
    return {'number': number, 'kind': 'collective', 'sequence': number, 'header': 64, 'posted': ns(posted),
            'first': ns(posted if first is None else first), 'done': ns(done), 'result': result, **other}


def message(number, kind, peer, sequence, posted, done):
    op = call(number, posted, done, kind=kind, sequence=sequence, peer=peer, count=10, dtype='float32', bytes=40)
    del op['header']
    return op


def on_stream(number, posted, ended, sequence=None, **other):
    return {'number': number, 'kind': 'collective', 'sequence': number if sequence is None else sequence,
            'collective': 'all_reduce', 'op': 'sum', 'op_number': 0, 'root': -1, 'count': 1000, 'dtype': 'float16',
            'device': 3, 'way': 'windows', 'captured': ended is None, 'posted': START + round(posted * MS),
            'ended': ended, **other}


def message_on_stream(number, kind, peer, posted, ended):
    one = on_stream(number, posted, ended, kind=kind, peer=peer, way='rooms')
    for key in ('sequence', 'collective', 'op', 'op_number', 'root'):
        del one[key]
    return one


def report(rank, operations, size=3, **other):
    return {'tutti_flight': 1, 'version': '0.1.0', 'job': 'job', 'communicator': 'c' * 16, 'rank': rank, 'size': size,
            'host': 'host', 'hostname': 'name', 'pid': 100 + rank, 'transports': 'shm', 'why': 'signal',
            'monotonic_ns': START + 100 * MS, 'realtime_ns': 5 * START, 'fault': None,
            'operations_called': len(operations), 'headers': [header(64)], 'operations': operations, **other}


class Trace(ProgramTest):
    def setUp(self):
        super().setUp()
        self.dir = pathlib.Path(self.dir)

    def store(self, *reports):
        for one in reports:
            name = f'{one["job"]}.{one["communicator"]}.{one["rank"]}.flight.json'
            (self.dir / name).write_text(json.dumps(one), encoding='utf-8')

    def trace(self, *arguments, status=0, env=None):
        run = self.run_to_end(PROGRAM, *arguments, status=status, **(env or {}))
        return run.out, run.err

    def viewed(self):
        """What is told, and the trace for viewers."""
        trace = self.dir / 'trace.json'
        out, _ = self.trace('-o', trace, self.dir)
        return out, json.loads(trace.read_text(encoding='utf-8'))

    def reports(self):
        """The reports in the directory, as JSON, once there are some."""
        return self.trace('--json', self.dir)[0].splitlines() if list(self.dir.glob('*.flight.report')) else []

    # ---- what it tells

    def test_who_was_late(self):
        self.store(report(0, [call(1, 1, 10.5), call(2, 20, 31), call(3, 40, 41)]),
                   report(1, [call(1, 2, 10.5), call(2, 21, 31), call(3, 40.1, 41)]),
                   report(2, [call(1, 10, 11), call(2, 30, 31), call(3, 39, 41)]))
        out, _ = self.trace(self.dir)
        self.assertIn('3 of 3 ranks', out)
        self.assertIn('late, in 3 operations', out)
        lines = [line for line in out.splitlines() if 'was last in' in line]
        self.assertRegex(lines[0], r'rank 2 was last in 2 \(67%\).* alone 17 ms, at most 9 ms in operation 2')
        self.assertRegex(lines[1], r'rank 1 was last in 1 \(33%\).* alone 100 µs')
        self.assertEqual(len(lines), 2)
        self.assertRegex(out, r'slowest.*\n *1 ms: operation 1, all_reduce\(float32 × 4096, sum\) by ring')
        self.assertNotIn('silent', out)
        self.assertNotIn('differed', out)

    def test_who_was_silent(self):
        self.store(report(0, [call(1, 1, 2), call(2, 3, None), call(3, 4, None)]),
                   report(1, [call(1, 1, 2)]),
                   report(2, [call(1, 1, 2), call(2, 5, 90, result=-3)], why='revoked',
                          fault={'result': -3, 'error': 'e', 'rank': 1, 'text': 'rank 1 did not come'}))
        out, _ = self.trace(self.dir)
        self.assertIn('revoked on rank 2: rank 1 did not come', out)
        self.assertIn('unfinished: operation 2, all_reduce(float32 × 4096, sum), on ranks 0, 2\n', out)
        self.assertIn('silent: rank 1 never called operation 2', out)
        self.assertRegex(out, r'rank 1: its last is operation 1, .*, which it ended 98 ms before')
        self.assertIn('1 call of later operations waits behind it', out)

    def test_who_differed(self):
        headers = [header(64), header(128, 'all_gather', op=None, op_number=-1), header(192, algorithm='tree', segments=4)]
        self.store(report(0, [call(1, 1, 2), call(2, 3, None), call(3, 4, None, header=1)], headers=headers),
                   report(1, [call(1, 1, 2, header=192), call(2, 3, None), call(3, 4, None)], headers=headers),
                   report(2, [call(1, 1, 2), call(2, 3, None, header=128), call(3, 4, None, header=128)], headers=headers))
        out, _ = self.trace(self.dir)
        self.assertIn('differed: operation 1:\n    ranks 0, 2 called all_reduce(float32 × 4096, sum) by ring\n'
                      '    rank 1 called all_reduce(float32 × 4096, sum) by tree in 4 segments\n', out)
        self.assertIn('differed: operation 2:\n    ranks 0, 1 called all_reduce(float32 × 4096, sum)\n'
                      '    rank 2 called all_gather(float32 × 4096)\n', out)
        self.assertIn('differed: operation 3:\n    rank 0 called a collective whose header is no longer known\n'
                      '    rank 1 called all_reduce(float32 × 4096, sum)\n    rank 2 called all_gather(float32 × 4096)\n', out)

    def test_calls_are_named_as_they_were_made(self):
        """Where a rank knows its own counts alone, these do not differ; functions and groups are named, not what they are made of."""
        headers = [[header(1, 'gather_v', count, op=None, op_number=-1, root=0), header(2, 'all_gather_v', 10, op=None, op_number=-1),
                  header(3, 'all_gather', 12, dtype='uint8', op=None, op_number=-1, part_of='tutti_comm_split'),
                  header(4, count=7, part_of='group')] for count in (5, 6)]
        calls = [call(number, number, None, header=number) for number in range(1, 5)]
        for number, name in enumerate(('gather_v(float32 × 5, root 0)', 'all_gather_v(float32 × 10 in all)', 'tutti_comm_split',
                                       'a group of all_reduce(float32 × 7 in all, sum)')):
            self.store(*(report(rank, calls[number:], size=2, headers=headers[rank]) for rank in range(2)))
            out, _ = self.trace(self.dir)
            self.assertIn(f'unfinished: operation {number + 1}, {name}, on ranks 0, 1', out)
            self.assertNotIn('differed', out)

    def test_numbers_of_cards_are_each_ranks_own(self):
        self.store(report(0, [call(1, 1, 2)], size=2),
                   report(1, [call(1, 1, 2, header=640)], size=2, headers=[header(640, peers=[])]))
        self.assertNotIn('differed', self.trace(self.dir)[0])

    def test_messages_that_nobody_took(self):
        self.store(report(0, [message(1, 'send', 1, 0, 1, 2), message(2, 'send', 1, 1, 3, None),
                              message(3, 'recv', 2, 0, 3, None)]),
                   report(1, [message(1, 'recv', 0, 0, 1, 2)]))
        out, _ = self.trace(self.dir)
        self.assertIn('no report: rank 2', out)
        self.assertIn('rank 0: send to rank 1 (float32 × 10), message 1; rank 1 never called its side', out)
        self.assertIn('rank 0: receive from rank 2 (float32 × 10), message 0; of rank 2 there is no report', out)

    def test_clocks_of_hosts_are_made_one(self):
        """Rank 1's host was started 50 ms earlier: its monotonic clock is ahead, its real one is not."""
        later = [call(1, 51, 60), call(2, 71, 80)]
        self.store(report(0, [call(1, 2, 10), call(2, 22, 30)], size=2),
                   report(1, later, size=2, host='other', monotonic_ns=START + 150 * MS))
        out, _ = self.trace(self.dir)
        self.assertIn('several hosts', out)
        self.assertRegex(out, r'rank 0 was last in 2 \(100%\); .* alone 2 ms')

    def test_communicators_are_told_apart(self):
        self.store(report(0, [call(1, 1, 2)]), report(1, [call(1, 1, 2)]), report(2, [call(1, 1, 2)]),
                   report(0, [call(1, 1, None)], size=2, communicator='d' * 16),
                   report(1, [], size=2, communicator='d' * 16))
        out, _ = self.trace(self.dir)
        first, second = out.split('communicator d')
        self.assertIn('communicator cccc', first)
        self.assertNotIn('silent', first)
        self.assertIn('silent: rank 1', second)
        self.assertIn('rank 1 has called no collective', second)

    # ---- calls on streams

    def test_who_was_silent_on_streams(self):
        self.store(report(0, [], streams=[on_stream(1, 1, True), on_stream(2, 2, None), on_stream(3, 3, False),
                                          on_stream(4, 4, False)]),
                   report(1, [], streams=[on_stream(1, 1, True), on_stream(2, 60, False)]),
                   report(2, [], streams=[on_stream(1, 1, True), on_stream(2, 2, True), on_stream(3, 3, False)]))
        out, _ = self.trace(self.dir)
        self.assertIn('  on streams, not seen to end: operation 2, all_reduce(float16 × 1000, sum), by windows, on rank 1\n', out)
        self.assertNotIn('silent', out)
        self.store(report(1, [], streams=[on_stream(1, 1, True), on_stream(2, 60, True)]))
        out, _ = self.trace(self.dir)
        self.assertIn('not seen to end: operation 3, all_reduce(float16 × 1000, sum), by windows, on ranks 0, 2\n', out)
        self.assertIn('  silent on streams: rank 1 never called operation 3\n'
                      '    rank 1: its last on a stream is operation 2, all_reduce(float16 × 1000, sum), called 40 ms before', out)
        self.store(report(1, []))
        self.assertIn('    rank 1 has called no collective on a stream\n', self.trace(self.dir)[0])

    def test_who_differed_on_streams(self):
        """Of gather_v each rank has a count of its own."""
        own = [on_stream(3, 3, True, sequence=2, collective='gather_v', count=count, op=None, op_number=-1, root=1)
               for count in (5, 6)]
        self.store(report(0, [], size=2, streams=[on_stream(1, 1, True), message_on_stream(2, 'send', 1, 2, True), own[0],
                                                  on_stream(4, 4, True, sequence=3)]),
                   report(1, [], size=2, streams=[on_stream(1, 1, True), {**own[1], 'number': 2},
                                                  on_stream(3, 4, True, op='max', op_number=3)]))
        out, _ = self.trace(self.dir)
        self.assertEqual(out.count('differed'), 1)
        self.assertIn('  differed on streams: operation 3:\n    rank 0 called all_reduce(float16 × 1000, sum)\n'
                      '    rank 1 called all_reduce(float16 × 1000, max)\n', out)

    def test_messages_on_streams(self):
        self.store(report(0, [], streams=[message_on_stream(number, 'send', 1, number, number < 3) for number in range(1, 10)]))
        out, _ = self.trace(self.dir)
        self.assertEqual(out.count('  on a stream of rank 0, not seen to end: send to rank 1 (float16 × 1000)\n'), 5)
        self.assertIn('and 2 more messages on streams\n', out)

    def test_the_trace_has_calls_on_streams(self):
        self.store(report(0, [call(1, 5, 6)], size=1, streams=[on_stream(1, 2, True), on_stream(2, 4, None)]))
        events = self.viewed()[1]['traceEvents']
        calls = [event for event in events if event['ph'] == 'i']
        self.assertEqual([(event['name'], event['ts'], event['args']) for event in calls],
                         [('all_reduce(float16 × 1000, sum)', at, {'number': number, 'device': 3, 'way': 'windows', 'ended': ended})
                          for number, at, ended in ((1, 0, 'yes'), (2, 2000, 'unknown: in a graph'))])
        rows = {event['tid']: event['args']['name'] for event in events if event['name'] == 'thread_name'}
        self.assertIn('calls on streams of cccc', rows[calls[0]['tid']])

    def test_calls_on_streams_that_make_no_sense(self):
        for wrong in ({'count': -1}, {'posted': None}, {'sequence': 1}, {'way': 7}):
            self.store(report(0, [], size=1, streams=[on_stream(1, 1, True), {**on_stream(2, 2, True), **wrong}]))
            self.assertIn('makes no sense', self.trace(self.dir, status=1)[1], wrong)

    # ---- what it makes of files

    def test_what_is_no_report_is_named(self):
        self.store(report(0, [call(1, 1, 2)], size=1))
        good = next(self.dir.iterdir())
        text = good.read_text(encoding='utf-8')
        bad = {'short': (text[:len(text) // 2], 'truncated'), 'text': ('hello', 'no JSON'),
               'other': ('{"a": 1}', 'no report of a flight recorder'),
               'newer': (text.replace('"tutti_flight": 1', '"tutti_flight": 2'), 'another format'),
               'list': (text.replace('"sequence": 1', '"sequence": "1"'), 'makes no sense'),
               'rank': (text.replace('"rank": 0, "size"', '"rank": 7, "size"'), 'makes no sense'),
               'empty': ('', 'truncated')}
        for name, (content, words) in bad.items():
            path = self.dir / f'{name}.flight.json'
            path.write_text(content, encoding='utf-8')
            _, err = self.trace(path, status=1)
            self.assertIn(words, err, name)
            self.assertIn(str(path), err)
        out, err = self.trace(self.dir)  # what the directory has besides does no harm
        self.assertEqual(err.count('passed over'), len(bad))
        self.assertIn('1 of 1 rank\n', out)
        self.trace(self.dir / 'missing', status=1)
        self.assertEqual(self.trace(good, self.dir / 'text.flight.json', status=1)[0], out)

    def test_what_is_no_file_is_not_waited_for(self):
        self.store(report(0, [call(1, 1, 2)], size=1))
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self.dir / 'socket.flight.json'))
            os.mkfifo(self.dir / 'pipe.flight.json')
            (self.dir / 'link.flight.json').symlink_to('pipe.flight.json')
            (self.dir / 'directory.flight.json').mkdir()
            with (self.dir / 'huge.flight.json').open('wb') as huge:
                huge.truncate(1 << 40)
            out, err = self.trace(self.dir)
        self.assertIn('1 of 1 rank\n', out)
        for name, words in {'socket': 'cannot be read', 'pipe': 'no regular file', 'link': 'no regular file',
                            'directory': 'no regular file', 'huge': '64 MiB'}.items():
            self.assertRegex(err, f'{name}.flight.json: .*{words}')
        self.assertIn('no regular file', self.trace(self.dir / 'pipe.flight.json', status=1)[1])

    def test_numbers_that_no_rank_comes_to(self):
        many = [{'rank': 0, 'sent': 1 << 48, 'received': 1 << 48}] * 40000
        for wrong in ({'operations': [call((1 << 63) - 1, 1, 2)]}, {'headers': [header(64, peers=many)]},
                      {'streams': [on_stream((1 << 63) - 1, 1, True)]}):
            self.store(report(0, [], size=1, **wrong) if 'operations' not in wrong else report(0, wrong['operations'], size=1))
            self.assertIn('makes no sense', self.trace(self.dir, status=1)[1], list(wrong))
        last = [call(1, 1, 2), call(1 << 62, 3, 4)]
        self.store(report(0, last, size=2), report(1, last, size=2))
        self.assertIn('late, in 2 operations', self.trace(self.dir)[0])

    def test_a_terminal_gets_nothing_to_act_on(self):
        evil = 'a\x1b[2J\x9b1m\r\nb\u202ec\x7f'
        self.store(report(0, [call(1, 1, None)], why='died', hostname=evil, headers=[header(64, evil, algorithm=evil)],
                          fault={'result': -3, 'error': evil, 'rank': 1, 'text': evil}),
                   report(1, [call(1, 1, 2)], headers=[header(64, algorithm=evil, segments=2)]),
                   report(2, [], streams=[on_stream(1, 1, False, way=evil, op=evil)]))
        for one in self.dir.iterdir():
            one.write_text(one.read_text(encoding='utf-8').replace('"job": "job"', f'"job": {json.dumps(evil)}'), encoding='utf-8')
        (self.dir / f'{evil}.flight.json').write_text('{"' + evil, encoding='utf-8')
        (self.dir / 'key.flight.json').write_text('{"tutti_flight" \x1b[2J', encoding='utf-8')
        out, err = self.trace(self.dir)
        self.assertIn('job a?[2J??1m??b???c?\n', out)
        self.assertIn('died: rank 0 (pid 100 on a?[2J', out)
        self.assertEqual(err.count('passed over'), 2)
        for text in out, err:
            self.assertNotRegex(text, '[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]')

    def test_the_last_job_is_told_of(self):
        self.store(report(0, [], size=1, job='old', realtime_ns=START), report(0, [], size=1, job='new'))
        out, err = self.trace(self.dir)
        self.assertIn('job new', out)
        self.assertIn('1 report of other jobs than new, the last one, is passed over; --job NAME shows one (the newest: old), '
                      '--list names all\n', err)
        self.assertIn('job old', self.trace('--job', 'old', self.dir)[0])
        _, err = self.trace('--job', 'none', self.dir, status=1)
        self.assertIn('no report is of job none; expected one that --list names (the newest: new, old)\n', err)

    def test_jobs_are_listed(self):
        self.store(*(report(rank, [], size=2, job=f'job{day}', realtime_ns=(day * 86400 + 3600) * 10**9) for day in range(5)
                     for rank in range(1 + day % 2)),
                   report(0, [], size=2, job='job1', communicator='d' * 16, realtime_ns=10**9),
                   report(0, [], size=2, job='only', pid=102, realtime_ns=10**9), report(1, [], size=2, job='only', pid=999,
                                                                                         launched_as=1, realtime_ns=10**9))
        # rank 0 was replaced, and rank 1 is what a script has started
        self.ends((0, 100, MS, False, 1), (0, 102, MS, True, 1), (1, 101, MS, True, None, 15), job='only',
                  realtime_ns=2 * 86400 * 10**9)
        out, err = self.trace('--list', self.dir, env={'TZ': 'UTC'})
        self.assertEqual(out.splitlines(), [f'{name:32}  {when}' for name, when in (
            ('job4', '1970-01-05 01:00:00  1 rank'), ('job3', '1970-01-04 01:00:00  2 ranks'), ('job2', '1970-01-03 01:00:00  1 rank'),
            ('only', '1970-01-03 00:00:00  2 ranks'), ('job1', '1970-01-02 01:00:00  2 ranks'),
            ('job0', '1970-01-01 01:00:00  1 rank'))])
        self.assertEqual(err, '')
        self.assertIn('9 reports of other jobs than job4, the last one, are passed over; --job NAME shows one '
                      '(the newest: job3, job2, only), --list names all\n', self.trace(self.dir)[1])
        self.trace('-l', self.dir / 'none', status=1)
        self.assertIn('found --list and --job,', self.trace('-l', '-j', 'only', self.dir, status=2)[1])
        self.assertIn('--job is empty', self.trace('-j', '', self.dir, status=2)[1])

    def test_a_directory_that_no_job_had_is_not_made(self):
        _, err = self.trace(status=1, env={'TUTTI_TRACE': self.dir / 'none'})
        self.assertIn('no report in', err)
        self.assertFalse((self.dir / 'none').exists())

    # ---- reports that are being written

    def late(self, before, after):
        """What is told where reports follow once tutti-trace has read those that were there. It may be so late that it waits no more."""
        self.store(report(0, [], job='old', realtime_ns=START))  # of which it says that it has read it
        for _ in range(20):
            self.store(*before())
            trace = self.start(PROGRAM, self.dir)
            trace.await_text('of other jobs', err=True)
            self.store(*after())
            self.finish(trace)
            if 'no report' not in trace.out and 'never called' not in trace.out:
                break
        self.assertEqual(trace.err.count('\n'), 1)
        return trace.out

    def test_reports_that_are_still_written_are_waited_for(self):
        def new(rank):
            return report(rank, [call(1, 1, 2)], realtime_ns=time.time_ns())

        def before():
            for path in self.dir.glob('job.*'):
                path.unlink()
            return new(0), new(1)
        self.assertIn('3 of 3 ranks', self.late(before, lambda: [new(2)]))

    def test_reports_of_an_earlier_signal_are_written_anew(self):
        def old(rank):
            name = self.dir / f'job.{"c" * 16}.{rank}.flight.json'
            self.store(report(rank, [call(1, 1, 2)], realtime_ns=time.time_ns() - 10**10))
            os.utime(name, (time.time() - 10,) * 2)
            return name

        def new(rank):
            return report(rank, [call(1, 1, 2), call(2, 3, None)], realtime_ns=time.time_ns())
        self.assertNotIn('silent', self.late(lambda: old(2) and (new(0), new(1)), lambda: [new(2)]))

    def test_reports_that_do_not_come_are_said_to_be_missing(self):
        self.store(report(0, [], realtime_ns=time.time_ns()))
        self.assertIn('no report: ranks 1, 2 (on another host, left in order before, never joined, or still writing it)\n',
                      self.trace(self.dir)[0])

    def test_a_job_is_as_old_as_its_last_sign_of_life(self):
        """Reports of ranks that died are written by those who find them, maybe days later."""
        self.store(report(0, [call(1, 1, 2)], size=1, job='old', why='died', realtime_ns=7 * START, monotonic_ns=START + 3000 * MS,
                          opened_ns=START),
                   report(0, [], size=1, job='older', why='died', realtime_ns=8 * START, monotonic_ns=START + 9000 * MS),
                   report(0, [], size=1, job='new', realtime_ns=7 * START - 2000 * MS))
        self.assertIn('job new', self.trace(self.dir)[0])
        self.store(report(0, [call(1, 2500, None)], size=1, job='last', why='died', realtime_ns=7 * START, monotonic_ns=START + 3000 * MS,
                          opened_ns=START + 1500 * MS))
        self.assertIn('job last', self.trace(self.dir)[0])

    # ---- how ranks ended

    def ends(self, *exits, **other):
        keys = ('rank', 'pid', 'after_ns', 'asked', 'status', 'signal')
        listed = [{key: value for key, value in zip(keys, one) if value is not None} for one in exits]
        whole = {'tutti_exits': 1, 'job': 'job', 'hostname': 'name', 'realtime_ns': 6 * START, 'ended_for': 'failure', 'asked_with': 15,
                 'exits': listed, **other}
        (self.dir / 'job.exits.flight.json').write_text(json.dumps(whole), encoding='utf-8')

    def test_how_ranks_ended(self):
        self.store(*(report(rank, [], size=7, why='died' if rank in (1, 3, 4, 5) else 'revoked') for rank in range(6)))
        self.ends((3, 103, 2 * MS, False, None, 9), (0, 100, 3 * MS, False, 1), (2, 102, 3 * MS, True, 1), (1, 101, 4 * MS, True, None, 11),
                  (4, 104, 5 * MS, True, None, 15), (5, 105, 6 * MS, True, 143), (6, 106, 7 * MS, True, 3))
        out, _ = self.trace(self.dir)
        self.assertIn('job job\nended: rank 6 of tutti-run (pid 106), of which there is no report, exited with status 3, 7 ms after', out)
        self.assertIn('  first to fail: rank 3 (pid 103 on name), killed by signal 9 (Killed), 2 ms after the start of the job; '
                      'it had called no collective\n'
                      '  died: rank 1 (pid 101 on name), killed by signal 11 (Segmentation fault), 4 ms after the start of the job; '
                      'it had called no collective\n'
                      '  left after an error: ranks 0, 2 (exit status 1)\n'
                      '  ended by tutti-run: ranks 4, 5 (signal 15)\n', out)

    def test_where_ranks_were_that_died(self):
        """It is said once, whether it is known how they ended or not."""
        self.store(report(0, [call(1, 1, 2), call(2, 3, 4)], why='died'), report(1, [call(1, 1, 2), call(2, 3, None)], why='died'),
                   report(2, [call(1, 1, 2), call(2, 3, 4), call(3, 5, None)]))
        words = {0: 'its last is operation 2, all_reduce(float32 × 4096, sum), which it had ended',
                 1: 'its last is operation 2, all_reduce(float32 × 4096, sum), which it was in'}
        out, _ = self.trace(self.dir)
        for rank in 0, 1:
            self.assertIn(f'  died: rank {rank} (pid {100 + rank} on name); {words[rank]}\n', out)
        self.ends((1, 101, MS, False, None, 9), (0, 100, 2 * MS, False, None, 11))
        out, _ = self.trace(self.dir)
        self.assertIn(f'(Killed), 1 ms after the start of the job; {words[1]}\n', out)
        self.assertIn(f'(Segmentation fault), 2 ms after the start of the job; {words[0]}\n', out)
        self.assertEqual(out.count('its last'), 2)

    def test_a_rank_that_left_as_it_was_told_to_is_not_the_first_to_fail(self):
        fault = {'result': -3, 'error': 'e', 'rank': 2, 'text': 'rank 2 did not come'}
        self.store(report(0, [call(1, 1, 90, result=-3)], why='revoked', fault=fault), report(1, [call(1, 1, None)], why='died', fault=fault),
                   report(2, []))
        self.ends((0, 100, MS, False, 1), (1, 101, 2 * MS, False, 1), (2, 102, 3 * MS, True, None, 15))
        out, _ = self.trace(self.dir)
        self.assertIn('  revoked on ranks 0, 1: rank 2 did not come\n'
                      '  first to exit: rank 0 (pid 100 on name), exited with status 1, 1 ms after the start of the job\n'
                      '  left after an error: rank 1 (exit status 1)\n', out)
        self.assertNotIn('first to fail', out)
        # by a signal, or by itself before anybody told it
        for first in (0, 100, MS, False, None, 11), (1, 101, MS, False, 1):
            self.ends(first, (2, 102, 3 * MS, True, None, 15))
            self.assertRegex(self.trace(self.dir)[0], f'(?s)ranks\n  first to fail: rank {first[0]} .*\n  revoked on')

    def test_a_script_around_a_rank_and_a_split(self):
        """Ranks are numbered anew, and the process is not the one that tutti-run has started."""
        self.store(report(0, [], size=2, why='died', launched_as=5), report(1, [], size=2, why='died', launched_as=4, pid=999))
        self.ends((4, 44, MS, False, 0), (5, 55, 2 * MS, True, None, 9), ended_for='timeout')
        out, _ = self.trace(self.dir)
        self.assertIn('  left without tutti_comm_destroy: rank 1 (exit status 0)\n'
                      '  ended by tutti-run: rank 0 (signal 9) as its --timeout had passed\n', out)
        self.assertNotIn('first to fail', out)

    def test_what_cannot_be_how_ranks_ended(self):
        self.store(report(0, [], size=1, why='died'))
        good = (0, 100, MS, False, None, 9)
        for wrong in ((-1, *good[1:]), (0, 0, *good[2:]), (0, 100, -1, *good[3:]), (0, 100, MS, 0, None, 9), (0, 100, MS, False, 0, 9),
                      (0, 100, MS, False, None, 65), (0, 100, MS, False, 256), (0, 100, MS, False)):
            self.ends(wrong)
            out, err = self.trace(self.dir)
            self.assertIn('should say how ranks ended, but', err, wrong)
            self.assertIn('died: rank 0 (pid 100 on name); it had', out)
        for wrong in ({'job': 'a b'}, {'job': ''}, {'tutti_exits': 2}, {'exits': {}}, {'hostname': 'x' * 65}):
            self.ends(good, **wrong)
            self.assertIn('should say how ranks ended, but', self.trace(self.dir)[1], wrong)

    def test_the_newer_of_two_reports_counts(self):
        self.store(report(0, [call(1, 1, 2)], size=1))
        self.write('again.flight.json', json.dumps(report(0, [call(1, 1, None)], size=1, realtime_ns=6 * START)))
        out, err = self.trace(self.dir)
        self.assertIn('unfinished', out)
        self.assertIn('a newer report of the same rank', err)

    def test_command_line(self):
        self.assertIn('Usage: tutti-trace', self.trace('--help')[0])
        self.assertRegex(self.trace('--version')[0], r'^tutti-trace \d')
        self.assertIn('unknown option --bad', self.trace('--bad', status=2)[1])
        self.assertIn('-o needs a value', self.trace('-o', status=2)[1])
        self.assertIn('no report', self.trace(status=1, env={'TUTTI_TRACE': str(self.dir)})[1])
        self.assertIn('TUTTI_TRACE is off', self.trace(status=1, env={'TUTTI_TRACE': 'off'})[1])
        self.store(report(0, [], size=1))
        self.trace('-o', self.dir / 'no' / 'file', self.dir, status=1)

    def test_what_cannot_be_written_is_a_failure(self):
        """A file is whole, or as it was."""
        self.store(report(0, [call(1, 1, 2)], size=1))
        for options in [], ['--json'], ['--list']:
            self.assert_output_is_missed(PROGRAM, *options, self.dir)
        self.assertIn('cannot write "/dev/full": No space left on device; make space, or',
                      self.trace('-o', '/dev/full', self.dir, status=1)[1])
        trace = self.write('trace', 'another trace')
        run = self.run_to_end('/bin/sh', '-c', 'ulimit -f 0; exec "$0" -o "$@"', PROGRAM, trace, self.dir, status=1)
        self.assertIn(f'cannot write "{trace}": File too large', run.err)
        self.assertEqual((self.dir / 'trace').read_text(), 'another trace')
        self.assertEqual(glob.glob(f'{trace}.*'), [])

    # ---- the trace for viewers

    def test_the_trace_has_every_operation(self):
        self.store(report(0, [call(1, 1, 5), call(2, 2, 6), call(3, 3, 4), call(4, 7, None, first=8)], size=2),
                   report(1, [call(1, 1.5, 5), message(2, 'send', 0, 0, 2, 3)], size=2))
        _, root = self.viewed()
        self.assertEqual(root['otherData']['job'], 'job')
        events = root['traceEvents']
        ops = [event for event in events if event['ph'] == 'X']
        self.assertEqual(len(ops), 6)
        self.assertEqual({event['args']['name'] for event in events if event['name'] == 'process_name'},
                         {'rank 0 (name, pid 100)', 'rank 1 (name, pid 101)'})
        first = next(event for event in ops if event['pid'] == 0 and event['args']['sequence'] == 1)
        self.assertEqual((first['name'], first['ts'], first['dur'], first['cat']),
                         ('all_reduce(float32 × 4096, sum)', 0, 4000, 'collective'))
        self.assertEqual((first['args']['sent'], first['args']['received']), (100, 50))
        last = next(event for event in ops if event['args']['sequence'] == 4)
        self.assertTrue(last['args']['in_flight'])
        self.assertEqual((last['ts'], last['dur'], last['args']['first_byte_us']), (6000, 93000, 7000))
        sent = next(event for event in ops if event['cat'] == 'message')
        self.assertEqual((sent['pid'], sent['name'], sent['args']['bytes']), (1, 'send to rank 0 (float32 × 10)', 40))
        self.no_overlap(ops)

    def no_overlap(self, ops):
        rows = {}
        for event in sorted(ops, key=lambda event: event['ts']):
            row = (event['pid'], event['tid'])
            self.assertGreaterEqual(event['ts'] + 1e-3, rows.get(row, 0), row)
            rows[row] = event['ts'] + event['dur']

    # ---- real jobs

    def job(self, *arguments, options=(), **variables):
        return self.start(RUN, '-n', 3, *options, RANK, *arguments,
                          **{'TUTTI_TRACE': self.dir, 'TUTTI_TIMEOUT': bound_s(60), **variables})

    def operations(self):
        """What is told, and the operations of the trace; each sum of 400 bytes went to and fro once or twice for each peer."""
        out, trace = self.viewed()
        ops = [event for event in trace['traceEvents'] if event['ph'] == 'X']
        for op in ops[:20]:
            self.assertIn(op['args']['sent'] + op['args']['received'], range(400, 400 * 2 * 3 + 1))
        return out, ops

    def test_a_job_that_was_killed_is_told_of(self):
        """tutti-run ends those that are left, so maybe nobody has reported anything."""
        self.job('killed', TUTTI_TRANSPORT='tcp').finish()
        out, ops = self.operations()
        self.assertIn('3 of 3 ranks', out)
        self.assertRegex(out, r'first to fail: rank 1 \(pid \d+ on .*\), killed by signal 9 \(Killed\), .* after the start of the job; '
                              r'its last is operation 20, all_reduce\(float32 × 100, sum\), which it had ended\n')
        # rank 0 has heard of it, and may or may not come to an end by itself
        self.assertRegex(out, r'  ended by tutti-run: (rank 2|ranks 0, 2) \(signal 15\)\n')
        self.assertNotRegex(out, r'(?m)^  died') # a survivor's error message may say so of rank 1
        for rank in (0, 2):
            self.assertNotIn(f'silent: rank {rank}', out)
        self.assertEqual(sorted(path.suffix for path in self.dir.iterdir()), ['.json'] * 2 + ['.report'] * 3)
        self.assertGreaterEqual(len(ops), 3 * 20)
        self.no_overlap(ops)

    def test_a_rank_that_left_is_told_of(self):
        """The others have reported what it did before tutti-trace looks."""
        self.job('failed', options=('--min-ranks', 2)).finish()
        self.assertEqual(len(list(self.dir.glob('*.1.flight.report'))), 1)
        out, _ = self.operations()
        self.assertRegex(out, r'first to fail: rank 1 \(pid \d+ on .*\), exited with status 7, ')
        self.assertNotRegex(out, r'(?m)^  died') # a survivor's error message may say so of rank 1

    def test_a_rank_that_died_before_it_joined_is_told_of(self):
        """An older job has reports, this one has none."""
        self.store(report(0, [], size=1, job='old', realtime_ns=START))
        self.job('early').finish()
        out, _ = self.trace('-o', self.dir / 'trace.json', self.dir)
        self.assertNotIn('job old', out)
        self.assertRegex(out, r'first to fail: rank 1 of tutti-run \(pid \d+\), of which there is no report, killed by signal 11 ')

    def test_how_ranks_ended_goes_where_their_reports_go(self):
        other = self.dir / 'other'
        for directory in (other, 'off'):
            self.job('early', options=('--env', f'TUTTI_TRACE={directory}')).finish()
            self.assertEqual(len(list(self.dir.glob('*.flight.json'))), 0)
            self.assertEqual(len(list(other.glob('*.exits.flight.json'))), 1)
        job = self.job('early', TUTTI_TRACE='/dev/null')
        job.finish()
        self.assertRegex(job.err, 'cannot write to /dev/null how the ranks ended .*Not a directory')

    def test_of_how_ranks_ended_the_newest_are_kept(self):
        for number in range(70):
            old = self.dir / f'{number}.exits.flight.json'
            old.touch()
            os.utime(old, (number, number))
        self.job('early').finish()
        self.assertFalse((self.dir / '0.exits.flight.json').exists())
        self.assertEqual(len(list(self.dir.glob('*.exits.flight.json'))), 70)

    def test_a_job_that_ended_well_leaves_nothing(self):
        self.finish(self.job('well'))
        self.assertEqual(list(self.dir.iterdir()), [])

    def test_ranks_that_differ_are_told(self):
        job = self.job('differs')
        self.finish(job)
        self.assertIn('run tutti-trace', job.err)
        out, _ = self.trace(self.dir)
        self.assertRegex(out, r'differed: operation 21:\n +rank')
        self.assertIn('rank 1 called broadcast(float32 × 100, root 1)\n', out)
        self.assertRegex(out, r'revoked on ranks 0-2: .*broadcast')
        self.assertNotIn('first to', out)
        self.reports_are_checked(out)

    def reports_are_checked(self, out):
        """What reports say as JSON is the same, and what is none of them is named."""
        texts, one = self.reports(), next(self.dir.glob('*.flight.report'))
        whole = one.read_bytes()
        for name, (content, words) in {'short': (whole[:-1], 'truncated'), 'head': (whole[:8], 'truncated'),
                                       'long': (whole + b'x', 'behind its end'),
                                       'older': (whole[:8] + b'x' + whole[9:], 'another version of tutti')}.items():
            path = self.dir / f'{name}.flight.report'
            path.write_bytes(content)
            self.assertIn(words, self.trace(path, status=1)[1])
        for path in self.dir.glob('*.flight.report'):
            path.unlink()
        for number, text in enumerate(texts):
            (self.dir / f'{number}.flight.json').write_text(text, encoding='utf-8')
        self.assertEqual(self.trace(self.dir)[0], out)

    def test_a_signal_to_tutti_run_reports_all_ranks(self):
        go_on = self.dir / 'go on'
        job = self.job('stuck', go_on)
        job.await_text('there', 3)      # all are past their first operations
        texts, deadline = [], time.monotonic() + bound_s(60)
        # until all have written, and the two have called the barrier
        while time.monotonic() < deadline and (len(texts), sum('"barrier"' in text for text in texts)) != (3, 2):
            job.send(signal.SIGUSR1)
            texts = self.reports()
        out, _ = self.trace(self.dir)
        go_on.touch()
        self.finish(job)
        self.assertIn('3 of 3 ranks', out)
        self.assertIn('unfinished: operation 21, barrier(), on ranks 0, 2\n'
                      '    ranks 0, 2 called it at train.py:57 in end\n', out)
        self.assertIn('silent: rank 1 never called operation 21', out)
        self.assertIn('rank 1: its last is operation 20, all_reduce(float32 × 100, sum), called at train.py:42 in step, which it ended', out)
        self.assertNotIn('revoked', out)

    @unittest.skipUnless(STANDIN, 'no C++ compiler for the kernels')
    def test_streams_that_wait_are_told_of(self):
        go_on = self.dir / 'go on'
        job = self.job('stream', go_on, TUTTI_CUDA_LIBRARY=STANDIN, TUTTI_CUDA_KERNELS=__file__, STANDIN_MPS=1)
        job.await_text('there', 3)
        calls, deadline = [], time.monotonic() + bound_s(60)
        while time.monotonic() < deadline and sorted(calls) != [[True], [True, False], [True, False]]:
            job.send(signal.SIGUSR1)
            calls = [[one['ended'] for one in json.loads(text)['streams']] for text in self.reports()]
        out, _ = self.trace(self.dir)
        go_on.touch()
        self.finish(job)
        self.assertIn('not seen to end: operation 2, all_reduce(float32 × 100, sum), by lines, on ranks 0, 2\n', out)
        self.assertIn('silent on streams: rank 1 never called operation 2\n', out)
        self.assertRegex(out, r'rank 1: its last on a stream is operation 1, all_reduce\(float32 × 100, sum\), called')


unittest.main()
