# SPDX-License-Identifier: BSD-3-Clause
"""tutti: collective communication between the ranks of a job.

A job is several processes, its ranks, which a launcher starts:

    python -m tutti run -n 4 prog.py

They meet in a communicator, whose methods all ranks call in the same order:

    import numpy
    import tutti

    with tutti.init() as comm:
        total = comm.all_reduce(numpy.ones(3))     # array([4., 4., 4.]) on every rank
        print(comm.rank, comm.size, total)

Arrays are those of NumPy, PyTorch, JAX and others, by the buffer protocol or DLPack; they are
C-contiguous. Results are arrays of the same library, or the array `out`. On arrays of a GPU, to
which comm.bind_cuda() binds, methods put the operation on a stream and return. The methods:

    all_reduce reduce reduce_scatter scan exscan              reductions
    broadcast all_gather gather scatter all_to_all barrier    collectives of equal arrays
    all_gather_v gather_v scatter_v all_to_all_v reduce_scatter_v      of arrays that differ
    send recv recv_message                                    between two ranks
    start_...                                                 the same, with a Request: wait, await
    broadcast_object all_gather_object gather_object scatter_objects send_object recv_object
    window                                                    one-sided: put, get, fetch_add, signals
    bind_cuda register_cuda                                   arrays on GPUs
    group split dup shrink grow premul_sum abort close        communicators and more

No call waits for ever. Where a rank dies, calls differ, or a deadline passes, all ranks get the
same exception: tutti.PeerLost, tutti.Mismatch, tutti.Timeout and others, all of tutti.Error.
help(tutti.Communicator) has each method with its shapes.
"""

from __future__ import annotations

import sys as _sys

if _sys.implementation.name != "cpython" or _sys.version_info < (3, 9):
    raise ImportError(
        f"tutti: found {_sys.implementation.name} {_sys.version.split()[0]}, expected CPython 3.9 "
        "or later: its C part is made for the stable ABI of that"
    )

from ._communicator import (  # noqa: E402
    Communicator,
    Group,
    empty,
    get_include,
    get_library,
    get_library_dir,
    init,
    join,
)
from ._core import (  # noqa: E402
    ANY_RANK,
    CudaWindow,
    Memory,
    Op,
    Request,
    Store,
    Window,
    key_make,
    version,
)
from ._errors import (  # noqa: E402
    Aborted,
    Error,
    Invalid,
    Mismatch,
    NoMemory,
    PeerLost,
    System,
    Timeout,
    Unsupported,
)
from ._events import Message, Plan  # noqa: E402

__version__ = version()

__all__ = [
    "ANY_RANK",
    "Aborted",
    "Communicator",
    "CudaWindow",
    "Error",
    "Group",
    "Invalid",
    "Memory",
    "Message",
    "Mismatch",
    "NoMemory",
    "Op",
    "PeerLost",
    "Plan",
    "Request",
    "Store",
    "System",
    "Timeout",
    "Unsupported",
    "Window",
    "empty",
    "get_include",
    "get_library",
    "get_library_dir",
    "init",
    "join",
    "key_make",
    "version",
]
