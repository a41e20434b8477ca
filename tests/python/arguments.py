# SPDX-License-Identifier: BSD-3-Clause
"""Every method with random arguments, right and wrong ones.

Of right ones comes what NumPy says. A rank with a wrong one raises before anything is sent: it
calls again with the right ones, and the others notice nothing. What only the arguments of several
ranks show to be wrong, all ranks raise. What a rank sends that is no record of an array, or no length
of an object, ends the communicator.

  arguments.py [SEED [CALLS]]     TEST_SEEDS=fixed: of seed 1
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import random
import sys
import unittest
from typing import Any, Callable, Dict, List, Type

import numpy as np
import tutti
from tutti import _core, _lists
from cases import KINDS, NUMBERS, OPAQUE, OPS, REDUCED, Case, Draw, draw_case, ops_of
from ranks import comm, rank, size

Args = Dict[str, Any]


def plain(x: Any) -> Any:
    return np.asarray(memoryview(x) if isinstance(x, (bytes, bytearray)) else x)


def other_kind(d: Draw, x: Any) -> Any:
    """Another type than that of `x`, often one of the same size."""
    others = [kind for kind in KINDS if np.dtype(kind) != x.dtype]
    similar = [kind for kind in others if np.dtype(kind).itemsize == x.dtype.itemsize]
    return d.choice(similar if similar and d.random() < 0.5 else others)


# ---------------------------------------------------------------- one wrong argument


class NoNumber:
    def __index__(self) -> int:
        raise RuntimeError("no number")


class NoArray:
    dtype, shape = "float32", (2,)


def wrong_array(d: Draw, x: Any) -> Any:
    """What no call takes."""
    choices: List[Any] = [3.5, "text", [1, 2], 1 + 2j, NoArray(), np.array([{}, None])]
    choices.append(np.ma.masked_array([1.0, 2.0], [True, False]))
    choices.append(np.ma.masked_array(plain(x)))
    choices.append(np.ones(3, "i8").view(d.choice([">f8", ">i4", ">M8[s]", ">c8"])))
    return d.choice(choices)


def spread(x: Any) -> Any:
    """The same elements, which do not follow each other."""
    room = np.zeros([*x.shape, 2], x.dtype)
    room[..., 0] = x
    return room[..., 0]


def wrong_x(d: Draw, x: Any, args: Args, method: str) -> Any:
    view = spread(plain(x))
    if not view.flags.c_contiguous and d.random() < 0.4:
        return view
    if ("reduce" in method or "scan" in method) and d.random() < 0.3:
        return d.array(d.choice(OPAQUE), [size])
    return wrong_array(d, x)


def overlapping(x: Any, out: Any, args: Args) -> Any:
    """An output that begins an element behind the input."""
    room = np.zeros(x.nbytes + out.nbytes, "u1")
    args["x"] = room[: x.nbytes].view(x.dtype).reshape(x.shape)
    return room[x.itemsize : x.itemsize + out.nbytes].view(out.dtype).reshape(out.shape)


def wrong_out(d: Draw, out: Any, args: Args, method: str) -> Any:
    out = plain(out)
    frozen = out.copy()
    frozen.flags.writeable = False
    choices = [frozen, bytes(out.nbytes), wrong_array(d, out)]
    view = spread(out)
    if not view.flags.c_contiguous:
        choices.append(view)
    if args.get("x") is not None:
        x = plain(args["x"])
        choices.append(np.zeros(out.shape, other_kind(d, out)))
        choices.append(np.zeros(out.size + 1, out.dtype))
        if x.size > 1 and method != "all_gather" and out.size > 1:
            choices.append(overlapping(x, out, args))
    return d.choice(choices)


def wrong_list(d: Draw, arrays: Any, args: Args, method: str) -> Any:
    """Too long, too short, none, or with an entry that does not belong."""
    if size == 1 or d.random() < 0.3:
        return d.choice([arrays + arrays[:1], arrays[:-1], None, 5, object()])
    changed, place = list(arrays), d.randrange(size)
    x = plain(changed[place])
    changed[place] = d.choice([wrong_array(d, x), d.array(other_kind(d, x), list(x.shape))])
    return changed


def wrong_op(d: Draw, op: Any, args: Args, method: str) -> Any:
    kind = plain(args["x"] if "x" in args else args["arrays"][0]).dtype
    known = next((known for known in REDUCED if np.dtype(known) == kind), None)
    undefined = [op for op in OPS if op not in ops_of(known)]
    return d.choice([*undefined, "mean", "", "SUM", 3, np.add, b"sum"])


def wrong_number(*numbers: int) -> Callable[..., Any]:
    return lambda d, *_: d.choice([*numbers, "0", 1.5, [0], 2**40, -(2**70), NoNumber()])


WRONG: Dict[str, Callable[..., Any]] = {
    "x": wrong_x,
    "out": wrong_out,
    "arrays": wrong_list,
    "values": lambda d, values, *_: d.choice([values + [1], values[1:], None, 5]),
    "like": lambda d, like, *_: wrong_array(d, like),
    "op": wrong_op,
    "root": wrong_number(-1, size),
    "dest": wrong_number(-1, size),
    "source": wrong_number(-2, size),
    "tag": wrong_number(-1),
    "timeout": lambda d, *_: d.choice([0, -1, "x", float("nan"), float("inf"), [1]]),
}


def spoil(d: Draw, method: str, args: Args) -> Args:
    """The same arguments but one; nothing where a call has none."""
    keys = [key for key in args if key in WRONG and args[key] is not None]
    if method and "object" not in method:
        keys.append("timeout")
    if not keys:
        return {}
    key = d.choice(keys)
    wrong = dict(args)
    wrong[key] = WRONG[key](d, args.get(key), wrong, method)
    return wrong


def tear(d: Draw, case: Case) -> List[Args]:
    """One rank's arrays are of another type than those of the others, which it cannot know."""
    args = [dict(mine) for mine in case.args]
    torn = args[d.randrange(size)]
    if "x" in torn:
        torn["x"] = d.array(other_kind(d, plain(torn["x"])), d.shape())
    elif torn["arrays"] is not None and case.methods[0] == "all_to_all_v":
        kind = other_kind(d, plain(torn["arrays"][0]))
        torn["arrays"] = [d.array(kind, d.shape()) for _ in range(size)]
    else:
        root = torn["root"]
        kind = other_kind(d, plain(args[root]["arrays"][0]))
        args[(root + 1) % size]["like"] = d.array(kind, d.shape())
    return args


