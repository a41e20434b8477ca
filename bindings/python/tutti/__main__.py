# SPDX-License-Identifier: BSD-3-Clause
"""python -m tutti run|info|trace|bench|train ARGUMENTS...

`run` starts a program that ends in .py by this Python:
python -m tutti run -n 4 prog.py
"""

from __future__ import annotations

import sys

from . import __version__, _programs


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in ("-h", "--help"):
        print(__doc__)
        return
    if name in ("-V", "--version"):
        print(f"tutti {__version__}")
        return
    if name not in _programs.PROGRAMS:
        expected = " ".join(_programs.PROGRAMS)
        print(f"python -m tutti: found '{name}', expected one of: {expected}", file=sys.stderr)
        sys.exit(2)
    options = ["--python", sys.executable] if name == "run" and sys.executable else []
    _programs.become(name, [*options, *sys.argv[2:]])


main()
