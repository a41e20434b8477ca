# SPDX-License-Identifier: BSD-3-Clause
"""Owns the comparison of trainings by their logs: a table, what it is not to be misread for, and a picture.

compare.c runs it as `python3 -IB compare.py PROGRAM ORIGIN report|compare WORD...`, with the path of tutti-train and the
small print of pictures."""
import argparse
import collections
import difflib
import gzip
import json
import os
import re
import reprlib
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from pictures import picture_name, write_picture  # noqa: E402

LOGS_MOST, RANKS_MOST = 14, 1024            # 14: as many as colours and markers tell apart
LOG_MOST, LINE_MOST, SAID_MOST = 1 << 28, 1 << 24, 20       # bytes of a log, of a line; lines of what a failed training said
TEXT_MOST, LIST_MOST, NAME_MOST = 4096, 1 << 16, 40
NUMBER_MOST = 1e18  # so that what is computed from two is still a number
POINTS_MOST = 2000  # of a curve, or twice as many
LOSS_LEAST = 1e-12  # on a logarithmic axis
ROW, ABOVE, BELOW = 310, 30, 46     # pixels
TOGETHER, CUT = ('allreduce', 'zero1', 'local', 'ps', 'async'), ('pipeline', 'tensor')  # names of --sync, and of --parallel
WITH_SERVER = ('ps', 'async')
EACH_ITS_OWN = re.compile('--(sync|parallel|json|save|resume|predict|version)(=|$)')


def printable(text):
    """What a terminal shows, and does not act on."""
    return ''.join(character if character.isprintable() else '?' for character in text)


# ---- a log

def number(low=0, whole=False):
    """Of a field: what is expected, and whether a value is that. JSON's numbers are read as floats; NaN is not one here."""
    return (f'a {"whole " * whole}number from {low} to {NUMBER_MOST:g}', lambda value:
            isinstance(value, float) and low <= value <= NUMBER_MOST and (not whole or value.is_integer()))


def several(kind):
    return (f'a list of at most {LIST_MOST}, each {kind[0]}',
            lambda value: isinstance(value, list) and len(value) <= LIST_MOST and all(map(kind[1], value)))


def maybe(kind):
    """It may be null, or not be there: without validation, or in an older log."""
    return kind[0], lambda value: value is None or kind[1](value)


NUMBER, COUNT, SOME = number(), number(whole=True), number(1, whole=True)
TEXT = f'a text of at most {TEXT_MOST} characters', lambda value: isinstance(value, str) and len(value) <= TEXT_MOST
RANK = 'an object with "received", a whole number', lambda value: isinstance(value, dict) and COUNT[1](value.get('received'))
FIELDS = {
    'start': {'sync': TEXT, 'ranks': SOME, 'stages': maybe(SOME), 'ways': maybe(SOME), 'batch': SOME, 'train_samples': SOME,
              'data': TEXT, 'parameters': SOME, 'dtype': TEXT},
    'epoch': {'seconds': NUMBER, 'train_loss': NUMBER, 'test_loss': maybe(NUMBER), 'test_accuracy': maybe(NUMBER)},
    'loss': {'seconds': NUMBER},
    'end': {'seconds': NUMBER, 'samples_per_s': NUMBER, 'blocked_share': NUMBER, 'sent_bytes': COUNT, 'steps': SOME,
            'steps_begun': COUNT, 'algorithm': TEXT, 'transports': TEXT, 'each_rank': maybe(several(RANK)),
            'staleness': maybe(several(COUNT))}}


