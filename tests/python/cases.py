# SPDX-License-Identifier: BSD-3-Clause
"""Random calls of every method, and what must come of them by NumPy (arguments.py).

Every rank draws the arguments of all ranks, from the same seed, and so knows each result by itself.
"""

from __future__ import annotations

import random
from typing import Any, Dict, List, NamedTuple, Optional

import numpy as np

NUMBERS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
DATES, DURATIONS = ["M8[s]", "M8[25us]"], ["m8[ms]"]
OPAQUE = ["U3", "S5", "V7", [("X", "i4"), ("b", "f8", (2,))], "f16"]
REDUCED = NUMBERS + ["?", "?", "c8", "c16"] + DATES + DURATIONS
KINDS: List[Any] = REDUCED + OPAQUE

_UFUNCS = {
    "sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum,
    "band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor,
    "land": np.logical_and, "lor": np.logical_or, "lxor": np.logical_xor,
}
OPS = [*_UFUNCS, "avg"]
_BITWISE, _LOGICAL = {"band", "bor", "bxor"}, {"land", "lor", "lxor"}
_TAKEN = {  # by kinds of NumPy's types
    "i": set(OPS) - _LOGICAL, "u": set(OPS) - _LOGICAL, "b": set(OPS) - {"avg"},
    "f": {"sum", "prod", "min", "max", "avg"}, "c": {"sum", "avg"},
    "M": {"min", "max"}, "m": {"sum", "min", "max"},
}


def ops_of(kind: Any) -> List[str]:
    """The operations that tutti has for a type; NumPy has all of them."""
    return sorted(_TAKEN[np.dtype(kind).kind]) if kind in REDUCED else []


def reduced(op: str, arrays: List[Any]) -> Any:
    if op != "avg":
        result = arrays[0].view("u1") != 0 if arrays[0].dtype == bool else arrays[0]
        for x in arrays[1:]:
            result = _UFUNCS[op](result, x)
        return result
    total = sum(x.astype("c16" if x.dtype.kind == "c" else "f8") for x in arrays) / len(arrays)
    with np.errstate(all="ignore"):
        return (np.trunc(total) if arrays[0].dtype.kind in "iu" else total).astype(arrays[0].dtype)


class Case(NamedTuple):
    """A call of each rank, and what comes of it; `into` is the argument that must have it, too."""

    methods: List[str]  # "": none
    args: List[Dict[str, Any]]
    results: List[Any]
    into: Optional[str] = None
    starts: bool = True  # has a form with start_, and may be in a group


class Draw(random.Random):
    """Draws arrays, all of the same contents on every rank."""

    def __init__(self, seed: int, rank: int, size: int) -> None:
        super().__init__(seed)
        self.rank, self.size = rank, size

    def shape(self) -> List[int]:
        return [self.choice([0, 1, 2, 3, 5]) for _ in range(self.randrange(4))]

    def array(self, kind: Any, shape: List[int]) -> Any:
        """Small numbers: results are exact, averages of two ranks; any byte for booleans; NaT."""
        dtype = np.dtype(kind)
        count = int(np.prod(shape, dtype=int))
        least = 0 if dtype.kind == "u" else -3
        numbers = [self.randint(least, 3) for _ in range(count)]
        if dtype.kind == "b":
            return np.array([abs(n) * 7 % 4 for n in numbers], "u1").view(bool).reshape(shape)
        if dtype.kind in "mM":
            plain = np.array(numbers, "i8").view(dtype)
            plain[[n == 3 for n in numbers]] = "NaT"
            return plain.reshape(shape)
        if dtype.kind in "SUV":
            data = bytes(97 + n for n in numbers for _ in range(dtype.itemsize))
            if dtype.kind != "U":
                return np.frombuffer(data, dtype, count).reshape(shape).copy()
            return np.array([chr(100 + n) for n in numbers], dtype).reshape(shape)
        factor = 1 - 2j if dtype.kind == "c" else 1
        return np.array([n * factor for n in numbers], dtype).reshape(shape)

    def strided(self, x: Any) -> Any:
        """The same array, with elements that may lie anywhere."""
        if x.ndim == 0 or self.random() < 0.5:
            return x
        room = np.zeros([3 * n for n in x.shape], x.dtype)
        way = slice(None, None, self.choice([2, 3, -3]))
        view = room[(way,) * x.ndim][tuple(slice(n) for n in x.shape)]
        view[...] = x
        return view if self.random() < 0.7 else np.asfortranarray(x)

    def wrapped(self, x: Any) -> Any:
        """The same memory as an array of another class."""
        way = self.random()
        if way < 0.15 and x.dtype.kind not in "mMV":
            return memoryview(x)
        if way < 0.2:
            kind = np.recarray if x.dtype.names else np.matrix if x.ndim == 2 else np.ndarray
            return x.view(kind)
        return x


