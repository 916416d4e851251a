# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tar archives for tests of what reads them: ordinary ones, and ones that no tool would write."""

from __future__ import annotations

import io
import tarfile
from dataclasses import dataclass, field

TIME_S = 1_700_000_000


@dataclass
class Archive:
    """Collects members; bytes() is the archive."""

    form: int = tarfile.PAX_FORMAT
    _out: io.BytesIO = field(default_factory=io.BytesIO)

    def __post_init__(self) -> None:
        self._tar = tarfile.TarFile(fileobj=self._out, mode="w", format=self.form)

    def add(
        self, name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", **more: object
    ) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.size, info.mtime = kind, len(data), TIME_S
        info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
        for key, value in more.items():
            setattr(info, key, value)
        self._tar.addfile(info, io.BytesIO(data))

    def file(self, name: str, data: bytes = b"content", **more: object) -> None:
        self.add(name, tarfile.REGTYPE, data, **more)

    def directory(self, name: str, **more: object) -> None:
        self.add(name, tarfile.DIRTYPE, **more)

    def symlink(self, name: str, target: str) -> None:
        self.add(name, tarfile.SYMTYPE, linkname=target)

    def hardlink(self, name: str, target: str) -> None:
        self.add(name, tarfile.LNKTYPE, linkname=target)

    def bytes(self) -> bytes:
        self._tar.close()
        return self._out.getvalue()


def header(name: str, kind: bytes, size_bytes: int = 0, **more: object) -> bytes:
    """One header block with the given fields, valid or not."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size_bytes
    for key, value in more.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.GNU_FORMAT)


def block(data: bytes) -> bytes:
    """Padded to whole blocks."""
    return data + bytes(-len(data) % tarfile.BLOCKSIZE)


def pax(records: bytes) -> bytes:
    """A pax header with this content, not checked."""
    return header("pax", tarfile.XHDTYPE, len(records)) + block(records)