TORN = ("all_gather_v", "gather_v", "all_to_all_v", "scatter_v")


# ---------------------------------------------------------------- calls


def call(form: str, method: str, args: Args) -> Any:
    if not method:
        return None
    if form == "start":
        return getattr(comm, "start_" + method)(**args).wait()
    if form == "group":
        with comm.group():
            return getattr(comm, method)(**args)
    return getattr(comm, method)(**args)


def refused(error: Type[Exception], form: str, method: str, args: Args) -> None:
    try:
        found = call(form, method, args)
    except error:
        return
    raise AssertionError(f"expected {error.__name__}, found {found!r}")


def same_array(found: Any, expected: Any) -> bool:
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return False
    has_padding = expected.dtype == np.longdouble
    return np.array_equal(found, expected) if has_padding else found.tobytes() == expected.tobytes()


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, np.ndarray):
        return same_array(plain(found), expected)
    if isinstance(expected, list) and expected and isinstance(expected[0], np.ndarray):
        return len(found) == len(expected) and all(map(same, found, expected))
    return bool(found == expected)


def before(d: Draw, case: Case, form: str) -> str:
    """What comes before the right call: nothing, or a call that is refused. Tells what it was."""
    method, args = case.methods[rank], case.args[rank]
    victim, way = d.randrange(size), d.random()
    wrong = spoil(d, case.methods[victim], case.args[victim])
    torn = tear(d, case)[rank] if method in TORN and size > 1 else {}
    if way < 0.4 and wrong:
        if rank == victim:
            refused(tutti.Invalid, form, method, wrong)
        return f"wrong on rank {victim}: {wrong}"
    if way < 0.5 and torn:
        refused(tutti.Invalid, form, method, torn)
        return f"torn: {torn}"
    if way < 0.55 and rank == victim and method:
        refused(TypeError, form, method, {**args, "ouput": 1})
    return ""


