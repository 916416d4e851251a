# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Faults in memory: what is hit on media, and only that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.clients.process import ClientProcess
from lab.machine.guest import GuestResult
from lab.machine.qmp import Qmp
from lab.testbed.fault_bed import PAGE_BYTES, Back, Bed

BEGIN = 1 << 32
SIZE_BYTES = 8 * PAGE_BYTES
SYMBOLS = """ffffffff81000000 T _text
ffffffff81812340 T tcp_v4_rcv
  {code} : Kernel code
"""


class Fake(Bed):
    """A machine that is a file, and one answer."""

    mode = "fake"
    keeps_kernel = True

    def __init__(self, path: Path, answers: list[str]) -> None:
        super().__init__()
        self.path, self.answers = path, answers
        path.write_bytes(bytes(SIZE_BYTES))

    def sh(self, command: str, check: bool = True, limit_s: float = 1.0) -> GuestResult:
        return GuestResult(command, 0, self.answers.pop(0), "")

    def media(self) -> tuple[Path, int]:
        return self.path, BEGIN

    def off(self) -> None:
        raise NotImplementedError

    def writers(self) -> ClientProcess:
        raise NotImplementedError

    def cut(self) -> bool:
        raise NotImplementedError

    def back(self) -> Back:
        raise NotImplementedError

    def qmp(self) -> Qmp:
        raise NotImplementedError

    def put(self, local: Path, remote: str) -> None:
        raise NotImplementedError


def bed(tmp_path: Path, *answers: str) -> Fake:
    return Fake(tmp_path / "media", list(answers))


def changed(it: Fake) -> list[int]:
    return [at for at, byte in enumerate(it.path.read_bytes()) if byte]


def test_only_places_that_media_have_are_hit(tmp_path: Path) -> None:
    it = bed(tmp_path)
    places = [BEGIN + 5, BEGIN - 1, BEGIN + SIZE_BYTES, 0]
    assert it.spoil(places, 2) == 1
    assert changed(it) == [5, 6]


def test_every_copy_of_a_value_is_hit_once(tmp_path: Path) -> None:
    it = bed(tmp_path)
    content = bytearray(SIZE_BYTES)
    for at in (0, 100, SIZE_BYTES - 4):
        content[at : at + 4] = b"abcd"
    content[200:203] = b"abc"  # another one
    it.path.write_bytes(content)
    assert it.spoil_value(b"abcd") == 3
    now = it.path.read_bytes()
    assert [at for at in range(SIZE_BYTES) if now[at] != content[at]] == [0, 100, SIZE_BYTES - 4]
    assert it.spoil_value(b"abcd") == 0


@pytest.mark.parametrize("begin", [0x1000000, 0x12A000000])
def test_place_of_the_code_is_physical(tmp_path: Path, begin: int) -> None:
    text = SYMBOLS.format(code=f"{begin:08x}-{begin + 0xFFFFFF:08x}")
    assert bed(tmp_path, text).code_place() == begin + 0x812000


@pytest.mark.parametrize(("now", "crashed"), [("a\n", False), ("b\n", True)])
def test_another_kernel_is_one_after_a_crash(tmp_path: Path, now: str, crashed: bool) -> None:
    it: Any = bed(tmp_path, now)
    it.boot_id = "a\n"
    assert it.crashed() == crashed
    it.keeps_kernel = False
    assert not it.crashed()
