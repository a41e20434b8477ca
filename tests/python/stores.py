# SPDX-License-Identifier: BSD-3-Clause
"""Processes that meet without a launcher: by tutti's stores, and by objects of Python."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from typing import Optional

import numpy as np
import tutti
from patience import bound_s


class Directory:
    """A store by files: get() gives None for what is not there."""

    def __init__(self, path: str) -> None:
        self.path = path

    def set(self, key: str, value: bytes) -> None:
        name = os.path.join(self.path, key.encode().hex())
        with open(f"{name}.{os.getpid()}", "wb") as file:
            file.write(value)
        os.rename(f"{name}.{os.getpid()}", name)

    def get(self, key: str) -> Optional[bytes]:
        try:
            with open(os.path.join(self.path, key.encode().hex()), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None


class Checked(Directory):
    """As torch.distributed.Store: get() waits and complains, check() says whether it would."""

    def set_timeout(self, timeout: object) -> None:
        raise AssertionError("nobody is to change the program's store")

    def check(self, keys: list[str]) -> bool:
        return all(super(Checked, self).get(key) is not None for key in keys)

    def get(self, key: str) -> Optional[bytes]:
        value = super().get(key)
        assert value is not None, "asked for what is not there"
        return value


STORES = {"python": Directory, "checked": Checked}


def act(kind: str, place: str, rank: int, size: int) -> None:
    key = None
    store = STORES[kind](place) if kind in STORES else tutti.Store(place, serve=rank == 0)
    if kind == "key":
        if rank == 0:
            store.set("the key", tutti.key_make().encode())
        key = store.get("the key").decode()
    with tutti.Communicator(store, rank, size, timeout=bound_s(20), key=key) as comm:
        assert comm.all_reduce(np.array(1)) == size
        if kind == "grow":
            with comm.grow(1, store if rank == 0 else None) as larger:
                assert larger.all_reduce(np.array(1)) == size + 1
    if isinstance(store, tutti.Store):
        store.close()


def newcomer(place: str) -> None:
    with tutti.Store(place) as store, tutti.join(store, timeout=bound_s(20)) as comm:
        assert comm.all_reduce(np.array(1)) == comm.size


class Closing:
    """A number that closes a store when it is looked at."""

    def __init__(self, store: tutti.Store) -> None:
        self.store = store

    def __float__(self) -> float:
        self.store.close()
        return 1.0


class Stores(unittest.TestCase):
    def meet(self, kind: str, place: str, *more: str) -> None:
        command = [sys.executable, __file__]
        ranks = [subprocess.Popen([*command, kind, place, str(r), "2"]) for r in range(2)]
        if more:
            ranks.append(subprocess.Popen([*command, *more]))
        try:
            self.assertEqual([process.wait(60) for process in ranks], [0] * len(ranks))
        finally:
            for process in ranks:
                process.kill()
                process.wait()

    def test_a_unix_socket(self) -> None:
        self.meet("plain", f"unix:test-python-{os.getpid()}-a")

    def test_an_object_of_python(self) -> None:
        with tempfile.TemporaryDirectory() as path:
            self.meet("python", path)

    def test_an_object_that_is_asked_before(self) -> None:
        with tempfile.TemporaryDirectory() as path:
            self.meet("checked", path)

    def test_a_key_that_one_rank_makes(self) -> None:
        with tempfile.TemporaryDirectory() as path:
            self.meet("key", "file:" + path)

    def test_a_newcomer(self) -> None:
        place = f"unix:test-python-{os.getpid()}-b"
        self.meet("grow", place, "join", place)

    def test_keys_and_values(self) -> None:
        with tutti.Store("tcp://127.0.0.1:0", serve=True) as store:
            self.assertRegex(store.address, r"^tcp://127.0.0.1:[1-9]\d*$")
            store.set("a", b"\0b")
            self.assertEqual(store.get("a"), b"\0b")
            with self.assertRaises(tutti.Timeout):
                store.get("b", timeout=0.01)
            with self.assertRaisesRegex(tutti.Invalid, "key is 5, expected a string"):
                store.set(5, b"")  # type: ignore
            with self.assertRaisesRegex(tutti.Invalid, "closed"):
                store.get("a", timeout=Closing(store))  # type: ignore
        with self.assertRaisesRegex(tutti.Invalid, "closed"):
            store.get("a")

    def test_a_store_that_fails(self) -> None:
        class Broken:
            def set(self, key: str, value: bytes) -> None:
                raise OSError("the disk is full")

            def get(self, key: str) -> bytes:
                raise OSError("the disk is full")

        with self.assertRaises(tutti.Error):
            tutti.Communicator(Broken(), 0, 2, timeout=2)


if len(sys.argv) > 2:
    if sys.argv[1] == "join":
        newcomer(sys.argv[2])
    else:
        act(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
else:
    unittest.main(verbosity=0)
