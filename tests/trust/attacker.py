# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a kernel can ask the TPM for, which the loader has used before it: as root of a guest would,
but by the registers of the command buffer, from outside.

Commands are those of loader/core/tpm.c, written a second time from TPM 2.0 Library, part 3.
"""

from __future__ import annotations

import struct
import time

from tests.support.gdb_remote import Gdb

BASE = 0xFED40000
LOCALITY_CONTROL, REQUEST, START, ANSWER, DATA = 0x08, 0x40, 0x4C, 0x68, 0x80
SHA256, KEYEDHASH, HMAC_SCHEME, NONE = 0x0B, 0x08, 0x05, 0x10
OWNER, NULL, PASSWORD = 0x40000001, 0x40000007, 0x40000009
PCRS = struct.pack(">IHB", 1, SHA256, 3) + bytes([0b10010101, 0b01000000, 0])
ROOT_ATTRIBUTES = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 10 | 1 << 18
LIMIT_S = 30.0


class Attacker:
    """Has the TPM of a machine that is stopped in *gdb*."""

    def __init__(self, gdb: Gdb) -> None:
        self._gdb = gdb
        gdb.physical()
        self._store(LOCALITY_CONTROL, 1)
        self._store(REQUEST, 1)  # ready
        self._wait(REQUEST)

    def _store(self, at: int, value: int) -> None:
        self._gdb.write(BASE + at, value.to_bytes(4, "little"))

    def _load(self, at: int) -> int:
        return int.from_bytes(self._gdb.read(BASE + at, 4), "little")

    def _wait(self, at: int) -> None:
        """Until its lowest bit is zero."""
        end_s = time.monotonic() + LIMIT_S
        while self._load(at) & 1:
            assert time.monotonic() < end_s, f"the TPM does not answer (register {at:#x})"
            time.sleep(0.01)

    def ask(self, command: int, rest: bytes, sessions: bool = False) -> tuple[int, bytes]:
        """The code of its answer, and what follows."""
        tag = 0x8002 if sessions else 0x8001
        self._gdb.write(BASE + DATA, struct.pack(">HII", tag, len(rest) + 10, command) + rest)
        self._store(START, 1)
        self._wait(START)
        head = self._gdb.read(BASE + DATA, 10)
        size, code = struct.unpack(">II", head[2:])
        return code, self._gdb.read(BASE + DATA, size)[10:]

    def _done(self, command: int, rest: bytes, sessions: bool = False) -> bytes:
        code, answer = self.ask(command, rest, sessions)
        assert code == 0, f"the TPM answers {code:#x} to {command:#x}"
        return answer

    def key(self, label: bytes, number: int) -> bytes | None:
        """The loader's key with this label and number; None if the TPM refuses."""
        words = struct.pack(">IIH", NULL, NULL, 16) + bytes(18) + b"\x01"
        words += struct.pack(">HH", NONE, SHA256)
        session = self._done(0x176, words)[:4]
        self._done(0x17F, session + bytes(2) + PCRS)
        policy = self._done(0x189, session)
        password = struct.pack(">IIHBH", 9, PASSWORD, 0, 0, 0)
        public = struct.pack(">HHI", KEYEDHASH, SHA256, ROOT_ATTRIBUTES) + policy
        public += struct.pack(">HHH", HMAC_SCHEME, SHA256, 0)
        words = struct.pack(">I", OWNER) + password + struct.pack(">HHH", 4, 0, 0)
        words += struct.pack(">H", len(public)) + public + bytes(6)
        root = self._done(0x131, words, sessions=True)[:4]
        area = struct.pack(">I", 9) + session + bytes(2) + b"\x01" + bytes(2)
        data = label + number.to_bytes(8, "big")
        words = root + area + struct.pack(">H", len(data)) + data + struct.pack(">H", NONE)
        code, answer = self.ask(0x155, words, sessions=True)
        return answer[6:38] if code == 0 else None
