# SPDX-License-Identifier: BSD-3-Clause
"""What tutti raises. The text says what was found, what was expected, and what to do."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """Base of all errors of tutti.

    After any of them but Invalid, the communicator is revoked on all ranks: later calls raise the
    same error; shrink() makes a new one of those that are left.
    """

    rank: Optional[int] = None
    """The rank that the error is about, or None."""


class Invalid(Error, ValueError):
    """An argument is wrong. Nothing was sent, and the communicator is as before."""


class Mismatch(Error):
    """Ranks called different operations; the text names them and both calls."""


class Timeout(Error, TimeoutError):
    """The deadline of an operation passed; the text names the ranks that did not come."""


class PeerLost(Error):
    """A rank died or closed its connection: `rank`."""


class Aborted(Error):
    """A rank called abort(), was interrupted, or the communicator was closed."""


class System(Error):
    """The operating system refused something."""


class NoMemory(Error, MemoryError):
    """Memory could not be had."""


class Unsupported(Error):
    """This build or this machine cannot do it."""