class Log:
    """It may end early, as that of a training that was killed or still runs; but what there is has to be a log's."""

    def __init__(self, path):
        self.path, self.line, self.start, self.end = path, 1, None, None
        self.epochs, self.losses = [], []   # seconds and loss; seconds of a loss of ranks
        try:
            self.read()
        except (OSError, EOFError, zlib.error) as error:
            sys.exit(f'{path}: cannot be read: {getattr(error, "strerror", None) or error}; '
                     'give a file that exists and can be read')
        if not self.epochs:
            sys.exit(f'{path}: found no epoch, expected one at least; let the training go on')
        start, end = self.start, self.end or dict.fromkeys(FIELDS['end'])
        cut = [way for key, way in (('stages', 'pipeline'), ('ways', 'tensor')) if (start[key] or 1) > 1]
        self.way = 'grid' if len(cut) == 2 else cut[0] if cut else printable(start['sync'])
        self.ranks = int(start['ranks'])
        self.same = {'data': f'{start["train_samples"]:.0f} samples of {printable(os.path.basename(start["data"]))}',
                     'batch': f'{start["batch"]:.0f} samples',
                     'model': f'{start["parameters"]:.0f} weights of {printable(start["dtype"])}'}
        # MB in a step; a training that was resumed has begun only some of its steps
        received = max((rank['received'] for rank in end['each_rank'] or []), default=0)
        self.sent, self.received = (1e-6 * bytes_ / end['steps_begun'] if end['steps_begun'] else 0
                                    for bytes_ in (end['sent_bytes'], received))

    def read(self):
        """A regular file, of which there is an end. It may be compressed. The last line may have been cut off."""
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            sys.exit(f'{self.path}: is not a regular file; give one')
        with open(self.path, 'rb') as file:
            content = gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == b'\x1f\x8b' else file
            for self.line, line in enumerate(iter(lambda: content.readline(LINE_MOST), b''), 1):
                if line.endswith(b'\n'):
                    self.take(line)
                elif self.line == 1 or len(line) == LINE_MOST:
                    self.refuse(f'is no line of at most {LINE_MOST} bytes')
                if content.tell() > LOG_MOST:
                    self.refuse(f'found more than {LOG_MOST} bytes, expected at most as many')

    def refuse(self, found):
        sys.exit(f'{self.path}: line {self.line}: {found}; give a file that tutti-train --json wrote')

    def take(self, line):
        try:
            event = json.loads(line.decode(), parse_int=float)
        except (ValueError, RecursionError):
            self.refuse('is not JSON')
        kind = event.get('event') if isinstance(event, dict) else None
        if not isinstance(kind, str):
            self.refuse('found an object without "event"')
        if not self.start and kind != 'start':
            self.refuse('found another event than start')
        if kind == 'start' and self.start or kind == 'end' and self.end:
            self.refuse(f'found a second {kind}')
        for key, (expected, is_right) in FIELDS.get(kind, {}).items():
            if not is_right(value := event.get(key)):
                found = f'no "{key}"' if value is None else f'"{key}": {reprlib.repr(value)}'
                self.refuse(f'found {found}, expected {expected}')
        if kind in ('start', 'end'):
            setattr(self, kind, {key: event.get(key) for key in FIELDS[kind]})
        elif kind == 'epoch':
            self.epochs.append((event['seconds'], event['train_loss']))
            self.accuracy = event['test_accuracy']
        elif kind == 'loss':
            self.losses.append(event['seconds'])


# ---- the table, and what makes it mislead

LINE = '{:<{width}} {:>5} {:<10.10} {:<20.20} {:>10} {:>10} {:>8} {:>9} {:>9} {:>8} {:>8} {:>4}'


def print_table(logs):
    alone = {log.same['model']: log.end['samples_per_s'] for log in logs[::-1] if log.end and log.ranks == 1}
    rows = ['log,ranks,way,carried by,samples/s,efficiency,blocked,MB/step,loss,accuracy,seconds,lost'.split(',')]
    for log in logs:
        how = '-', 'unfinished', '-', '-', '-'
        if log.end:
            speed, by_one = log.end['samples_per_s'], alone.get(log.same['model'])
            how = (printable(f'{log.end["algorithm"]}/{log.end["transports"]}' if log.end['algorithm'] else '-'),
                   f'{speed:.0f}', f'{speed / by_one / log.ranks:.2f}' if by_one else '-',
                   f'{log.end["blocked_share"]:.1%}', f'{log.sent:.3f}')
        (seconds, loss), accuracy = log.epochs[-1], '-' if log.accuracy is None else f'{log.accuracy:.4f}'
        rows.append([log.name, log.ranks, log.way, *how, f'{loss:.4g}', accuracy, f'{seconds:.2f}', len(log.losses)])
    for row in rows:
        print(LINE.format(*row, width=max(20, *(len(log.name) for log in logs))))


