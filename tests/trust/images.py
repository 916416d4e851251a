# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Images as a kernel authenticates them, and as others change them.

The function is that of Python's library: a judge that shares nothing with format/rem_mac.h.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import format as fmt

KEY_BYTES = int(fmt.CONST["REM_KEY_BYTES"])
HEADER_BYTES = int(fmt.CONST["REM_BODY_HEADER_BYTES"])
MAC = fmt.VIEWS.rem_body.fields["mac"].offset


def field(name: str) -> tuple[int, int]:
    """Place and size of a field of the body's header."""
    of = fmt.VIEWS.rem_body.fields[name]
    return of.offset, len(of.type)


def mac_of(body: bytes, contexts: bytes, key: bytes) -> bytes:
    """Of a whole body."""
    table = hashlib.blake2s(body[HEADER_BYTES:]).digest()
    header = body[:MAC] + bytes(32) + body[MAC + 32 : HEADER_BYTES]
    return hashlib.blake2s(table + contexts + header, key=key).digest()


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

    def authenticate(self, sequence: int, key: bytes) -> None:
        """As a kernel of this boot does in its Stop."""
        trust, at = self.trust(), self.body_at(sequence)
        for name in ("key_counter", "key_phys", "key_id", "measured"):
            place, size = field(name)
            self.write(at + place, int(getattr(trust, name)).to_bytes(size, "little"))
        contexts = self.read(*self.contexts_at(sequence))
        self.write(at + MAC, mac_of(self.body(sequence), contexts, key))
        self.commit(sequence)

    def flip(self, at: int) -> None:
        self.write(at, bytes([self.read(at, 1)[0] ^ 1]))


def key_in(dram: Path, trust: Any) -> bytes:
    """The key of a boot, from the file that DRAM is."""
    with dram.open("rb") as file:
        file.seek(trust.key_phys)
        key = fmt.parse("rem_key", file.read(fmt.size_of("rem_key")))
    assert key.magic == fmt.CONST["REM_KEY_MAGIC"]
    assert key.key_counter == trust.key_counter
    return bytes(key.key)
