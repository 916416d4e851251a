# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Images as a kernel authenticates them, and as others change them.

The function is that of Python's library, and the sum of text is made with Python's numbers: judges
that share nothing with format/rem_mac.h and format/rem_text.h.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import format as fmt

KEY_BYTES = int(fmt.CONST["REM_KEY_BYTES"])
HEADER_BYTES = int(fmt.CONST["REM_BODY_HEADER_BYTES"])
MAC = fmt.VIEWS.rem_body.fields["mac"].offset
PAGE_BYTES = int(fmt.CONST["REM_TEXT_PAGE_BYTES"])
CHUNK_BYTES, MODULUS, WORD = 512, 2**130 - 5, 2**64
# Where the images of tests have text and read-only data, and how many pages of each.
TEXT_AT, TEXT_PAGES, RODATA_PAGE, RODATA_PAGES = 0x300000, 3, 5, 2


def field(name: str) -> tuple[int, int]:
    """Place and size of a field of the body's header."""
    of = fmt.VIEWS.rem_body.fields[name]
    return of.offset, len(of.type)


def mac_of(body: bytes, contexts: bytes, text_sum: bytes, key: bytes) -> bytes:
    """Of a whole body."""
    table = hashlib.blake2s(body[HEADER_BYTES:]).digest()
    header = body[:MAC] + bytes(32) + body[MAC + 32 : HEADER_BYTES]
    return hashlib.blake2s(table + contexts + text_sum + header, key=key).digest()


def sum_of(data: bytes, text_key: Sequence[int]) -> int:
    """Of text and read-only data, one after the other."""
    r, k = text_key[0] + text_key[1] * WORD, text_key[2:]
    total = 0
    for m in struct.iter_unpack(f"<{CHUNK_BYTES // 8}Q", data):
        factors = [(word + add) % WORD for word, add in zip(m, k, strict=True)]
        total += sum(a * b for a, b in zip(factors[::2], factors[1::2], strict=True))
        total = total * r % MODULUS
    return total


def number(words: Sequence[int]) -> int:
    """Of a sum in the page of the key."""
    return sum(word * WORD**n for n, word in enumerate(words)) % MODULUS


@dataclass
class Nvram:
    """The file of a machine's NVRAM, which begins with the record block."""

    path: Path
    phys: int

    def read(self, at: int, size_bytes: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(at)
            return file.read(size_bytes)

    def write(self, at: int, data: bytes) -> None:
        with self.path.open("r+b") as file:
            file.seek(at)
            file.write(data)

    def trust(self) -> Any:
        """What the loader has said of the key."""
        return fmt.parse("rem_trust", self.read(fmt.CONST["REM_TRUST_OFFSET"], 64))

    def newest(self) -> int:
        """The number of the last image that was committed."""
        first, step = fmt.CONST["REM_COMMIT_OFFSET"], fmt.CONST["REM_COMMIT_STRIDE_BYTES"]
        slots = range(int(fmt.CONST["REM_SLOTS"]))
        words = (self.read(int(first + n * step), fmt.size_of("rem_word")) for n in slots)
        return max(int(fmt.parse("rem_word", word).sequence) for word in words)

    def body_at(self, sequence: int) -> int:
        slot = sequence % int(fmt.CONST["REM_SLOTS"])
        return int(fmt.CONST["REM_BODY_OFFSET"] + slot * fmt.CONST["REM_BODY_STRIDE_BYTES"])

    def body(self, sequence: int) -> bytes:
        at = self.body_at(sequence)
        size = fmt.parse("rem_body", self.read(at, HEADER_BYTES)).body_bytes
        return self.read(at, size)

    def contexts_at(self, sequence: int) -> tuple[int, int]:
        """Their place in the file, and their size."""
        header = fmt.parse("rem_body", self.read(self.body_at(sequence), HEADER_BYTES))
        return header.context_phys - self.phys, header.context_bytes * header.cpu_count

    def text_at(self, sequence: int) -> list[tuple[int, int]]:
        """The places in the file of text and read-only data, and their sizes; none: no sum."""
        header = fmt.parse("rem_body", self.read(self.body_at(sequence), HEADER_BYTES))
        text = header.text_phys - self.phys
        rodata = text + header.rodata_page * PAGE_BYTES
        both = [(text, header.text_pages), (rodata, header.rodata_pages)]
        return [(at, pages * PAGE_BYTES) for at, pages in both if header.text_pages]

    def text_sum(self, sequence: int, text_key: Sequence[int]) -> int:
        data = b"".join(self.read(*place) for place in self.text_at(sequence))
        return sum_of(data, text_key)

    def _put_fields(self, sequence: int, fields: dict[str, int]) -> None:
        for name, value in fields.items():
            place, size = field(name)
            self.write(self.body_at(sequence) + place, value.to_bytes(size, "little"))

    def put_text(self, sequence: int, counter: int) -> None:
        """Say in an image that a kernel has text, and put some there."""
        self.write(TEXT_AT, bytes(i * i % 251 for i in range(8 * PAGE_BYTES)))
        fields = {"text_phys": self.phys + TEXT_AT, "text_pages": TEXT_PAGES}
        fields |= {"rodata_page": RODATA_PAGE, "rodata_pages": RODATA_PAGES}
        self._put_fields(sequence, {**fields, "text_counter": counter})

    def commit(self, sequence: int) -> None:
        """Make the checksums right, as everybody can."""
        body = bytearray(self.body(sequence))
        at, size = field("header_crc")
        covered = body[: fmt.CONST["REM_BODY_HEADER_CRC_BYTES"]]
        body[at : at + size] = fmt.crc32c(bytes(covered)).to_bytes(4, "little")
        self.write(self.body_at(sequence), bytes(body))
        check = fmt.commit_check(sequence, fmt.crc32c(bytes(body)))
        slot = sequence % int(fmt.CONST["REM_SLOTS"])
        at = int(fmt.CONST["REM_COMMIT_OFFSET"] + slot * fmt.CONST["REM_COMMIT_STRIDE_BYTES"])
        self.write(at, sequence.to_bytes(4, "little") + check.to_bytes(4, "little"))

    def authenticate(self, sequence: int, key: Any) -> None:
        """As a kernel of this boot does in its Stop, by its page with the key."""
        trust = self.trust()
        names = ("key_counter", "key_phys", "key_id", "measured")
        self._put_fields(sequence, {name: int(getattr(trust, name)) for name in names})
        contexts = self.read(*self.contexts_at(sequence))
        total = b""
        if self.text_at(sequence):
            total = self.text_sum(sequence, list(key.text_key)).to_bytes(24, "little")
        mac = mac_of(self.body(sequence), contexts, total, bytes(key.key))
        self.write(self.body_at(sequence) + MAC, mac)
        self.commit(sequence)

    def flip(self, at: int) -> None:
        self.write(at, bytes([self.read(at, 1)[0] ^ 1]))


def key_page_in(dram: Path, trust: Any) -> Any:
    """What the loader has handed over to the kernel of a boot, from the file that DRAM is."""
    with dram.open("rb") as file:
        file.seek(trust.key_phys)
        key = fmt.parse("rem_key", file.read(fmt.size_of("rem_key")))
    assert key.magic == fmt.CONST["REM_KEY_MAGIC"]
    assert key.key_counter == trust.key_counter
    return key


def key_in(dram: Path, trust: Any) -> bytes:
    """The key of a boot."""
    return bytes(key_page_in(dram, trust).key)
