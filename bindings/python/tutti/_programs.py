# SPDX-License-Identifier: BSD-3-Clause
"""The programs of tutti, which the package holds in bin/: the process becomes them."""

from __future__ import annotations

import os
import sys
from typing import List, NoReturn

PROGRAMS = ("run", "info", "trace", "bench", "train")


def directory() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")


def become(name: str, arguments: List[str]) -> NoReturn:
    """Replace this process by the program tutti-NAME."""
    program = os.path.join(directory(), "tutti-" + name)
    if not os.path.exists(program):
        sys.exit(
            f"tutti: found no {program}: this package was built without the program; install the "
            "libraries that it needs (docs/guide/start.md) and build the package again"
        )
    if sys.stdout:  # it may be closed
        sys.stdout.flush()
    os.execv(program, ["tutti-" + name, *arguments])


def run() -> NoReturn:
    become("run", sys.argv[1:])


def info() -> NoReturn:
    become("info", sys.argv[1:])


def trace() -> NoReturn:
    become("trace", sys.argv[1:])


def bench() -> NoReturn:
    become("bench", sys.argv[1:])


def train() -> NoReturn:
    become("train", sys.argv[1:])
