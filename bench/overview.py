# SPDX-License-Identifier: BSD-3-Clause
"""What `bench/compare all` shows: of each collective, by transport and ranks, how many times as long
as tutti the fastest peer takes."""
import statistics

from machine import MACHINE, lower_quartile
from pictures import plotted, quoted, write_picture

DRAWN = ['all_reduce', 'reduce', 'broadcast', 'reduce_scatter', 'all_gather', 'all_to_all', 'gather', 'scatter']
LOOKS = {name: 1 + number for number, name in enumerate(DRAWN)}      # line types
BLOCK = 240                         # pixels of a graph


def best(series, size, runs=slice(None)):
    """The fastest of them at a size, in some of the runs; None: nobody got there."""
    there = [s for s in series if s.typical(size, runs) is not None and not s.wrong]
    return min(there, key=lambda s: s.typical(size, runs), default=None)


def fastest_peer(libraries, size, runs=slice(None)):
    return best([s for name, series in libraries.items() if name not in (*MACHINE, 'tutti', 'bound') for s in series],
                size, runs)


def ratio_of(libraries, size, runs=slice(None)):
    """The fastest peer's time over tutti's; None where there are not both."""
    peer, tutti = fastest_peer(libraries, size, runs), best(libraries.get('tutti', []), size, runs)
    return peer.typical(size, runs) / tutti.typical(size, runs) if peer and tutti else None


def sizes_of(libraries):
    return sorted({size for series in libraries.get('tutti', []) for size in series.times})


def is_decided(libraries, size):
    """Is one of the two faster in each half of the runs?"""
    halves = [ratio_of(libraries, size, slice(first, None, 2)) for first in (0, 1)]
    return None in halves or (halves[0] < 1) == (halves[1] < 1)


def all_decided(found):
    return all(is_decided(libraries, size) for libraries in found.values() for size in sizes_of(libraries))


def cells_of(libraries, columns):
    """By column. Blocks are whole elements: of 4 ranks 16 bytes are the least, and of 6 there are 48, not 64."""
    cells = {}
    for size in sizes_of(libraries):
        ratio = ratio_of(libraries, size)
        if ratio is not None:
            column = max((c for c in columns if c <= 1.5 * size), default=columns[0])
            cells[column] = (ratio, is_decided(libraries, size))
    return cells


def name_of(size):
    for unit in '', 'K', 'M':
        if size < 1024:
            return f'{size}{unit}'
        size //= 1024
    return f'{size}G'


def row(first, cells, columns):
    ratios = [ratio for ratio, _ in cells.values()]
    text = first + ''.join(
        f'{cells[c][0]:>6.2f}{" " if cells[c][1] else "?"}' if c in cells else f'{"-":>6} ' for c in columns)
    return text + f'{statistics.geometric_mean(ratios):>7.2f}{min(ratios):>7.2f}'


def show_machine(found):
    """How long a line, or a switch, took beside the runs."""
    seen = {}
    for (_, transport, _, ranks), libraries in found.items():
        for name in MACHINE.keys() & libraries.keys():
            seen[name, transport, ranks] = libraries[name][0].times
    for (name, transport, ranks), times in seen.items():
        values = [value for group in times.values() for value in group]
        if values:
            print(f'# {transport}, {ranks} ranks: {MACHINE[name]} took {lower_quartile(values):.2f} µs '
                  f'({min(values):.2f}–{max(values):.2f})')


def curves_of(found, place):
    """Ratios over sizes by collective, of a transport with its ranks."""
    curves = {}
    for name in DRAWN:
        libraries = found.get((name, *place), {})
        ratios = {size: ratio_of(libraries, size) for size in sizes_of(libraries)}
        curves[name] = {size: ratio for size, ratio in ratios.items() if ratio}
    return {name: points for name, points in curves.items() if points}


def ratio_axis(ratios):
    """Logarithmic, with 1 in it; the closer the ratios, the more marks."""
    values = [value for points in ratios.values() for value in points.values()]
    least, most = min(values + [0.8]) / 1.1, max(values + [1.5]) * 1.1
    powers = range(-8, 12, 1 if most / least < 200 else 2)
    factors = [1, 1.5] if most / least < 12 else [1]
    marks = [factor * 2.0 ** i for i in powers for factor in factors]
    texts = ', '.join(f'"{mark:g}" {mark:g}' for mark in marks if least <= mark <= most)
    return (f"set logscale y 2; set format y '%g'; set yrange [{least:.6g}:{most:.6g}]; "
            f'set ytics nomirror ({texts})')


def place_name(transport, memory, ranks):
    return f'{transport}, {ranks} ranks' + (', buffers of tutti_mem_alloc' if memory == 'tutti' else '')


def graph(number, place, curves):
    column, top = number % 2, number // 2 * BLOCK
    sizes = [size for points in curves.values() for size in points]
    return [f'eval graph({column}, 2, {top + 26}, {top + BLOCK - 48})', f'eval bytes({min(sizes)}.0, {max(sizes)}.0)',
            ratio_axis(curves), f'set title {quoted(place_name(*place))}', "set ylabel 'time ÷ that of tutti'",
            *plotted(f'd{number}', curves, LOOKS, '1 with lines lt 15 notitle, ')]


def plot(path, found, origin):
    places = list(dict.fromkeys(tuple(place) for _, *place in found))
    drawn = [(place, curves_of(found, place)) for place in places]
    drawn = [(place, curves) for place, curves in drawn if curves]
    script = [line for number, (place, curves) in enumerate(drawn) for line in graph(number, place, curves)]
    legend = {name: LOOKS[name] for name in DRAWN if any(name in curves for _, curves in drawn)}
    write_picture(path, 'the fastest peer', origin, legend, -(-len(drawn) // 2) * BLOCK, script)


def show(found, args, origin):
    """The table, and the picture; gives the exit status."""
    whole = [libraries for (name, *_), libraries in found.items() if name in ('all_reduce', 'broadcast')]
    columns = sorted({size for libraries in whole or found.values() for size in sizes_of(libraries)})
    print(f"\n# the fastest peer's time over tutti's, lower quartiles of {args.repetitions} runs; "
          '?: in one half of the runs the other one is faster')
    print(f'{"":<15}{"":<5}{"ranks":>6}' + ''.join(f'{name_of(c):>6} ' for c in columns) + f'{"mean":>7}{"least":>7}')
    ratios = []
    for (name, transport, memory, ranks), libraries in found.items():
        cells = cells_of(libraries, columns)
        if not cells:
            continue
        where = transport + ('*' if memory == 'tutti' else '')
        print(row(f'{name:<15}{where:<5}{ranks:>6}', cells, columns))
        ratios += cells.values()
    if any(memory == 'tutti' for _, _, memory, _ in found):
        print('# *: buffers of tutti_mem_alloc')
    show_machine(found)
    slower = sum(ratio < 1 and decided for ratio, decided in ratios)
    print(f'# slower than the fastest peer in {slower} of {len(ratios)} cells, not decided in '
          f'{sum(not decided for _, decided in ratios)}')
    if args.plot:
        plot(args.plot, found, origin)
    return 1 if any(s.end or s.wrong for libraries in found.values() for s in libraries.get('tutti', [])) else 0
