# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The redo area (format/rem_redo.h): what is not whole is no ring, or is named as damaged; hostile
bytes lead nowhere; and the order of stop/disk_log_redo.c keeps what a flush has promised.

Method: redo_judge.c of kernel/persist/, compiled for the host; hostile areas by a program with a
simple oracle; and a model of disk, cache and ring that crashes anywhere. Negative proofs: the model
with one rule broken loses something.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import format as fmt
from tests.support.decisions import compiled, judge_hostile_redo_areas

AREA_BYTES = 16 << 20
ENTRY_BYTES = fmt.CONST["REM_REDO_ENTRY_BYTES"]
COVERED_AT, HEAD_AT = fmt.CONST["REM_REDO_COVERED_AT"], fmt.CONST["REM_REDO_HEAD_AT"]
WORD_BYTES = fmt.size_of("rem_redo_word")
SLOT_BYTES = fmt.size_of("rem_redo_slot")
NONE, EMPTY, WAITS, DAMAGED = range(4)
ID, SLOTS, OFFSET, SECTORS = 0x123456789, 1000, 8192, 1 << 20
CASES = 300_000
# One of the model's rules is not kept.
BROKEN = ("covers-uncopied", "unpublished-fua", "head-early", "head-late", "unfenced")


class Seen(ctypes.Structure):
    _fields_ = [  # noqa: RUF012
        ("id", ctypes.c_uint64),
        ("offset", ctypes.c_uint64),
        ("sectors", ctypes.c_uint64),
        ("slots", ctypes.c_uint32),
        ("head", ctypes.c_uint64),
        ("covered", ctypes.c_uint64),
    ]