def _equal(d: Draw, kinds: List[Any], blocks: bool) -> Any:
    """The type, shape and inputs of a call of equal arrays, and its arguments with `x` in them."""
    kind = d.choice(kinds)
    shape = [d.size] * blocks + d.shape()
    inputs = [d.array(kind, shape) for _ in range(d.size)]
    args: List[Dict[str, Any]] = [{"x": d.wrapped(x.copy())} for x in inputs]
    return kind, shape, inputs, args


def _with_out(d: Draw, args: List[Dict[str, Any]], results: List[Any], in_place: bool) -> None:
    """Each rank for itself: a new result, an array for it, or the input itself."""
    for mine, result in zip(args, results):
        way = d.random()
        if result is None or way < 0.4:
            continue
        if way < 0.6 and in_place:
            mine["out"] = mine["x"]
        else:
            mine["out"] = d.wrapped(d.array(result.dtype, list(result.shape)))


def _reduction(d: Draw) -> Case:
    method = d.choice(["all_reduce", "reduce", "reduce_scatter", "scan", "exscan"])
    kind, shape, inputs, args = _equal(d, REDUCED, method == "reduce_scatter")
    op = d.choice([op for op in ops_of(kind) if op != "avg" or "scan" not in method])
    total, root = reduced(op, inputs), d.randrange(d.size)
    if method == "all_reduce":
        results = [total] * d.size
    elif method == "reduce":
        results = [total if r == root else None for r in range(d.size)]
    elif method == "reduce_scatter":
        results = [total[r, ...] for r in range(d.size)]
    elif method == "scan":
        results = [reduced(op, inputs[: r + 1]) for r in range(d.size)]
    else:
        results = [reduced(op, inputs[:r] or [np.zeros(shape, kind)]) for r in range(d.size)]
    results = [None if result is None else np.asarray(result) for result in results]
    _with_out(d, args, results, in_place=method != "reduce_scatter")
    if method == "exscan" and "out" in args[0]:
        results[0] = np.array(args[0]["out"])  # stays
    for mine in args:
        if op != "sum" or d.random() < 0.5:
            mine["op"] = op
        if method == "reduce":
            mine["root"] = root
    return Case([method] * d.size, args, results, "out")


def _scaled(d: Draw) -> Case:
    """Each rank's number times its array; arguments.py makes the operation of it."""
    kind, shape = d.choice(NUMBERS), d.shape()
    inputs = [d.array(kind, shape) for _ in range(d.size)]
    scalars = [np.dtype(kind).type(d.randrange(3)) for _ in range(d.size)]
    total = reduced("sum", [np.asarray(s * x) for s, x in zip(scalars, inputs)])
    args = [{"x": x, "op": s} for s, x in zip(scalars, inputs)]
    return Case(["all_reduce"] * d.size, args, [np.asarray(total)] * d.size)


def _move(d: Draw) -> Case:
    method = d.choice(["broadcast", "all_gather", "gather", "scatter", "all_to_all"])
    kind, shape, inputs, args = _equal(d, KINDS, method in ("scatter", "all_to_all"))
    root = d.randrange(d.size)
    if method == "broadcast":
        results = [inputs[root]] * d.size
    elif method in ("all_gather", "gather"):
        results = [np.stack(inputs) if r == root or method == "all_gather" else None
                   for r in range(d.size)]
    elif method == "scatter":
        results = [inputs[root][r, ...] for r in range(d.size)]
    else:
        results = [np.stack([x[r, ...] for x in inputs]) for r in range(d.size)]
    _with_out(d, args, results, in_place=method == "all_to_all")
    for r, mine in enumerate(args):
        if method not in ("all_gather", "all_to_all"):
            mine["root"] = root
        if method == "scatter" and r != root:
            mine["x"] = None
            mine["out"] = d.array(kind, shape[1:])
    return Case([method] * d.size, args, results, "out")