def one_call(d: Draw) -> None:
    case = draw_case(d)
    forms = [d.choice(["", "start", "group"]) if case.starts else "" for _ in range(size)]
    method, args, told = case.methods[rank], case.args[rank], ""
    try:
        if isinstance(args.get("op"), np.generic):
            args["op"] = comm.premul_sum(args["op"])
        told = before(d, case, forms[rank])
        found = call(forms[rank], method, args)
        if not same(found, case.results[rank]):
            raise AssertionError(f"found {found!r}, expected {case.results[rank]!r}")
        if case.into in args and args[case.into] is not None and method != "recv_message":
            assert same(args[case.into], case.results[rank]), f"{case.into} is another one"
    except BaseException:
        print(f"rank {rank}, form '{forms[rank]}', {method}({args}); {told}")
        raise


def put_around(d: Draw, victim: int) -> None:
    """Each rank puts its array into the window of the next one."""
    kind, shape = d.choice(NUMBERS), d.shape()
    inputs = [d.array(kind, shape) for _ in range(size)]
    bytes = inputs[rank].nbytes
    wrong = d.choice([
        {"x": wrong_array(d, inputs[rank])}, {"rank": size}, {"rank": None}, {"offset": bytes + 1},
        {"offset": -1}, {"offset": "0"}, {"signal": 1}, {"signal": 2**40}, {"timeout": -1},
    ])
    x = np.zeros_like(inputs[rank])
    with comm.window(x, 1) as window:
        args = {"x": inputs[rank], "rank": (rank + 1) % size, "signal": 0}
        if rank == victim:
            with unittest.TestCase().assertRaises(tutti.Invalid):
                window.put(**{**args, **wrong})
        window.put(**args)
        window.wait_signal(1)
        assert same(x, inputs[rank - 1]), f"found {x!r}, expected {inputs[rank - 1]!r}"
        out = window.get(np.zeros_like(x), rank)
        assert same(out, x), f"found {out!r}, expected {x!r}"
        comm.barrier()


def makers(d: Draw) -> None:
    """What makes something of a communicator, and its methods without arrays."""
    victim, number = d.randrange(size), wrong_number()(d)
    array = wrong_array(d, np.ones(2))
    wrong: Any = d.choice([
        ("split", {"color": number}), ("split", {"color": 0, "key": number}),
        ("split", {"color": 0, "timeout": 0}), ("dup", {"timeout": "x"}),
        ("premul_sum", {"scalar": np.ones(2)}), ("premul_sum", {"scalar": array}),
        ("window", {"x": array}), ("window", {"signals": -1}), ("window", {"signals": "1"}),
        ("abort", {"reason": 5}), ("grow", {"newcomers": number}),
        ("bind_cuda", {"device": number}), ("barrier", {"timeout": -1}),
        ("start_barrier", {"timeout": -1}),
    ])
    if rank == victim:
        refused(tutti.Invalid, "", *wrong)
    color = d.randrange(2)
    with comm.split((color + rank) % 2, -rank) as part:
        members = [r for r in range(size) if r % 2 == rank % 2]
        assert (part.rank, part.size) == (members[::-1].index(rank), len(members))
        assert part.all_reduce(np.array(rank)) == sum(members)
    put_around(d, victim)


# ---------------------------------------------------------------- what other ranks send


NAMES = (
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 float8_e4m3 "
    "float8_e5m2 complex64 complex128 datetime64 datetime64[25s] timedelta64[us]"
).split()


class Ended:
    """In the place of a communicator: what it was ended with."""

    reason = ""

    def abort(self, reason: str) -> None:
        self.reason = reason


