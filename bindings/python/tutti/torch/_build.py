# SPDX-License-Identifier: BSD-3-Clause
"""Builds the C++ part of the backend for the PyTorch that is there, once, and loads it.

PyTorch's C++ interface for backends has no stable ABI. A binary in the wheel would fit one version
of PyTorch, and break with the next. So the sources are in the wheel, and are compiled at first use
into the user's cache. The name there holds all that the binary depends on. What is built appears
under its name when it is complete.

One process compiles, whatever the number of ranks (_compile.py). It is nobody's in particular: it
goes on when the rank that started it dies, and ends when nobody waits for it any more. Two files
beside the binary say so by their locks: NAME.lock is held by the process that compiles, NAME.waiters
is shared by those that wait.
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
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, Optional

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

NAME = "_tutti_torch"
SOURCES = Path(__file__).resolve().parent / "csrc"
COMPILE = Path(__file__).resolve().with_name("_compile.py")
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
    for text in (torch.__version__, sys.implementation.cache_tag, sysconfig.get_platform(),
                 *_command(library, compiler)):
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
    path = _cache() / f"{_key(library, compiler)}.so"
    if not path.exists():
        with open(f"{path}.waiters", "a") as waiters:
            fcntl.flock(waiters, fcntl.LOCK_SH)
            _await(path, _command(library, compiler))
    return path


def _await(path: Path, command: list[str]) -> None:
    """Have `path` built, unless another process has that done already."""
    told = False
    while not path.exists():
        with open(f"{path}.lock", "a") as lock:
            if _try_lock(lock):
                if not path.exists():
                    _check_end(path, _start(path, command, lock))
                continue
            if not told:
                _say(f"waiting for the backend, which another process builds: {path}")
            told = True
            fcntl.flock(lock, fcntl.LOCK_EX)  # when that has ended
            _check_end(path, 0)


def _check_end(path: Path, status: int) -> None:
    failure = _failure_of(path)
    if path.exists() or not (status or failure.exists()):
        return
    text = failure.read_text() if failure.exists() else f"{COMPILE} ended with status {status}"
    raise BuildError(f"the compiler failed; PyTorch {torch.__version__} may differ from those the "
                     f"backend knows\n{text}")


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def _failure_of(path: Path) -> Path:
    return path.with_suffix(".failed")


def _say(text: str) -> None:
    print(f"tutti: {text}", file=sys.stderr, flush=True)


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CXX", "")) or ["c++"]


def _command(library: Library, compiler: list[str], name: str = NAME,
             source: Path = SOURCES / "all.cpp") -> list[str]:
    """What compiles a module of Python, but for the name of the output."""
    torch_root = Path(torch.__path__[0])
    includes = (torch_root / "include", torch_root / "include/torch/csrc/api/include",
                Path(sysconfig.get_paths()["include"]))
    return [*compiler, f"-std={STANDARD}", "-O2", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden",
            f"-DTORCH_EXTENSION_NAME={name}", *_abi_flags(), *(f"-isystem{one}" for one in includes),
            f"-I{library.include}", str(source), str(library.file), f"-L{torch_root / 'lib'}",
            *(f"-l{one}" for one in TORCH_LIBRARIES),
            *(f"-Wl,-rpath,{one}" for one in (library.file.parent, torch_root / "lib"))]


def _abi_flags() -> Iterator[str]:
    """What makes classes of C++ the same as PyTorch's, which may be from another compiler."""
    yield f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"
    for name in ("COMPILER_TYPE", "STDLIB", "BUILD_ABI"):  # up to 2.8
        value = getattr(torch._C, f"_PYBIND11_{name}", None)
        if value:
            yield f'-DPYBIND11_{name}="{value}"'


def _check_tools(compiler: list[str]) -> None:
    if shutil.which(compiler[0]) is None:
        raise BuildError(f"found no C++ compiler ({compiler[0]}), which builds the backend for this "
                         "PyTorch; install one (Debian: apt-get install g++), or name it in CXX")
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.exists():
        raise BuildError(f"found no {header}, which building the backend needs; install it "
                         "(Debian: apt-get install python3-dev)")


def _start(path: Path, command: list[str], lock: IO[str]) -> int:
    """Have a process compile, which takes the lock over, and return its status when it ends."""
    _check_tools(command)
    _failure_of(path).unlink(missing_ok=True)
    _say(f"building the backend for PyTorch {torch.__version__}, once, which takes about a minute: {path}")
    builder = subprocess.Popen([sys.executable, "-I", str(COMPILE), str(path), str(_failure_of(path)), *command],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               pass_fds=[lock.fileno()], start_new_session=True)
    return builder.wait()
