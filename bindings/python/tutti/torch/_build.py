# SPDX-License-Identifier: BSD-3-Clause
"""Builds the C++ part of the backend for the PyTorch that is there, once, and loads it.

PyTorch's C++ interface for backends has no stable ABI. A binary in the wheel would fit one version
of PyTorch, and break with the next. So the sources are in the wheel, and are compiled at first use
into the user's cache. The name there holds all that the binary depends on. Ranks that start at once
wait for the one that compiles. What is built appears under its name when it is complete.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Optional

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

NAME = "_tutti_torch"
SOURCES = Path(__file__).resolve().parent / "csrc"
STANDARD = "c++20"
TORCH_LIBRARIES = ("torch", "torch_cpu", "torch_python", "c10")

_module: Optional[ModuleType] = None
_loading = threading.Lock()


class BuildError(RuntimeError):
    """The C++ part cannot be built here; the text says what is missing."""


class Library(NamedTuple):
    """Where the headers of libtutti and the library itself are."""

    include: Path
    file: Path


def load() -> ModuleType:
    """Return the C++ part; build it first if this is the first use with this PyTorch."""
    global _module
    with _loading:
        if _module is None:
            _module = _import(NAME, _built())
        return _module


def _import(name: str, path: Path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _library() -> Library:
    import tutti

    return Library(Path(tutti.get_include()), Path(tutti.get_library()))


def _key(library: Library, compiler: list[str]) -> str:
    """All that the binary depends on, as a short text for a file's name."""
    digest = hashlib.sha256()
    for path in sorted([*SOURCES.glob("*"), *library.include.glob("tutti/*.h")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for text in (torch.__version__, str(torch._C._GLIBCXX_USE_CXX11_ABI), *torch.__path__,
                 sys.implementation.cache_tag, sysconfig.get_platform(), str(library.file),
                 *compiler):
        digest.update(text.encode() + b"\0")
    return f"torch-{torch.__version__}-{sys.implementation.cache_tag}-{digest.hexdigest()[:16]}"


def _cache() -> Path:
    """The user's cache. What lies there is loaded, so nobody else may own it or write there."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = Path(home) / "tutti"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise BuildError(f"cannot make {path} to keep the backend in: {error}; set XDG_CACHE_HOME "
                         "to a directory of yours") from error
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise BuildError(f"{path} is owned by user {status.st_uid} with mode "
                         f"{status.st_mode & 0o777:o}, expected user {os.geteuid()} and nobody else "
                         "who can write; set XDG_CACHE_HOME to a directory of yours")
    return path


def _built() -> Path:
    library, compiler = _library(), _compiler()
    cache = _cache()
    path = cache / f"{_key(library, compiler)}.so"
    if path.exists():
        return path
    with open(f"{path}.lock", "w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)  # released when the file is closed, or the process dies
        if not path.exists():
            _build(library, compiler, path)
    return path


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CXX", "")) or ["c++"]


def _flags(library: Library, name: str, source: Path) -> Iterator[str]:
    torch_root = Path(torch.__path__[0])
    yield from (f"-std={STANDARD}", "-O2", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden")
    yield f"-DTORCH_EXTENSION_NAME={name}"
    yield f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"
    for directory in (torch_root / "include", torch_root / "include/torch/csrc/api/include",
                      Path(sysconfig.get_paths()["include"])):
        yield f"-isystem{directory}"
    yield f"-I{library.include}"
    yield str(source)
    yield str(library.file)
    yield f"-L{torch_root / 'lib'}"
    yield from (f"-l{name}" for name in TORCH_LIBRARIES)
    for directory in (library.file.parent, torch_root / "lib"):
        yield f"-Wl,-rpath,{directory}"


def _check_tools(compiler: list[str]) -> None:
    if shutil.which(compiler[0]) is None:
        raise BuildError(f"found no C++ compiler ({compiler[0]}), which builds the backend for this "
                         "PyTorch; install one (Debian: apt-get install g++), or name it in CXX")
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.exists():
        raise BuildError(f"found no {header}, which building the backend needs; install it "
                         "(Debian: apt-get install python3-dev)")


def _build(library: Library, compiler: list[str], path: Path) -> None:
    _check_tools(compiler)
    print(f"tutti: building the backend for PyTorch {torch.__version__}, once, which takes about a "
          f"minute: {path}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        unfinished = Path(directory) / path.name
        command = [*compiler, *_flags(library, NAME, SOURCES / "all.cpp"), "-o", str(unfinished)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise BuildError(f"the compiler failed with status {done.returncode}; "
                             f"PyTorch {torch.__version__} may differ from those the backend knows"
                             f"\n{shlex.join(command)}\n{done.stderr[-4000:]}")
        os.replace(unfinished, path)
