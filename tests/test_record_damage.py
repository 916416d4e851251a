# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a damaged record is never entered, the reason is reported, and with a damaged newest image
the older one is not entered either (invariants 1, 2 and 3).

Method: a machine stops twice, so that both slots hold a committed image. The consumed word is set
back (as if neither had been entered, which no machine does), so that the older one would be entered
if it were checked alone. Then the record is damaged and the real loader decides. The loader's unit
tests flip every bit; this is a sample of them, end to end.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from lab import format as fmt
from tests.support.trials import Bed, bed

CONST = fmt.CONST
WORD_BYTES = 8
HEADER_BYTES = int(CONST["REM_BODY_HEADER_BYTES"])
CONSUMED_AT = int(CONST["REM_CONSUMED_OFFSET"])
SEED = 3


@dataclass(frozen=True)
class Slot:
    """The place of a committed image in the block."""

    index: int
    sequence: int
    commit_at: int
    body_at: int
    body_bytes: int

    @property
    def word(self) -> slice:
        return slice(self.commit_at, self.commit_at + WORD_BYTES)

    @property
    def body(self) -> slice:
        return slice(self.body_at, self.body_at + self.body_bytes)


@dataclass(frozen=True)
class Image:
    """A block with two images that could be entered."""

    block: bytes
    newest: Slot
    older: Slot


def slot_of(block: bytes, index: int) -> Slot:
    commit_at = int(CONST["REM_COMMIT_OFFSET"] + index * CONST["REM_COMMIT_STRIDE_BYTES"])
    body_at = int(CONST["REM_BODY_OFFSET"] + index * CONST["REM_BODY_STRIDE_BYTES"])
    body = fmt.parse("rem_body", block[body_at:])
    return Slot(index, int(body.sequence), commit_at, body_at, int(body.body_bytes))


@pytest.fixture(scope="module")
def it() -> Iterator[Bed]:
    with bed("damage", stops=2) as it:
        yield it


@pytest.fixture(scope="module")
def image(it: Bed) -> Image:
    block = it.read_block()
    slots = sorted((slot_of(block, n) for n in range(2)), key=lambda slot: slot.sequence)
    older, newest = slots
    consumed = older.sequence - 1
    word = struct.pack("<II", consumed, fmt.consumed_check(consumed))
    block[CONSUMED_AT : CONSUMED_AT + WORD_BYTES] = word
    return Image(bytes(block), newest, older)


def decide(it: Bed, block: bytes) -> str:
    """The real loader's decision on this block; its own note must be valid."""
    it.write_block(block)
    return it.boot_decision().reason