class Redo:
    """The functions of redo_judge.c."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        library.rem_redo_slot_wrong.restype = ctypes.c_char_p
        library.rem_redo_data_wrong.restype = ctypes.c_bool

    def word(self, id: int, position: int) -> bytes:
        out = ctypes.create_string_buffer(WORD_BYTES)
        self.library.rem_redo_fill_word(out, ctypes.c_uint64(id), ctypes.c_uint64(position))
        return out.raw

    def entry(self, covered: tuple[int, int], head: tuple[int, int], **fields: int) -> bytes:
        disk = fmt.VIEWS.rem_redo_disk(identity=list(b"disk".ljust(128, b"\0")))
        values = {"id": ID, "slots": SLOTS, "offset": OFFSET, "sectors": SECTORS} | fields
        for name, value in values.items():
            setattr(disk, name, value)
        out = ctypes.create_string_buffer(disk.dumps(), len(disk.dumps()))
        self.library.rem_redo_fill_disk(out)
        words = [self.word(values["id"], position) for position in (*covered, *head)]
        return out.raw + b"".join(words)

    def judge(self, entry: bytes) -> tuple[int, Seen]:
        seen = Seen()
        state = self.library.rem_redo_judge(entry, ctypes.c_uint64(AREA_BYTES), ctypes.byref(seen))
        return int(state), seen

    def slot(self, position: int, sector: int, data: bytes) -> bytes:
        view = fmt.VIEWS.rem_redo_slot(
            id=ID, position=position, sector=sector, bytes=len(data), data_crc=fmt.crc32c(data)
        )
        out = ctypes.create_string_buffer(view.dumps(), SLOT_BYTES)
        self.library.rem_redo_fill_slot(out)
        return out.raw

    def wrong(self, slot: bytes, seen: Seen, position: int) -> str | None:
        said = self.library.rem_redo_slot_wrong(slot, ctypes.byref(seen), ctypes.c_uint64(position))
        return None if said is None else str(said.decode())


@pytest.fixture(scope="module")
def redo(tmp_path_factory: pytest.TempPathFactory) -> Redo:
    return Redo(compiled(tmp_path_factory.mktemp("redo"), "persist", "redo_judge"))


def flipped(data: bytes, bit: int) -> bytes:
    out = bytearray(data)
    out[bit // 8] ^= 1 << bit % 8
    return bytes(out)


def test_ring_is_what_its_entry_says(redo: Redo) -> None:
    assert redo.judge(bytes(ENTRY_BYTES))[0] == NONE
    assert redo.judge(b"\xff" * ENTRY_BYTES)[0] == NONE
    state, seen = redo.judge(redo.entry(covered=(70, 60), head=(20, 30)))
    assert (state, seen.head, seen.covered, seen.slots) == (WAITS, 30, 70, SLOTS)
    for covered, head, wanted in (
        ((0, 0), (0, 0), EMPTY),
        ((60, 70), (80, 0), EMPTY),
        ((60, 70), (70, 0), EMPTY),
        ((SLOTS, 0), (0, 0), WAITS),
        ((SLOTS + 1, 0), (0, 0), DAMAGED),
        ((2**64 - 1, 0), (0, 0), DAMAGED),
    ):
        assert redo.judge(redo.entry(covered, head))[0] == wanted, (covered, head)


def test_each_flipped_bit_of_an_entry_is_noticed(redo: Redo) -> None:
    right = redo.entry(covered=(70, 60), head=(20, 30))
    for bit in range(8 * COVERED_AT):
        assert redo.judge(flipped(right, bit))[0] == NONE, bit


def test_torn_word_is_the_older_one(redo: Redo) -> None:
    right = redo.entry(covered=(70, 60), head=(20, 30))
    checked = 8 * fmt.VIEWS.rem_redo_word.fields["crc"].offset
    for bit in range(checked):
        assert redo.judge(flipped(right, 8 * COVERED_AT + bit))[1].covered == 60
        assert redo.judge(flipped(right, 8 * (HEAD_AT + WORD_BYTES) + bit))[1].head == 20
    for at in (COVERED_AT, HEAD_AT):
        both = flipped(flipped(right, 8 * at + 64), 8 * (at + WORD_BYTES) + 64)
        assert redo.judge(both)[0] == DAMAGED
    other = right[:COVERED_AT] + redo.word(ID + 1, 90) + right[COVERED_AT + WORD_BYTES :]
    assert redo.judge(other)[1].covered == 60, "a word of another ring"


def test_impossible_rings_are_none(redo: Redo) -> None:
    page = 4096
    for fields in (
        {"slots": 0},
        {"slots": fmt.CONST["REM_REDO_SLOTS_MAX"] + 1},
        {"offset": 0},
        {"offset": OFFSET + 512},
        {"offset": AREA_BYTES},
        {"offset": 2**64 - page},
        {"slots": AREA_BYTES // 4160},
    ):
        assert redo.judge(redo.entry((1, 0), (0, 0), **fields))[0] == NONE, fields


def test_each_flipped_bit_of_a_slot_is_noticed(redo: Redo) -> None:
    _, seen = redo.judge(redo.entry(covered=(70, 0), head=(0, 0)))
    right = redo.slot(5, 100, b"x" * 4096)
    assert redo.wrong(right, seen, 5) is None
    for bit in range(8 * fmt.VIEWS.rem_redo_slot.fields["dropped"].offset):
        assert redo.wrong(flipped(right, bit), seen, 5) is not None, bit
    data = b"x" * 4096
    assert not redo.library.rem_redo_data_wrong(right, data)
    for bit in range(0, 8 * len(data), 97):
        assert redo.library.rem_redo_data_wrong(right, flipped(data, bit))


@pytest.mark.parametrize(
    ("position", "sector", "size_bytes", "says"),
    [
        (6, 100, 4096, "another write's"),
        (5 + SLOTS, 100, 4096, "another write's"),
        (5, SECTORS - 7, 4096, "behind the disk's end"),
        (5, 2**64 - 1, 512, "behind the disk's end"),
        (5, 100, 0, "size"),
        (5, 100, 511, "size"),
        (5, 100, 4096 + 512, "size"),
    ],
)
def test_impossible_slots_are_damaged(
    redo: Redo, position: int, sector: int, size_bytes: int, says: str
) -> None:
    _, seen = redo.judge(redo.entry(covered=(70, 0), head=(0, 0)))
    slot = redo.slot(position, sector, b"x" * size_bytes)
    assert says in (redo.wrong(slot, seen, 5) or "")
    assert redo.wrong(redo.slot(5, SECTORS - 8, b"x" * 4096), seen, 5) is None


def test_hostile_areas_do_no_harm(tmp_path: Path) -> None:
    said = judge_hostile_redo_areas(tmp_path, CASES)
    assert said.startswith(f"{CASES} hostile areas: ")
    assert " 0 waiting" not in said and " 0 writes" not in said


class Write:
    def __init__(self, at: int, sector: int, fua: bool) -> None:
        self.at, self.sector, self.fua = at, sector, fua
        self.copied = self.sent = self.completed = self.acked = False


class Model:
    """A disk with a volatile cache, its ring, and who writes to it. A write's content is its
    position. Small, so that the ring wraps."""

    RING, DISK = 6, 4

    def __init__(self, seed: int, broken: str = "") -> None:
        self.random = random.Random(seed)
        self.broken = broken
        self.writes: list[Write] = []
        self.media: dict[int, int] = {}
        self.cache: dict[int, int] = {}
        # NVRAM: what is there for certain; slots that a CPU has not fenced may be there or not.
        self.slot: dict[int, Write] = {}
        self.head = self.covered = 0
        self.ram_head = self.done = 0
        self.flushes: list[int] = []  # positions of flushes that the disk has not answered
        self.wanted: list[int] = []  # of flushes that wait for a copy
        self.promised: dict[int, int] = {}  # by sector: the newest write that is promised

    def prefix(self) -> int:
        copying = [write.at for write in self.writes if not write.copied]
        if self.broken == "covers-uncopied" or not copying:
            return len(self.writes)
        return min(copying)

    def oldest(self) -> int:
        pending = [write.at for write in self.writes if not write.completed]
        return min(pending, default=len(self.writes))

    def publish(self, want: int) -> bool:
        if self.covered < want:
            self.covered = max(self.covered, self.prefix())
        return self.covered >= want

    def promise(self, want: int) -> None:
        for write in self.writes[:want]:
            if write.completed and write.at < want:
                self.promised[write.sector] = max(self.promised.get(write.sector, 0), write.at + 1)

    def write(self) -> None:
        sector = self.random.randrange(self.DISK)
        # The order of two writes to one place that are under way together is nobody's promise.
        busy = any(write.sector == sector and not write.completed for write in self.writes)
        if len(self.writes) - self.ram_head < self.RING and not busy:
            self.writes.append(Write(len(self.writes), sector, self.random.random() < 0.2))

    def copy(self) -> None:
        for write in self._some(lambda write: not write.copied):
            write.copied = True
            # Without a fence the slot's old content may be what a crash leaves.
            if self.broken != "unfenced" or self.random.random() < 0.5:
                self.slot[write.at % self.RING] = write
            for want in [want for want in self.wanted if self.publish(want)]:
                self.wanted.remove(want)
                self.promise(want)

    def complete(self) -> None:
        for write in self._some(lambda write: write.copied and not write.completed):
            write.completed = True
            self.cache[write.sector] = write.at + 1
            self.done = max(self.done, write.at + 1)
            if (
                write.fua
                and self.broken == "unpublished-fua"
                or write.fua
                and self.publish(write.at + 1)
            ):
                self.promised[write.sector] = max(self.promised.get(write.sector, 0), write.at + 1)

    def flush(self) -> None:
        if self.publish(self.done):
            self.promise(self.done)
        else:
            self.wanted.append(self.done)

    def send_flush(self) -> None:
        at = self.oldest()
        self.flushes.append(at)
        if self.broken == "head-early":
            self.head = self.ram_head = max(self.head, at)

    def answer_flush(self) -> None:
        if self.flushes:
            at = self.flushes.pop(0)
            self.media |= self.cache
            self.cache = {}
            self.ram_head = max(self.ram_head, at)
            # In NVRAM before a slot is used again.
            if self.broken != "head-late":
                self.head = self.ram_head

    def evict(self) -> None:
        for sector in list(self.cache):
            if self.random.random() < 0.3:
                self.media[sector] = self.cache.pop(sector)

    def _some(self, test: Callable[[Write], bool]) -> list[Write]:
        found = [write for write in self.writes if test(write)]
        return [self.random.choice(found)] if found else []

    def crash(self) -> list[str]:
        """With or without the disk's cache; redo; return what is lost."""
        if self.random.random() < 0.3:
            self.media |= self.cache
        lost = []
        for at in range(self.head, self.covered):
            write = self.slot.get(at % self.RING)
            if write is None or write.at != at:
                lost.append(f"slot {at} is damaged")
                continue
            self.media[write.sector] = at + 1
        for sector, newest in self.promised.items():
            if self.media.get(sector, 0) < newest:
                lost.append(f"sector {sector} is {self.media.get(sector, 0)}, not {newest}")
        return lost

    def run(self) -> list[str]:
        steps = (
            self.write, self.write, self.copy, self.copy, self.complete, self.complete,
            self.flush, self.send_flush, self.answer_flush, self.evict,
        )  # fmt: skip
        for _ in range(self.random.randrange(80)):
            self.random.choice(steps)()
        return self.crash()


def test_what_a_flush_has_promised_is_there_after_any_crash() -> None:
    for seed in range(4000):
        assert Model(seed).run() == [], seed


@pytest.mark.parametrize("broken", BROKEN)
def test_broken_rule_is_found(broken: str) -> None:
    assert any(Model(seed, broken).run() for seed in range(4000))
