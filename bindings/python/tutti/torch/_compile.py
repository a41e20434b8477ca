# SPDX-License-Identifier: BSD-3-Clause
"""The process that compiles the backend, for all that wait for it (_build.py).

    _compile.py RESULT FAILURE COMMAND...

COMMAND, with ``-o`` and a name, makes RESULT. What it says goes to FAILURE if it fails. It is ended
when nobody holds RESULT.waiters any more. The lock of RESULT.lock is inherited, and held to the end.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path


def end_with_the_waiters(result: Path, compiler: subprocess.Popen[bytes]) -> None:
    with open(f"{result}.waiters") as waiters:
        fcntl.flock(waiters, fcntl.LOCK_EX)
        os.killpg(compiler.pid, signal.SIGKILL)


def compile_to(result: Path, failure: Path, command: list[str]) -> int:
    directory = result.with_suffix(".building")
    shutil.rmtree(directory, ignore_errors=True)  # of one that was killed
    directory.mkdir()
    unfinished, log = directory / result.name, directory / "log"
    command = [*command, "-o", str(unfinished)]
    with open(log, "wb") as output:
        compiler = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                    env={**os.environ, "TMPDIR": str(directory)}, start_new_session=True)
    threading.Thread(target=end_with_the_waiters, args=(result, compiler), daemon=True).start()
    status = compiler.wait()
    if status == 0:
        os.replace(unfinished, result)
    elif status != -signal.SIGKILL:  # that of the last waiter: nobody reads why
        text = log.read_text(errors="replace")[-4000:]
        log.write_text(f"status {status}: {shlex.join(command)}\n{text}")
        os.replace(log, failure)
    shutil.rmtree(directory, ignore_errors=True)
    return status


sys.exit(compile_to(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]) != 0)
