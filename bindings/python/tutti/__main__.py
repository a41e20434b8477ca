# SPDX-License-Identifier: BSD-3-Clause
"""python -m tutti run|info|trace|bench|train ARGUMENTS...

`run` starts this Python where its program is a file that ends in .py:
python -m tutti run -n 4 prog.py
"""

from __future__ import annotations

import sys
from typing import List

from . import _programs


def _with_python(arguments: List[str]) -> List[str]:
    """Put the interpreter before the program, which is the first argument that ends in .py."""
    for place, argument in enumerate(arguments):
        if argument.endswith(".py"):
            before = arguments[:place]
            if "--" not in before:
                before.append("--")
            return [*before, sys.executable, *arguments[place:]]
        if argument == "--":
            rest = arguments[place + 1 : place + 2]
            if not rest or not rest[0].endswith(".py"):
                break
    return arguments


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in _programs.PROGRAMS:
        sys.exit(
            f"python -m tutti: found '{name}', expected one of: {' '.join(_programs.PROGRAMS)}"
        )
    arguments = sys.argv[2:]
    _programs.become(name, _with_python(arguments) if name == "run" else arguments)


main()