def print_differences(logs):
    for what in 'data', 'batch', 'model':
        names = {}
        for log in logs:
            names.setdefault(log.same[what], []).append(log.name)
        del names[logs[0].same[what]][1:]   # the first stands for those that are like it
        if len(names) > 1:
            said = ', '.join(f'{value} in {" and ".join(of)}' for value, of in names.items())
            print(f'not the same {what}: {said}; speeds and losses do not compare')


# ---- the picture: graphs that have something to show, two in a row; a log has the same colour in all of them

def numbers_of(log, i):
    """What is drawn of a log: lines of numbers, by a name."""
    each = log.sent * log.end['steps'] / len(log.epochs) if log.end else float('nan')
    yield 'loss', [(seconds, each * epoch, epoch, max(loss, LOSS_LEAST))
                   for epoch, (seconds, loss) in enumerate(log.epochs, 1)]
    yield 'lost', [(seconds, log.epochs[0][1]) for seconds in log.losses]
    if log.end:
        ms = 1e3 * log.end['seconds'] / log.end['steps']
        yield 'time', [(i, ms, ms * (1 - log.end['blocked_share']))]
        yield 'bytes', [(i, log.sent + log.received, log.sent)]
        yield 'stale', list(enumerate(log.end['staleness'] or []))


def graphs_of(logs):
    """Title, labels, settings, and which numbers are drawn how."""
    sent = [log.sent for log in logs if log.end]
    bytes_differ = any(sent) and (len(sent) == 1 or len(set(sent)) > 1)     # bars of one height tell nothing
    bars = f'set yrange [0:*]; set xrange [0.3:{len(logs)}.7]; unset xtics; set style fill solid 0.9; set boxwidth 0.8'
    pale, full = 'using 1:2 with boxes fs solid 0.35', 'using 1:3 with boxes'
    curve, losses = 'set logscale y; set yrange [*:*]; set xrange [*:*]', 'training loss (cross-entropy)'
    if sent:
        yield 'Time of a step', '', 'ms (pale: blocked, in the mean of ranks)', bars, [('time', pale), ('time', full)]
    if bytes_differ:
        yield ('Bytes of a step of the busiest rank', '', 'MB at least (pale: received)', bars,
               [('bytes', pale), ('bytes', full)])
    if any(len(log.epochs) > 1 for log in logs):
        crosses = ' (a cross: ranks were lost)' if any(log.losses for log in logs) else ''
        yield ('Loss over time', f'seconds{crosses}', losses, curve,
               [('loss', 'using 1:4 with lines lw 2'), ('lost', 'with points pt 2 ps 1.5')])
        over, label, column = (('bytes', 'MB that the rank which sent most has sent, at least', 2) if bytes_differ else
                               ('epochs', 'epoch', 3))
        yield f'Loss over {over}', label, losses, curve, [('loss', f'using {column}:4 with lines lw 2')]
    if any(log.end and log.end['staleness'] for log in logs):
        yield ('Age of gradients', 'updates since their weights', 'how many', 'set yrange [0:*]; set xrange [-0.5:*]',
               [('stale', 'with histeps lw 2')])


