# SPDX-License-Identifier: BSD-3-Clause
"""Owns the comparison of trainings by their logs: a table, what it is not to be misread for, and a picture.

compare.c runs it as `python3 -IB compare.py PROGRAM ORIGIN report|compare WORD...`, with the path of tutti-train and the
small print of pictures."""
import collections
import contextlib
import difflib
import gzip
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from pictures import write_picture  # noqa: E402

LOGS_MOST = 14      # that colours and markers tell apart
LOG_MOST = 1 << 28  # bytes
NAME_MOST = 40
RANKS_MOST = 1024
SAID_MOST = 2048    # bytes of what a training said that are shown
TOGETHER = ('allreduce', 'zero1', 'local', 'ps', 'async')   # names of --sync
CUT = ('pipeline', 'tensor')                                # and of --parallel
WITH_SERVER = ('ps', 'async')
EACH_ITS_OWN = ('--sync', '--parallel', '--json', '--save', '--resume', '--predict', '--version')
ROW, ABOVE, BELOW = 310, 30, 46     # pixels

USAGE = {'report': f"""\
Usage: tutti-train report LOG... [--plot FILE]...
Compare trainings by the logs that --json wrote, up to {LOGS_MOST} of them.

      --plot FILE      loss over seconds and over bytes that a rank sent, time and bytes of a
                       step, ages of gradients; .svg or .png
  -h, --help           this text

Logs of different data, batches or models are named: their speeds and losses do not compare.
Efficiency is samples per second over those of a log with one rank, on as many weights of
the same type, times the ranks.

Exit status: 0; 1 if a log cannot be read or the picture not written, 2 if the command
line is wrong.
""", 'compare': f"""\
Usage: tutti-train compare [--ranks N] [--modes MODE,MODE,...] [--plot FILE]... [--logs DIR]
                           --data FILE [OPTION]...
Train in each of several ways, one after the other, with the same options of tutti-train, and
compare the trainings as `tutti-train report` does.

  --ranks N     ranks that compute (2); ps and async have a server besides
  --modes M,... ways: names of --sync, pipeline or tensor, each with options after +, such as
                local+every=5 ({','.join(TOGETHER)})
  --plot FILE   a picture, .svg or .png
  --logs DIR    keep the log of each training there, MODE.json (they are removed)

Exit status: 0; 1 if a training failed, 2 if the command line is wrong.
"""}


class Wrong(Exception):
    """The command line is. All other failures are sys.exit(WHY)."""


def printable(text):
    """What a terminal shows, and does not act on."""
    return ''.join(character if character.isprintable() else '?' for character in text)


# ---- a log

def read(path):
    """A regular file, of which there is an end. It may be compressed."""
    if os.path.exists(path) and not os.path.isfile(path):
        sys.exit(f'{path}: is not a regular file; give one')
    try:
        with open(path, 'rb') as file:
            content = (gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == b'\x1f\x8b' else file).read(LOG_MOST + 1)
    except (OSError, EOFError, zlib.error) as error:
        sys.exit(f'{path}: cannot be read: {getattr(error, "strerror", None) or error}; '
                 'give a file that exists and can be read')
    if len(content) > LOG_MOST:
        sys.exit(f'{path}: found more than {LOG_MOST} bytes, expected at most as many; give the log of a training')
    return content


def unique(pairs):
    if len(dict(pairs)) < len(pairs):
        raise ValueError('a key comes twice')
    return dict(pairs)


