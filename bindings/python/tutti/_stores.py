# SPDX-License-Identifier: BSD-3-Clause
"""Stores of others: any object with set(key, value) and get(key)."""

from __future__ import annotations

import inspect
import time
from typing import Any, Callable, Optional

from . import _errors

_PAUSE = 0.01  # seconds between two looks into a store that does not wait by itself


def _takes_timeout(get: Callable[..., Any]) -> bool:
    try:
        return "timeout" in inspect.signature(get).parameters
    except (TypeError, ValueError):
        return False


class _Adapter:
    """What the C part calls: set(), and get() that waits and raises TimeoutError."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._with_timeout = _takes_timeout(store.get)
        # torch.distributed.Store, whose waits log a warning for each time that is over
        self._checks = callable(getattr(store, "check", None)) and callable(
            getattr(store, "set_timeout", None)
        )

    def set(self, key: str, value: bytes) -> None:
        self._store.set(key, value)

    def get(self, key: str, timeout: float) -> bytes:
        end = time.monotonic() + timeout
        while True:
            value = self._look(key, max(end - time.monotonic(), _PAUSE), end)
            if value is not None:
                return bytes(value)
            if time.monotonic() >= end:
                raise TimeoutError(f"the store has no key '{key}'")
            time.sleep(_PAUSE)

    def _look(self, key: str, seconds: float, end: float) -> Optional[bytes]:
        """The value, or None if it is not there yet."""
        try:
            if self._checks:
                value = self._store.get(key) if self._store.check([key]) else None
            elif self._with_timeout:
                value = self._store.get(key, timeout=seconds)
            else:
                value = self._store.get(key)
        except (KeyError, TimeoutError):
            return None
        except Exception:
            if time.monotonic() >= end:  # stores have errors of their own for that
                return None
            raise
        return value.encode() if isinstance(value, str) else value


def adapt(store: Any) -> _Adapter:
    for name in ("set", "get"):
        if not callable(getattr(store, name, None)):
            raise _errors.Invalid(
                f"Communicator(): store is {store!r}, without a method {name}(); expected a "
                "tutti.Store, or an object with set(key, value: bytes) and get(key) -> bytes"
            )
    return _Adapter(store)
