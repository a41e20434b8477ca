#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The rooms of the library, held to the table in src/meson.build: an object uses those of its own room and of rooms
below it, and no cycle has more than eight objects.

Arguments: NAME=ARCHIVE for each room, lowest first, then --plug-ins, and NAME=ARCHIVE for each of these; a name may
come several times. A plug-in uses what is said below. The registry hands tables down: its symbols are everybody's."""
import pathlib
import subprocess
import sys
from collections import defaultdict

CYCLE_MOST = 8
PLUG_INS_USE = {
    'algorithms': {'plan'},  # schedule.c, which spi/schedule.h declares
    'transport': {'os', 'net'},
}


def symbols(archive):
    """{object: (defined, undefined)} of an archive."""
    objects = defaultdict(lambda: (set(), set()))
    name = None
    listing = subprocess.run(['nm', '-g', archive], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        if line.endswith('.o:'):
            name = pathlib.PurePath(line).name.removesuffix(':').removesuffix('.o').removesuffix('.c')
        elif line:
            kind, symbol = line.split()[-2:]
            objects[name][kind == 'U'].add(symbol)
    return objects


def cycles(edges):
    """Tarjan, SIAM J. Comput. 1(2), 1972: strongly connected components."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for to in edges[node]:
            if to not in index:
                visit(to)
            if to in stack:
                low[node] = min(low[node], low[to])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(stack[at:])
            del stack[at:]

    for node in list(edges):
        if node not in index:
            visit(node)
    return [component for component in found if len(component) > 1]


sys.setrecursionlimit(10000)
split = sys.argv.index('--plug-ins')
rooms = [argument.split('=', 1) for argument in sys.argv[1:split]]
plug_ins = [argument.split('=', 1) for argument in sys.argv[split + 1:]]
order = {name: place for place, (name, _) in enumerate(rooms)}  # a room may have several archives
home, uses = {}, {}
for name, archive in rooms + plug_ins:
    for member, (defined, undefined) in symbols(archive).items():
        uses[name, member] = undefined
        home.update({symbol: (name, member) for symbol in defined})

wrong, edges = [], defaultdict(set)
for user, undefined in uses.items():
    room = user[0]
    for symbol in sorted(undefined & home.keys()):
        other = home[symbol]
        if other == user:
            continue
        if other[0] != 'registry':
            edges[user].add(other)
        if other[0] in (room, 'registry') or room == 'registry':
            continue
        if room in order:
            allowed = other[0] in order and order[other[0]] < order[room]
        else:
            allowed = other[0] in PLUG_INS_USE.get(room, PLUG_INS_USE['transport'])
        if not allowed:
            wrong.append(f'{room}: {user[1]} uses {symbol} of {other[0]}: {other[1]}')

for line in wrong:
    print(f'{line}; a room uses only those below it (src/meson.build)')
components = sorted(cycles(edges), key=len, reverse=True)
for component in components:
    print(f'{len(component)} objects use each other:', *(f'{room}/{member}' for room, member in sorted(component)))
    if len(component) > CYCLE_MOST:
        wrong.append('cycle')
        print(f'that is a cycle of more than {CYCLE_MOST}')
print(f'{len(order)} rooms, {len({name for name, _ in plug_ins})} plug-ins, {len(uses)} objects, {sum(map(len, edges.values()))} uses of others')
sys.exit(1 if wrong or len(uses) < 100 else 0)