class Log:
    """It may end early, as that of a training that was killed or still runs; but what there is has to be a log's."""

    def __init__(self, path):
        self.path, self.line, self.started, self.ended = path, 1, False, False
        self.epochs, self.losses, self.staleness = [], [], []   # seconds and loss; seconds of a loss of ranks; counts
        *lines, half = read(path).split(b'\n')
        if half and not lines:
            self.refuse('is no line')
        for self.line, line in enumerate(lines, 1):
            self.take(line)
        if not self.epochs:
            sys.exit(f'{path}: found no epoch, expected one at least; let the training go on')

    def refuse(self, found):
        sys.exit(f'{self.path}: line {self.line}: {found}; give a file that tutti-train --json wrote')

    def real(self, event, key, low=0):
        """A finite number from `low` on."""
        value = event.get(key) if isinstance(event, dict) else None
        try:
            if not isinstance(value, bool) and math.isfinite(value) and value >= low:
                return float(value)
        except (TypeError, OverflowError):
            pass
        return self.refuse(f'found no "{key}" that is a number from {low} on')

    def maybe(self, event, key):
        """The same, or null: without validation."""
        return None if event.get(key, self) is None else self.real(event, key)

    def text(self, event, key):
        if not isinstance(event.get(key), str):
            self.refuse(f'found no "{key}" that is a text')
        return printable(event[key])

    def take(self, line):
        try:
            event = json.loads(line.decode(), object_pairs_hook=unique)
        except (ValueError, RecursionError):
            self.refuse('is not JSON')
        kind = event.get('event') if isinstance(event, dict) else None
        if not isinstance(kind, str):
            self.refuse('found an object without "event"')
        if not self.started and kind != 'start':
            self.refuse('found another event than start')
        if kind == 'start' and self.started or kind == 'end' and self.ended:
            self.refuse(f'found a second {kind}')
        if kind == 'start':
            self.take_start(event)
        elif kind == 'epoch':
            self.take_epoch(event)
        elif kind == 'loss':
            self.losses.append(self.real(event, 'seconds'))
        elif kind == 'end':
            self.take_end(event)

    def take_start(self, event):
        self.started = True
        cut = [way for key, way in (('stages', 'pipeline'), ('ways', 'tensor'))
               if key in event and self.real(event, key) > 1]   # older logs have neither
        self.way = 'grid' if len(cut) == 2 else cut[0] if cut else self.text(event, 'sync')
        self.ranks, batch, weights, samples = (
            int(self.real(event, key, 1)) for key in ('ranks', 'batch', 'parameters', 'train_samples'))
        self.same = {'data': f'{samples} samples of {os.path.basename(self.text(event, "data"))}', 'batch': f'{batch} samples',
                     'model': f'{weights} weights of {self.text(event, "dtype")}'}

    def take_epoch(self, event):
        self.maybe(event, 'test_loss')
        self.accuracy = self.maybe(event, 'test_accuracy')
        self.epochs.append((self.real(event, 'seconds'), self.real(event, 'train_loss')))

    def take_end(self, event):
        self.ended = True
        self.seconds, self.speed, self.blocked, sent, begun = (
            self.real(event, key) for key in ('seconds', 'samples_per_s', 'blocked_share', 'sent_bytes', 'steps_begun'))
        self.steps = self.real(event, 'steps', 1)
        algorithm, transports = self.text(event, 'algorithm'), self.text(event, 'transports')
        self.carried = f'{algorithm}/{transports}' if algorithm else '-'
        ranks = event.get('each_rank', [])  # older logs have no such lists
        received = max((self.real(rank, 'received') for rank in ranks), default=0) if isinstance(ranks, list) else 0
        # MB in a step; a training that was resumed has begun only some of its steps
        self.sent, self.received = (1e-6 * bytes_ / begun if begun else 0 for bytes_ in (sent, received))
        self.staleness = event.get('staleness', [])
        if not isinstance(self.staleness, list) or not all(type(n) is int and n >= 0 for n in self.staleness):
            self.refuse('found a "staleness" that is no list of counts')


def read_all(paths):
    """Logs with names: that of the file, unless several files have it."""
    logs = [Log(path) for path in paths]
    stems = {path: os.path.splitext(os.path.basename(path))[0] for path in paths}
    times = collections.Counter(stems.values())
    for log in logs:
        stem = stems[log.path]
        log.name = printable(stem if times[stem] == 1 else log.path)
        if len(log.name) > NAME_MOST:
            log.name = '…' + log.name[1 - NAME_MOST:]
    return logs


# ---- the table, and what makes it mislead

def print_table(logs):
    width = max(20, *(len(log.name) for log in logs))
    print(f'{"log":<{width}} {"ranks":>5} {"way":<10} {"carried by":<20} {"samples/s":>10} {"efficiency":>10} '
          f'{"blocked":>8} {"MB/step":>9} {"loss":>9} {"accuracy":>8} {"seconds":>8} {"lost":>4}')
    for log in logs:
        carried, speed, efficiency, blocked, sent = '-', 'unfinished', '-', '-', '-'
        if log.ended:
            carried, speed, blocked, sent = log.carried, f'{log.speed:.0f}', f'{log.blocked:.1%}', f'{log.sent:.3f}'
            alone = [other.speed for other in logs if other.ended and other.ranks == 1 and other.speed > 0 and
                     other.same['model'] == log.same['model']]
            efficiency = f'{log.speed / alone[0] / log.ranks:.2f}' if alone else '-'
        seconds, loss = log.epochs[-1]
        accuracy = '-' if log.accuracy is None else f'{log.accuracy:.4f}'
        print(f'{log.name:<{width}} {log.ranks:5d} {log.way:<10.10} {carried:<20.20} {speed:>10} {efficiency:>10} '
              f'{blocked:>8} {sent:>9} {loss:9.4g} {accuracy:>8} {seconds:8.2f} {len(log.losses):4d}')


