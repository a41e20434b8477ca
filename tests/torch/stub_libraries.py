#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes libraries in place of those of NVIDIA's that a PyTorch from PyPI is linked to, which are gigabytes.

    stub_libraries.py DIR       DIR: that of PyTorch's libraries (torch/lib), which gets them

PyTorch then loads, and finds no GPU: each function returns cudaErrorNoDevice. Needs cc and readelf.
"""
from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

NO_DEVICE = 100
OF_NVIDIA = re.compile(r'lib(cu|nv|nccl)')
UNVERSIONED = re.compile(r'(cu[A-Z]|cusparseLt|nccl|nvshmem|nvtx)')    # their names, where symbols have no version
NEEDED = re.compile(r'\(NEEDED\).*\[(.+)\]')
SYMBOL = re.compile(r'^ *\d+: \w+ +\S+ \w+ +(?:GLOBAL|WEAK) +DEFAULT +(UND|\d+) ([^@\s]+)(?:@+(\S+))?', re.MULTILINE)
FUNCTION = '.globl {0}\n.type {0},@function\n{0}: mov ${1}, %eax\n ret\n'


def readelf(option: str, path: Path) -> str:
    return subprocess.run(['readelf', '--wide', option, str(path)], check=True, capture_output=True, text=True).stdout


def versions_of(path: Path) -> dict[str, str]:
    """The versions of symbols that a library needs, and of which library each is."""
    found, file = {}, ''
    for kind, name in re.findall(r'(File|Name): (\S+)', readelf('--version-info', path)):
        if kind == 'File':
            file = name
        else:
            found[name] = file
    return found


def write_stub(path: Path, functions: dict[str, set[str]]) -> None:
    """A library with these functions, which are given for each version; '' is none."""
    source, script = path.with_suffix('.s'), path.with_suffix('.map')
    source.write_text('.text\n.section .note.GNU-stack,"",@progbits\n.text\n' +
                      ''.join(FUNCTION.format(name, NO_DEVICE) for names in functions.values() for name in sorted(names)))
    script.write_text(''.join(f'{version} {{ global: {" ".join(f"{name};" for name in sorted(names))} }};\n'
                              for version, names in functions.items() if version))
    subprocess.run(['cc', '-shared', '-nostdlib', f'-Wl,-soname,{path.name}', str(source), '-o', str(path),
                    *([f'-Wl,--version-script={script}'] if script.stat().st_size else [])], check=True)
    source.unlink()
    script.unlink()


def main(directory: Path) -> None:
    present = sorted(directory.glob('*.so*'))
    needed: set[str] = set()
    defined: set[str] = set()
    undefined: dict[str, set[str]] = defaultdict(set)   # of each version
    file_of: dict[str, str] = {}
    for path in present:
        needed.update(NEEDED.findall(readelf('--dynamic', path)))
        file_of.update(versions_of(path))
        for where, name, version in SYMBOL.findall(readelf('--dyn-syms', path)):
            (undefined[version] if where == 'UND' else defined).add(name)
    plain = {name for name in undefined[''] - defined if UNVERSIONED.match(name)}
    for name in sorted(needed - {path.name for path in present}):
        if OF_NVIDIA.match(name):
            versioned = {version: undefined[version] for version, file in file_of.items() if file == name}
            write_stub(directory / name, versioned or {'': plain})


main(Path(sys.argv[1]))
