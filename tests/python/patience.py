# SPDX-License-Identifier: BSD-3-Clause
"""How much time tests give what ends soon where nothing else runs; see tests/patience.h."""

from __future__ import annotations

import os

PATIENCE = max(1.0, float(os.environ.get("TEST_PATIENCE", 1)))


def bound_s(seconds: float) -> float:
    """The bound for what takes `seconds` at most where nothing else runs; meson ends a test after 180 s."""
    return min(seconds * PATIENCE, max(seconds, 100))