def print_differences(logs):
    for what in 'data', 'batch', 'model':
        names = {logs[0].same[what]: {logs[0].name: None}}  # the first stands for those that are like it
        for log in logs:
            if log.same[what] != logs[0].same[what]:
                names.setdefault(log.same[what], {})[log.name] = None
        if len(names) > 1:
            said = ', '.join(f'{value} in {" and ".join(of)}' for value, of in names.items())
            print(f'not the same {what}: {said}; speeds and losses do not compare')


# ---- the picture: graphs that have something to show, two in a row; a log has the same colour in all of them

def blocks(logs):
    """Of each log: seconds, MB that a rank has sent, epoch, loss; when ranks were lost; ages of gradients."""
    for i, log in enumerate(logs, 1):
        each = log.sent * log.steps / len(log.epochs) if log.ended else math.nan
        yield from [f'$log{i} << END', *(f'{seconds:.9g} {each * epoch:.9g} {epoch} {loss:.9g}'
                                         for epoch, (seconds, loss) in enumerate(log.epochs, 1)), 'END']
        yield from [f'$lost{i} << END', *(f'{seconds:.9g}' for seconds in log.losses), 'END']
        yield from [f'$stale{i} << END', *(f'{age} {count}' for age, count in enumerate(log.staleness)), 'END']


def curves(logs, title, label, column):
    drawn = [f'$log{i} using {column}:4 with lines lw 2 lt {i} notitle' for i in range(1, len(logs) + 1)]
    if column == 1:
        drawn += [f'$lost{i} using 1:({log.epochs[0][1]:.9g}) with points pt 2 ps 1.5 lt {i} notitle'
                  for i, log in enumerate(logs, 1) if log.losses]
    return ['set logscale y', "set format y '%g'", 'set yrange [*:*]', 'set xrange [*:*]', 'set xtics auto',
            f"set title '{title}'", f"set xlabel '{label}'", "set ylabel 'training loss (cross-entropy)'",
            f'plot {", ".join(drawn)}']


def bars(logs, title, label, heights_of):
    """Of each log that has ended a pale one, and one in front of it."""
    drawn = [f"'+' every ::0::0 using ({i}):({height:.9g}) with boxes lt {i} {style} notitle"
             for i, log in enumerate(logs, 1) if log.ended
             for height, style in zip(heights_of(log), ('fs solid 0.35', '')) if height > 0]
    return ['unset logscale y', "set format y '%g'", 'set yrange [0:*]', f'set xrange [0.3:{len(logs)}.7]', 'unset xtics',
            'set style fill solid 0.9', 'set boxwidth 0.8', f"set title '{title}'", "set xlabel ''", f"set ylabel '{label}'",
            f'plot {", ".join(["NaN notitle", *drawn])}']


def ages(logs):
    drawn = [f'$stale{i} using 1:2 with histeps lw 2 lt {i} notitle' for i, log in enumerate(logs, 1) if log.staleness]
    return ['unset logscale y', 'set yrange [0:*]', 'set xrange [-0.5:*]', 'set xtics auto', "set title 'Age of gradients'",
            "set xlabel 'updates since their weights'", "set ylabel 'how many'", f'plot {", ".join(drawn)}']


def graphs_of(logs):
    sent = [log.sent for log in logs if log.ended]
    bytes_differ = any(sent) and (len(sent) == 1 or len(set(sent)) > 1)     # bars of one height tell nothing
    graphs = []
    if sent:
        graphs.append(bars(logs, 'Time of a step', 'ms (pale: blocked, in the mean of ranks)', lambda log: (
            1e3 * log.seconds / log.steps, 1e3 * log.seconds / log.steps * (1 - log.blocked))))
    if bytes_differ:
        graphs.append(bars(logs, 'Bytes of a step of the busiest rank', 'MB at least (pale: received)', lambda log: (
            log.sent + log.received, log.sent)))
    if any(len(log.epochs) > 1 for log in logs):
        crosses = ' (a cross: ranks were lost)' if any(log.losses for log in logs) else ''
        graphs.append(curves(logs, 'Loss over time', f'seconds{crosses}', 1))
        graphs.append(curves(logs, 'Loss over bytes', 'MB that the rank which sent most has sent, at least', 2)
                      if bytes_differ else curves(logs, 'Loss over epochs', 'epoch', 3))
    if any(log.staleness for log in logs):
        graphs.append(ages(logs))
    return graphs


