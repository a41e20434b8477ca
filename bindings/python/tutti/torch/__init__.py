# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's distributed backend "tutti".

``torch.distributed.init_process_group("tutti")`` finds it by itself: PyTorch calls :func:`register`,
which this package names as the entry point ``tutti`` of the group ``torch.distributed.backends``.
Versions of PyTorch that do not read that group need ``import tutti.torch`` before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from tutti._communicator import callers_wanted
from tutti.torch._build import BuildError, load

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["BuildError", "register", "Options"]


def _create(options: Any, backend_options: Any) -> Any:
    """Make the backend of one process group, as PyTorch asks for it."""
    extension = load()
    own = backend_options
    if own is None:
        own = extension.Options()
    elif not isinstance(own, extension.Options):
        raise TypeError(f"pg_options of a process group of tutti are a {type(own).__name__}, "
                        "expected tutti.torch.Options")
    own._timeout = options.timeout
    own.callers = own.callers or callers_wanted()
    return extension.create(options.store, options.group_rank, options.group_size,
                            options.group_id, options.global_ranks_in_group, own)


def _devices() -> list[str]:
    """CPUs, and GPUs where this PyTorch can use one."""
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def register() -> None:
    """Make the name "tutti" known to ``torch.distributed``; again: nothing happens."""
    if not dist.is_available():
        raise RuntimeError("this PyTorch has no torch.distributed; install one that has")
    if "TUTTI" not in dist.Backend._plugins:
        dist.Backend.register_backend("tutti", _create, extended_api=True, devices=_devices())


def __getattr__(name: str) -> Any:
    if name == "Options":
        return load().Options
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _extension() -> ModuleType:
    """The C++ part, for tests."""
    return load()


register()
