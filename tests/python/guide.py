# SPDX-License-Identifier: BSD-3-Clause
"""Programs of docs/guide/python.md."""

import pathlib
import re


def program_with(module):
    """The one that imports this module."""
    text = (pathlib.Path(__file__).parents[2] / "docs/guide/python.md").read_text()
    found = [p for p in re.findall(r"^```python\n(.*?)^```", text, re.S | re.M) if re.search(f"import .*{module}$", p, re.M)]
    assert len(found) == 1, f"{len(found)} programs of the guide import {module}, expected 1"
    return found[0]