def legend_of(logs):
    """What tells the logs apart, as words, which double quotes would cut up."""
    differ = [what for what in ('batch', 'model') if len({log.same[what] for log in logs}) > 1]
    names = [', '.join([f'{log.name}: {log.way}', f'{log.ranks} rank{"s" * (log.ranks > 1)}',
                        *(f'{what} {log.same[what]}' for what in differ)]) for log in logs]
    return {name.replace('"', "'"): i for i, name in enumerate(names, 1)}


def draw(logs, path, origin):
    graphs, script = graphs_of(logs), list(blocks(logs))
    if not graphs:
        sys.exit('--plot: found one epoch in each log and no end, expected more to draw; let the trainings go on')
    for place, graph in enumerate(graphs):
        top = place // 2 * ROW
        script += [f'eval graph({place % 2}, 2, {top + ABOVE}, {top + ROW - BELOW})', *graph]
    write_picture(path, 'tutti-train: ways to train together', origin, legend_of(logs), (len(graphs) + 1) // 2 * ROW, script)


# ---- the command line

def take_options(words, names):
    """The values of the options with these names, in lists, and the other words in their order."""
    options, others, words = {name: [] for name in names}, [], iter(words)
    for word in words:
        name, equals, value = word.partition('=')
        if name in names:
            options[name].append(value if equals else next(words, ''))
        else:
            others.append(word)
    for name in names:
        if '' in options[name]:
            raise Wrong(f'{name} needs a value')
    check_pictures(options.get('--plot', []))
    return options, others


def check_pictures(paths):
    """Before anything is done for them."""
    for path in paths:
        if os.path.splitext(path)[1] not in ('.svg', '.png'):
            raise Wrong(f"--plot: found '{path}', expected a file name that ends in .svg or .png")
        if not shutil.which('gnuplot'):
            sys.exit('--plot: gnuplot was not found in PATH; install it (Debian: gnuplot-nox) or leave out --plot')
        if not os.access(os.path.dirname(path) or '.', os.W_OK | os.X_OK):
            sys.exit(f'--plot: {path} cannot be written; give a file in a directory that exists and can be written')


def is_same_file(one, other):
    try:
        return os.path.samefile(one, other)
    except OSError:     # one is not there yet
        return os.path.realpath(one) == os.path.realpath(other)


def check_distinct(inputs, outputs):
    """Of pairs: what names a file, and the file. No output may be a file that is read, or another output."""
    for number, (name, path) in enumerate(outputs):
        for other_name, other in inputs + outputs[:number]:
            if is_same_file(path, other):
                sys.exit(f'{name}: found {path}, the file of {other_name}, which would be overwritten; expected a file '
                         'of its own: give another name')


def did_you_mean(word, names):
    near = difflib.get_close_matches(word, names, 1)
    return f' (did you mean {near[0]}?)' if near else ''


def show(paths, pictures, origin):
    logs = read_all(paths)
    print_table(logs)
    print_differences(logs)
    for path in pictures:
        draw(logs, path, origin)


def report(words, origin):
    options, paths = take_options(words, ['--plot'])
    for word in (path.partition('=')[0] for path in paths if path.startswith('-')):
        raise Wrong(f'unknown option {word}{did_you_mean(word, ["--plot", "--help"])}')
    if not 1 <= len(paths) <= LOGS_MOST:
        raise Wrong(f'found {len(paths)} logs, expected 1 to {LOGS_MOST}')
    check_distinct([('a log', path) for path in paths], [('--plot', path) for path in options['--plot']])
    show(paths, options['--plot'], origin)


# ---- trainings one after the other

def is_own(word):
    return word.partition('=')[0] in EACH_ITS_OWN


def modes_of(text):
    """What follows a way's name is for the training to judge."""
    modes = text.split(',')
    expected = (f'expected at most {LOGS_MOST} names of --sync, pipeline or tensor, with commas between them, '
                'such as allreduce,local+every=5')
    for mode in modes:
        name, *options = mode.split('+')
        if name not in TOGETHER + CUT:
            raise Wrong(f"--modes: found '{mode}'{did_you_mean(name, TOGETHER + CUT)}, {expected}")
        if '/' in mode or len(modes) > LOGS_MOST:
            raise Wrong(f"--modes: found '{text}', {expected}")
        if any(is_own(f'--{option}') for option in options):
            raise Wrong(f"--modes: found '{mode}', expected other options behind the +")
    if len(set(modes)) < len(modes):
        raise Wrong(f"--modes: found '{text}', expected each way once")
    return modes


def ranks_of(text):
    if not (text.isdecimal() and len(text) < 9 and 1 <= int(text) <= RANKS_MOST):
        raise Wrong(f"--ranks: found '{text}', expected a whole number from 1 to {RANKS_MOST}")
    return int(text)


def launcher_of(program):
    """Where both are installed, or where they were built."""
    for place in 'tutti-run', '../tools/run/tutti-run':
        launcher = os.path.join(os.path.dirname(program), place)
        if os.access(launcher, os.X_OK):
            return launcher
    return sys.exit(f'found no tutti-run beside {program}; install both, or build the tools')


class Ended(Exception):
    """By a signal, whose number it has."""


running, ended = [], []


def end_by(number, _):
    """The training that runs is a job, and ends its ranks; what this command made is removed then."""
    ended.append(number)
    for job in running:
        job.terminate()


def train(mode, command, out):
    with open(out, 'wb') as file, subprocess.Popen(command, stdout=file, stderr=file) as job:
        running[:] = [job]
        if ended:
            job.terminate()
        status = job.wait()
    if ended:
        raise Ended(ended[0])
    if status:
        with open(out, 'rb') as file:
            said = file.read()
        sys.stderr.buffer.write(said if len(said) < SAID_MOST else said[-SAID_MOST:].partition(b'\n')[2])
        sys.exit(f'{mode}: the training failed, as said above')


def compare(words, program, origin):
    options, common = take_options(words, ['--ranks', '--modes', '--plot', '--logs'])
    ranks = ranks_of((options['--ranks'] or ['2'])[-1])
    modes = modes_of((options['--modes'] or [','.join(TOGETHER)])[-1])
    for word in filter(is_own, common):
        raise Wrong(f'found {word}, which the trainings cannot have in common; say ways by --modes, or leave it out')
    if not common:
        raise Wrong('found no options, expected --data FILE at least')
    launcher = launcher_of(program)
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, end_by)
    with tempfile.TemporaryDirectory(prefix='tutti-compare.') as temporary:
        directory = (options['--logs'] or [temporary])[-1]
        os.makedirs(directory, exist_ok=True)
        logs = [os.path.join(directory, f'{mode}.json') for mode in modes]
        inputs, _ = take_options(common, ['--data', '--labels', '--test-data', '--test-labels'])
        check_distinct([(name, path) for name in inputs for path in inputs[name]],
                       [('--logs', log) for log in logs] + [('--plot', path) for path in options['--plot']])
        for number, (mode, log) in enumerate(zip(modes, logs), 1):
            name, *own = mode.split('+')
            size = str(ranks + (name in WITH_SERVER))
            print(f'{number} of {len(modes)}: {mode} on {size} ranks', file=sys.stderr)
            train(mode, [launcher, '-n', size, '--no-label', '--', program, *common, '--json', log,
                         '--parallel' if name in CUT else '--sync', name, *(f'--{option}' for option in own)],
                  os.path.join(temporary, 'said'))
        show(logs, options['--plot'], origin)


def run(program, origin, command, *words):
    """The exit status, and why."""
    try:
        if {'-h', '--help'} & set(words):
            print(USAGE[command], end='')
        elif command == 'compare':
            compare(words, program, origin)
        else:
            report(words, origin)
        sys.stdout.flush()
        return 0, None
    except Wrong as error:
        return 2, f'{error}; see tutti-train {command} --help'
    except Ended as end:
        return 128 + end.args[0], None
    except SystemExit as end:
        return 1, end.code
    except OSError as error:
        return 1, (f'cannot write {error.filename or "the standard output"}: {error.strerror}; '
                   'make space, or name another place')


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for stream in sys.stdout, sys.stderr:
        stream.reconfigure(errors='replace')
    status, why = run(*sys.argv[1:])
    if why:
        print(f'tutti-train {sys.argv[3]}: {printable(why)}', file=sys.stderr)
    with contextlib.suppress(OSError):  # a table stays, whatever came after it
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)    # what could not be written is not tried again


if __name__ == '__main__':
    main()