def flipped(block: bytes, at: int, bit: int) -> bytes:
    damaged = bytearray(block)
    damaged[at + bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def sample(bits: int, always: tuple[int, ...], count: int) -> list[int]:
    others = random.Random(SEED).sample(range(bits), min(count, bits))
    return sorted({*always, *others})


# The reason for a flipped bit in each area; derived from the format, not from the loader.


def consumed_reason(bit: int) -> set[str]:
    del bit
    return {"COLD_CONSUMED_INVALID"}


def commit_reason(bit: int) -> set[str]:
    return {"COLD_COMMIT_DAMAGED"} if bit < 32 else {"COLD_BODY_CRC"}


def block_reason(bit: int) -> set[str]:
    return {"COLD_NO_BLOCK"} if bit < 64 else {"COLD_BLOCK_VERSION"}


def body_reason(bit: int) -> set[str]:
    byte = bit // 8
    if byte < 8:
        return {"COLD_BODY_MAGIC"}
    if byte < 12:
        return {"COLD_BODY_VERSION"}
    if byte < 16:
        return {"COLD_BODY_SIZE", "COLD_BODY_CRC"}  # a plausible size is caught by the checksum
    return {"COLD_BODY_CRC"}


@dataclass(frozen=True)
class Area:
    """Bytes of the block, and the reason for damage there."""

    name: str
    at: Callable[[Image], int]
    bytes_: Callable[[Image], int]
    reason: Callable[[int], set[str]]
    always: tuple[int, ...]  # bits that each tier flips

    def __str__(self) -> str:
        return self.name


AREAS = (
    Area("consumed", lambda i: CONSUMED_AT, lambda i: 8, consumed_reason, (0, 1, 31, 32, 63)),
    Area("newest commit", lambda i: i.newest.commit_at, lambda i: 8, commit_reason, (0, 1, 33)),
    Area("older commit", lambda i: i.older.commit_at, lambda i: 8, commit_reason, (1, 63)),
    Area("block header", lambda i: 0, lambda i: 64, block_reason, (0, 64, 511)),
    Area(
        "newest body's header",
        lambda i: i.newest.body_at,
        lambda i: HEADER_BYTES,
        body_reason,
        (0, 64, 96, 100, 128, 160, 8 * 48),
    ),
    Area(
        "older body's header", lambda i: i.older.body_at, lambda i: 256, body_reason, (96, 8 * 56)
    ),
    Area(
        "newest body's table",
        lambda i: i.newest.body_at + HEADER_BYTES,
        lambda i: i.newest.body_bytes - HEADER_BYTES,
        lambda bit: {"COLD_BODY_CRC"},
        (0,),
    ),
)


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("area", AREAS, ids=str)
def test_flipped_bit_is_never_entered(it: Bed, image: Image, area: Area) -> None:
    flip_bits(it, image, area, 1)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("area", AREAS, ids=str)
def test_many_flipped_bits_are_never_entered(it: Bed, image: Image, area: Area) -> None:
    flip_bits(it, image, area, 64)


def flip_bits(it: Bed, image: Image, area: Area, count: int) -> None:
    for bit in sample(8 * area.bytes_(image), area.always, count):
        reason = decide(it, flipped(image.block, area.at(image), bit))
        assert reason in area.reason(bit), f"bit {bit} of the {area}: {reason}"


@pytest.mark.full
@pytest.mark.timeout(300)
def test_cut_off_body_is_never_entered(it: Bed, image: Image) -> None:
    body = image.block[image.newest.body]
    last = len(body.rstrip(b"\0")) - 1  # the table may end in zeros
    for kept, reason in ((0, "MAGIC"), (16, "CRC"), (HEADER_BYTES, "CRC"), (last, "CRC")):
        block = bytearray(image.block)
        block[image.newest.body] = body[:kept].ljust(len(body), b"\0")
        assert decide(it, block) == f"COLD_BODY_{reason}", f"only {kept} bytes are there"


@pytest.mark.full
@pytest.mark.timeout(300)
def test_swapped_slots_are_never_entered(it: Bed, image: Image) -> None:
    new, old = image.newest, image.older
    assert new.body_bytes == old.body_bytes
    for what in (("word", "body"), ("word",), ("body",)):
        block = bytearray(image.block)
        for part in what:
            here, there = getattr(new, part), getattr(old, part)
            block[here], block[there] = image.block[there], image.block[here]
        assert decide(it, block) == "COLD_COMMIT_DAMAGED", f"swapped: {what}"


@pytest.mark.full
@pytest.mark.timeout(300)
def test_zeros_and_ones_are_never_valid(it: Bed, image: Image) -> None:
    ones, zeros = b"\xff" * WORD_BYTES, bytes(WORD_BYTES)
    block = bytearray(image.block)
    for word in (zeros, ones):
        block[CONSUMED_AT : CONSUMED_AT + WORD_BYTES] = word
        assert decide(it, block) == "COLD_CONSUMED_INVALID"
    block = bytearray(image.block)
    block[image.newest.word] = ones
    assert decide(it, block) == "COLD_COMMIT_DAMAGED"
    assert decide(it, bytes(len(block))) == "COLD_NO_BLOCK"
    assert decide(it, b"\xff" * len(block)) == "COLD_NO_BLOCK"


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", ["word", "body"])
def test_damaged_newest_image_closes_the_older_for_good(it: Bed, image: Image, part: str) -> None:
    """Even if the damage disappears, or the newest slot is emptied, after the refusal."""
    damaged = flipped(image.block, getattr(image.newest, part).start + 5, 3)
    it.write_block(damaged)
    refused = it.boot_decision()
    assert not refused.resumed
    after = it.read_block()
    healed = bytearray(after)
    for at in (image.newest.word, image.newest.body, image.older.word, image.older.body):
        healed[at] = image.block[at]
    assert decide(it, healed) == "COLD_ALREADY_CONSUMED", "healed damage was entered"
    emptied = bytearray(after)
    emptied[image.newest.word] = bytes(WORD_BYTES)
    assert decide(it, emptied) == "COLD_ALREADY_CONSUMED", "the older image was entered"


@pytest.mark.full
@pytest.mark.timeout(300)
def test_damaged_consumed_word_closes_both_for_good(it: Bed, image: Image) -> None:
    """Even if the word, or all words, read right again after the refusal."""
    it.write_block(flipped(image.block, CONSUMED_AT, 33))
    assert it.boot_decision().reason == "COLD_CONSUMED_INVALID"
    after = it.read_block()
    healed = bytearray(after)
    word = slice(CONSUMED_AT, CONSUMED_AT + WORD_BYTES)
    healed[word] = image.block[word]
    assert not it_resumes(it, healed), "with the consumed word as it was"
    healed = bytearray(after)
    for at in (image.newest.word, image.older.word):
        healed[at] = image.block[at]
    assert not it_resumes(it, healed), "with the commit words as they were"


def it_resumes(it: Bed, block: bytes) -> bool:
    it.write_block(block)
    return it.boot_decision().resumed


@pytest.mark.full
@pytest.mark.timeout(300)
def test_undamaged_image_is_entered(it: Bed, image: Image) -> None:
    """Last: the same block without damage resumes, so the damage caused all refusals above."""
    it.restore()
    it.write_block(image.block)
    note = it.resume()
    assert note.sequence == image.newest.sequence
    assert it.kept()


@pytest.mark.in_turn
@pytest.mark.full
@pytest.mark.timeout(300)
def test_next_kernel_names_the_damage(it: Bed, image: Image) -> None:
    """And the kernel makes a new record that the next Stop can use."""
    it.restore()
    it.write_block(flipped(image.block, image.newest.commit_at, 40))
    assert it.cold_boot().reason == "COLD_BODY_CRC"
    assert it.last_boot() == "body-crc"
    assert it.kept()
    it.machine.guest.close()
    assert it.machine.cut().stopped
    assert it.resume().sequence == image.newest.sequence + 1