def draw(logs, path, origin):
    script, drawn, place = [], collections.defaultdict(list), -1
    for i, log in enumerate(logs, 1):
        for name, lines in numbers_of(log, i):
            drawn[name] += [i] * bool(lines)
            lines = lines[::-max(1, len(lines) // POINTS_MOST)][::-1]   # the last one stays
            script += [f'${name}{i} << END', *(' '.join(f'{number:.9g}' for number in line) for line in lines), 'END']
    for place, (title, xlabel, ylabel, settings, styles) in enumerate(graphs_of(logs)):
        top = place // 2 * ROW
        script += [f'eval graph({place % 2}, 2, {top + ABOVE}, {top + ROW - BELOW})',
                   f"unset logscale y; set format y '%g'; set xtics auto; {settings}",
                   f"set title '{title}'; set xlabel '{xlabel}'; set ylabel '{ylabel}'",
                   'plot ' + ', '.join(f'${name}{i} {style} lt {i} notitle' for name, style in styles for i in drawn[name])]
    if place < 0:
        sys.exit('--plot: found one epoch in each log and no end, expected more to draw; let the trainings go on')
    differ = [what for what in ('batch', 'model') if len({log.same[what] for log in logs}) > 1]
    legend = [', '.join([f'{log.name}: {log.way}', f'{log.ranks} rank{"s" * (log.ranks > 1)}',
                         *(f'{what} {log.same[what]}' for what in differ)]) for log in logs]
    write_picture(path, 'tutti-train: ways to train together', origin, dict(zip(legend, range(1, len(logs) + 1))),
                  (place // 2 + 1) * ROW, script)


# ---- the command line

class Parser(argparse.ArgumentParser):
    """Of the options that a command takes itself. Its other words are logs, or options of trainings."""

    def __init__(self, command, *about):
        super().__init__(f'tutti-train {command}', argparse.SUPPRESS, *about, allow_abbrev=False,
                         formatter_class=argparse.RawDescriptionHelpFormatter)
        self.add_argument('--plot', metavar='FILE', type=picture_name, action='append', default=[],
                          help='a picture, .svg or .png: loss over seconds and over bytes that a rank sent, time and bytes of '
                               'a step, ages of gradients')

    def error(self, message):
        message = message.removeprefix('argument ').replace(': expected one argument', ' needs a value')
        self.exit(2, f'{self.prog}: {printable(message)}; see {self.prog} --help\n')


def identity(path):
    """Equal for two names of a file, which may not be there yet."""
    try:
        return os.stat(path)[1:3]
    except OSError:
        return os.path.realpath(path)


def check_distinct(inputs, outputs):
    """Of pairs: what names a file, and the file. No output may be a file that is read, or another output."""
    names = {identity(path): name for name, path in inputs}
    for name, path in outputs:
        if identity(path) in names:
            sys.exit(f'{name}: found {path}, the file of {names[identity(path)]}, which would be overwritten; '
                     'expected a file of its own: give another name')
        names[identity(path)] = name


def did_you_mean(word, names):
    near = difflib.get_close_matches(word, names, 1)
    return f' (did you mean {near[0]}?)' if near else ''


def show(paths, pictures, origin):
    logs = [Log(path) for path in paths]
    stems = [os.path.splitext(os.path.basename(path))[0] for path in paths]
    for log, stem in zip(logs, stems):
        name = printable(stem if stems.count(stem) == 1 else log.path)
        log.name = name if len(name) <= NAME_MOST else '…' + name[1 - NAME_MOST:]
    print_table(logs)
    print_differences(logs)
    for path in pictures:
        draw(logs, path, origin)


def report(words, _, origin):
    parser = Parser('report', f"""\
Usage: tutti-train report LOG... [--plot FILE]...
Compare trainings by the logs that --json wrote, up to {LOGS_MOST} of them.""", """\
Logs of different data, batches or models are named: their speeds and losses do not compare.
Efficiency is samples per second over those of a log with one rank, on as many weights of
the same type, times the ranks.

Exit status: 0; 1 if a log cannot be read or the picture not written, 2 if the command line is wrong.""")
    options, paths = parser.parse_known_args(words)
    for word in (path.partition('=')[0] for path in paths if path.startswith('-')):
        parser.error(f'unknown option {word}{did_you_mean(word, ["--plot", "--help"])}')
    if not 1 <= len(paths) <= LOGS_MOST:
        parser.error(f'found {len(paths)} logs, expected 1 to {LOGS_MOST}')
    check_distinct([('a log', path) for path in paths], [('--plot', path) for path in options.plot])
    show(paths, options.plot, origin)


# ---- trainings one after the other

def modes_of(text):
    """Names of ways, each with its options, which are for the training to judge. A comma or a plus that no letter follows
    belongs to a value."""
    modes = {mode: re.split(r'\+(?=[a-z])', mode) for mode in re.split(',(?=[a-z])', text)}
    for mode, (name, *own) in modes.items():
        if name not in TOGETHER + CUT:
            raise argparse.ArgumentTypeError(f"found '{mode}'{did_you_mean(name, TOGETHER + CUT)}, expected names of --sync, "
                                             'pipeline or tensor, with commas between them, such as allreduce,local+every=5')
        if any(EACH_ITS_OWN.match(f'--{option}') for option in own):
            raise argparse.ArgumentTypeError(f"found '{mode}', expected other options behind the +")
    if len(modes) > LOGS_MOST or len(','.join(modes)) < len(text):
        raise argparse.ArgumentTypeError(f"found '{text}', expected at most {LOGS_MOST} ways, each once")
    return modes


def ranks_of(text):
    if not (text.isdecimal() and len(text) < 9 and 1 <= int(text) <= RANKS_MOST):
        raise argparse.ArgumentTypeError(f"found '{text}', expected a whole number from 1 to {RANKS_MOST}")
    return int(text)


job, ended = None, []   # the training that runs, and signals that end this program


def end_by(number, _):
    """A training is a job, which ends its ranks; what this command made is removed then."""
    ended.append(number)
    if job:
        job.terminate()


def train(mode, command):
    global job
    with tempfile.TemporaryFile() as said, subprocess.Popen(command, stdout=said, stderr=said) as job:
        if ended:
            job.terminate()
        status = job.wait()
        if ended:
            sys.exit(128 + ended[0])
        if status:
            said.seek(0)
            sys.stderr.buffer.writelines(collections.deque(said, SAID_MOST))
            sys.exit(f'{mode}: the training failed, as said above')


def compare(words, program, origin):
    parser = Parser('compare', """\
Usage: tutti-train compare [--ranks N] [--modes MODE,MODE,...] [--plot FILE]... [--logs DIR]
                           --data FILE [OPTION]...
Train in each of several ways, one after the other, with the same options of tutti-train, and
compare the trainings as `tutti-train report` does.""",
                    'Exit status: 0; 1 if a training failed, 2 if the command line is wrong.')
    parser.add_argument('--ranks', metavar='N', type=ranks_of, default=2,
                        help='ranks that compute (2); ps and async have a server besides')
    parser.add_argument('--modes', metavar='MODE,...', type=modes_of, default=','.join(TOGETHER),
                        help='ways: names of --sync, pipeline or tensor, each with options after +, such as '
                             f'local+every=5+outer=nesterov,0.7,0.9 ({",".join(TOGETHER)})')
    parser.add_argument('--logs', metavar='DIR', help='keep the log of each training there, MODE.json (they are removed)')
    options, common = parser.parse_known_args(words)
    for word in filter(EACH_ITS_OWN.match, common):
        parser.error(f'found {word}, which the trainings cannot have in common; say ways by --modes, or leave it out')
    if not common:
        parser.error('found no options, expected --data FILE at least')
    beside = os.path.dirname(program)
    launcher = shutil.which('tutti-run', path=f'{beside}:{beside}/../tools/run')    # as it is installed, and as it is built
    if not launcher:
        sys.exit(f'found no tutti-run beside {program}; install both, or build the tools')
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, end_by)
    with tempfile.TemporaryDirectory(prefix='tutti-compare.') as temporary:
        directory = options.logs or temporary
        os.makedirs(directory, exist_ok=True)
        logs = {mode: os.path.join(directory, f'{mode}.json'.replace('/', '_')) for mode in options.modes}
        parts = [part for word in common for part in word.split('=', 1)]
        check_distinct(list(zip(parts, parts[1:])), # names of options and values, among others
                       [('--logs', log) for log in logs.values()] + [('--plot', path) for path in options.plot])
        for number, (mode, (name, *own)) in enumerate(options.modes.items(), 1):
            size = str(options.ranks + (name in WITH_SERVER))
            print(f'{number} of {len(logs)}: {mode} on {size} ranks', file=sys.stderr)
            train(mode, [launcher, '-n', size, '--no-label', '--', program, *common, '--json', logs[mode],
                         '--parallel' if name in CUT else '--sync', name, *(f'--{option}' for option in own)])
        show(list(logs.values()), options.plot, origin)


def main():
    program, origin, command, *words = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for stream in sys.stdout, sys.stderr:
        stream.reconfigure(errors='replace')
    status = 0
    for step in lambda: globals()[command](words, program, origin), sys.stdout.flush:
        try:
            step()
        except SystemExit as end:
            status = end.code
        except OSError as error:
            status = status or (f'cannot write {error.filename or "the standard output"}: {error.strerror}; '
                                'make space, or name another place')
    if isinstance(status, str):
        print(f'tutti-train {command}: {printable(status)}', file=sys.stderr)
        status = 1
    sys.stderr.flush()
    os._exit(status)    # what could not be written is not tried again


if __name__ == '__main__':
    main()