def changed(d: Draw, found: Any) -> Any:
    """With another value in a place of it."""
    if not isinstance(found, list) or not found or d.random() < 0.3:
        return d.choice([
            None, True, -1, 0, 1.5, 2**62, 10**30, "", "int32", "O", "'|O'", "[('a', '<i4')]", "(" * 200,
            "\33[2J", "ä", [], {}, [[]], ["int32", False], ["int32", 0], [2, 3], [2.0], [2**61, 0], [1] * 65,
        ])
    copied, place = list(found), d.randrange(len(found) + 1)
    copied[place : place + d.randrange(2)] = [changed(d, found[min(place, len(found) - 1)])]
    return copied


def record_of(d: Draw) -> bytes:
    """Of an array, or not quite."""
    told = [[d.choice([*NAMES, "[('a', '<i4')]"]), d.choice([True, False])], [2, 3]]
    text = json.dumps(changed(d, told) if d.random() < 0.5 else told).encode()
    record = bytearray(text.ljust(512)[:512])
    for _ in range(d.choice([0, 0, 0, 1, 5])):
        record[d.randrange(60)] = d.randrange(256)
    return d.randbytes(512) if d.random() < 0.05 else bytes(record)


def is_array(record: bytes) -> bool:
    """It is read as one, which can be made or not, or is refused in words that name the rank."""
    ended: Any = Ended()
    try:
        (told,) = _lists.read(ended, "f", record, [7])
        assert told.kind and not set(map(type, told.shape)) - {int}, told
        assert _lists.read(ended, "f", _lists.records("f", [told]), [7]) == [told]
        with contextlib.suppress(tutti.Unsupported):
            _lists.empty(ended, "f", 7, _lists.Array(told.kind, (0,) * len(told.shape)))
    except tutti.Unsupported as error:
        text = str(error)
        assert error.rank == 7 and text == ended.reason and text.isprintable(), text
        assert text.startswith("f(): rank 7 sent "), text
        return False
    return True


def lie(part: _core.Communicator, method: str, record: bytes, number: int) -> None:
    """What `method` sends first, with other contents."""
    blocks = memoryview(record * size).cast("B", [size, 512])
    length = array.array("q", [number])
    if method == "recv_object":
        part.send(length, (rank + 1) % size)
    elif method == "broadcast_object":
        part.broadcast(length, rank)
    elif method == "all_to_all_v":
        part.all_to_all(blocks)
    else:
        part.all_gather(blocks[:1])


def lies(d: Draw) -> None:
    """One rank sends nonsense: those that get it say so, and all others are told."""
    records = [record_of(d) for _ in range(100)]
    refused = [record for record in records if not is_array(record)]
    assert 0 < len(refused) < 100, len(refused)
    liar, method = d.randrange(size), d.choice([*TORN, "broadcast_object", "recv_object"])
    number = -1 - d.randrange(2**60)
    args: Args = {
        "all_to_all_v": {"arrays": [np.ones(2)] * size}, "scatter_v": {"arrays": None, "root": liar},
        "broadcast_object": {"value": 1, "root": liar}, "recv_object": {"source": liar},
    }.get(method, {"x": np.ones(2)})
    ended = (tutti.Unsupported, tutti.Aborted)  # found here, or on another rank
    with comm.dup() as part:
        with unittest.TestCase().assertRaisesRegex(ended, f"rank {liar} sent "):
            if rank == liar:
                lie(part, method, refused[0], number)
            elif method != "recv_object" or rank == (liar + 1) % size:
                getattr(part, method)(**args)
            part.barrier()


def choice_of_seed() -> List[int]:
    given = [int(word) for word in sys.argv[1:]]
    seed = 1 if os.environ.get("TEST_SEEDS") == "fixed" else random.SystemRandom().randrange(10**6)
    return given + [seed, 10000][len(given) :]


def main() -> None:
    seed, calls = comm.broadcast_object(choice_of_seed())
    if rank == 0:
        print(f"arguments.py {seed} {calls}", flush=True)
    d = Draw(seed, rank, size)
    for number in range(calls):
        try:
            if number % 50 == 49:
                makers(d)
                lies(d)
            else:
                one_call(d)
        except BaseException:
            print(f"seed {seed}, call {number}", flush=True)
            raise
    comm.close()


main()