def _message(d: Draw) -> Case:
    """From one rank to another; the others call nothing."""
    kind, shape = d.choice(KINDS), d.shape()
    sender = d.randrange(d.size)
    receiver = (sender + 1) % d.size
    x, tag = d.array(kind, shape), d.choice([0, 0, 5])
    method = d.choice(["recv", "recv_message"])
    methods, args, results = [""] * d.size, [{} for _ in range(d.size)], [None] * d.size
    methods[sender], methods[receiver] = "send", method
    args[sender] = {"x": d.wrapped(x.copy()), "dest": receiver, "tag": tag}
    more = [2] if method == "recv_message" else []
    out = d.array(kind, more + shape)
    args[receiver] = {"out": out, "source": d.choice([sender, -1]), "tag": tag}
    results[receiver] = x if method == "recv" else (sender, x.size)  # type: ignore
    return Case(methods, args, results, "out", starts=False)


def _arrays(d: Draw) -> Any:
    """A matrix of arrays of one type: that of rank r for rank s."""
    kind = d.choice(KINDS)
    tail = d.shape()[:2]
    return kind, [[d.array(kind, [d.randrange(4)] + tail) for _ in range(d.size)]
                  for _ in range(d.size)]


def _listed(d: Draw, arrays: List[Any]) -> List[Any]:
    wrap = d.random() < 0.3
    return [d.wrapped(x.copy()) if wrap else d.strided(x) for x in arrays]


def _differing(d: Draw) -> Case:
    method = d.choice(["all_gather_v", "gather_v", "scatter_v", "all_to_all_v", "reduce_scatter_v"])
    kind, arrays = _arrays(d)
    root = d.randrange(d.size)
    args: List[Dict[str, Any]]
    results: List[Any]
    if method in ("all_gather_v", "gather_v"):
        mine = [row[0] for row in arrays]
        args = [{"x": d.wrapped(x.copy())} for x in mine]
        results = [mine if r == root or method == "all_gather_v" else None for r in range(d.size)]
    elif method == "scatter_v":
        args = [{"arrays": _listed(d, arrays[0]) if r == root else None} for r in range(d.size)]
        for r, given in enumerate(args):
            if r != root and d.random() < 0.3:
                given["like"] = d.strided(d.array(kind, d.shape()))
        results = arrays[0]
    elif method == "all_to_all_v":
        args = [{"arrays": _listed(d, row)} for row in arrays]
        results = [[row[r] for row in arrays] for r in range(d.size)]
    else:
        kind = d.choice(REDUCED)
        shapes = [d.shape() for _ in range(d.size)]
        arrays = [[d.array(kind, shape) for shape in shapes] for _ in range(d.size)]
        op = d.choice(ops_of(kind))
        args = [{"arrays": _listed(d, row), "op": op} for row in arrays]
        results = [np.asarray(reduced(op, [row[r] for row in arrays])) for r in range(d.size)]
    if method in ("gather_v", "scatter_v"):
        for given in args:
            given["root"] = root
    return Case([method] * d.size, args, results, starts=False)


def _object(d: Draw) -> Case:
    method = d.choice(["broadcast_object", "all_gather_object", "gather_object", "scatter_objects"])
    values = [[d.choice([None, "text", 5])] * d.randrange(5) for _ in range(d.size)]
    root = d.randrange(d.size)
    args: List[Dict[str, Any]] = [{"value": value} for value in values]
    results: List[Any] = [values[root]] * d.size
    if method == "scatter_objects":
        args = [{"values": values if r == root else None} for r in range(d.size)]
        results = values
    elif method != "broadcast_object":
        results = [values if r == root or method == "all_gather_object" else None
                   for r in range(d.size)]
    if method != "all_gather_object":
        for given in args:
            given["root"] = root
    return Case([method] * d.size, args, results, starts=False)


def draw_case(d: Draw) -> Case:
    families = [_reduction, _move, _differing] * 4 + [_scaled, _object]
    families += [_message] * 2 if d.size > 1 else []
    return d.choice(families)(d)
