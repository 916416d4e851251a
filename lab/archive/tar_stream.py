# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Read a tar stream from an untrusted source, in one pass, in bounded memory and time.

Reads the output of GNU tar, busybox, Go and Python: ustar, GNU long names, pax headers. Python's
tarfile parses single header blocks; its reader of whole archives is not used, because an archive
can make its memory, recursion and regular expressions grow without bound.

Refused by name: devices, FIFOs, sparse files, unknown types, absolute names, names with `..`. The
rest is safe only below a directory that is written to as by tree.py.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Protocol

from lab.archive.limits import (
    DEPTH_MAX,
    ENTRIES_MAX,
    NAME_BYTES_MAX,
    PATH_BYTES_MAX,
    ArchiveError,
    shown,
)

BLOCK_BYTES = 512
CHUNK_BYTES = 1 << 20
# One pax header or GNU long name. Extended attributes of a file are at most 64 KiB together.
HEADER_BYTES_MAX = 128 << 10
# Headers before one entry: GNU name and link, pax, and a few global ones.
HEADERS_MAX = 8
TIME_S_MAX = 1 << 40  # far beyond what file systems store
XATTR_PREFIX = "SCHILY.xattr."


class Source(Protocol):
    """The source of the bytes; a short read means the end."""

    def read(self, size: int, /) -> bytes: ...


class Kind(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symbolic link"
    HARDLINK = "hard link"


_KINDS = {
    tarfile.REGTYPE: Kind.FILE,
    tarfile.AREGTYPE: Kind.FILE,
    tarfile.CONTTYPE: Kind.FILE,
    tarfile.DIRTYPE: Kind.DIRECTORY,
    tarfile.SYMTYPE: Kind.SYMLINK,
    tarfile.LNKTYPE: Kind.HARDLINK,
}
_REFUSED = {
    tarfile.CHRTYPE: "a character device",
    tarfile.BLKTYPE: "a block device",
    tarfile.FIFOTYPE: "a FIFO",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}


@dataclass(frozen=True)
class Entry:
    """One member. `path` is relative and has neither empty components nor dots; () is the root."""

    path: tuple[str, ...]
    kind: Kind
    mode: int
    uid: int
    gid: int
    time_ns: int
    size_bytes: int
    link: str  # a symbolic link's target, unchanged; a hard link's name in the archive
    xattrs: dict[str, bytes] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "/".join(self.path) or "."

    @property
    def link_path(self) -> tuple[str, ...]:
        """Components of a hard link's target."""
        return split_path(self.link)


def split_path(name: str) -> tuple[str, ...]:
    """Return the components of a relative name; raise ArchiveError if it could lead outside."""
    if name.startswith("/"):
        raise ArchiveError(f"{shown(name)}: an absolute name")
    if "\0" in name:
        raise ArchiveError(f"{shown(name)}: a NUL in a name")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise ArchiveError(f"{shown(name)}: a name with '..'")
    if len(parts) > DEPTH_MAX:
        raise ArchiveError(f"{shown(name)}: nested more than {DEPTH_MAX} directories deep")
    if len(_encoded(name)) > PATH_BYTES_MAX:
        raise ArchiveError(f"{shown(name)}: a name of more than {PATH_BYTES_MAX} bytes")
    if any(len(_encoded(part)) > NAME_BYTES_MAX for part in parts):
        raise ArchiveError(f"{shown(name)}: a component of more than {NAME_BYTES_MAX} bytes")
    return parts


class TarStream:
    """Iterate over entries(); read the content of each file by content() before the next one."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._left_headers = ENTRIES_MAX * HEADERS_MAX
        self._left_bytes = 0  # of the entry's content
        self._padding_bytes = 0

    def entries(self) -> Iterator[Entry]:
        """Iterate to the end of the archive; a truncated archive is an error."""
        zeros = 0
        while zeros < 2:
            self._skip_content()
            block = self._source.read(BLOCK_BYTES)
            if not block:
                return  # some writers omit the blocks of zeros at the end
            if len(block) == BLOCK_BYTES and block.count(0) == BLOCK_BYTES:
                zeros += 1
                continue
            if zeros:
                raise ArchiveError("the archive is damaged: data after its end")
            yield self._entry(block)

    def content(self) -> Iterator[bytes]:
        """Iterate over the content of the last entry."""
        while self._left_bytes:
            yield self._take(min(self._left_bytes, CHUNK_BYTES))

    def _take(self, size_bytes: int) -> bytes:
        data = self._read(size_bytes)
        self._left_bytes -= size_bytes
        return data

    def _read(self, size_bytes: int) -> bytes:
        data = self._source.read(size_bytes)
        if len(data) != size_bytes:
            raise ArchiveError("the archive ends in the middle")
        return data

    def _skip_content(self) -> None:
        for _ in self.content():
            pass
        self._read(self._padding_bytes)
        self._padding_bytes = 0

    def _entry(self, block: bytes) -> Entry:
        """Return the entry that begins with this block, after the headers that describe it."""
        extended: dict[str, bytes] = {}
        for _ in range(HEADERS_MAX):
            info = self._header(block)
            if info.type == tarfile.GNUTYPE_LONGNAME:
                extended["path"] = _until_nul(self._header_content(info))
            elif info.type == tarfile.GNUTYPE_LONGLINK:
                extended["linkpath"] = _until_nul(self._header_content(info))
            elif info.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
                extended |= parse_pax(self._header_content(info))
            elif info.type == tarfile.XGLTYPE:
                parse_pax(self._header_content(info))  # comments of Git and the like
            else:
                return self._finish(info, extended)
            block = self._read(BLOCK_BYTES)
        raise ArchiveError(f"the archive is damaged: {HEADERS_MAX} headers before one file")

    def _header(self, block: bytes) -> tarfile.TarInfo:
        if self._left_headers <= 0:
            raise ArchiveError(f"the archive holds more than {ENTRIES_MAX} files")
        self._left_headers -= 1
        try:
            return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except (tarfile.TarError, ValueError, OverflowError) as error:
            raise ArchiveError(f"the archive is damaged: {error}") from error

    def _header_content(self, info: tarfile.TarInfo) -> bytes:
        if not 0 <= info.size <= HEADER_BYTES_MAX:
            raise ArchiveError(f"a header of {info.size} bytes: at most {HEADER_BYTES_MAX}")
        data = self._read(info.size)
        self._read(-info.size % BLOCK_BYTES)
        return data

    def _finish(self, info: tarfile.TarInfo, extended: dict[str, bytes]) -> Entry:
        name = _text(extended.get("path"), info.name)
        link = _text(extended.get("linkpath"), info.linkname)
        kind = _KINDS.get(info.type)
        if kind is Kind.FILE and info.type == tarfile.AREGTYPE and name.endswith("/"):
            kind = Kind.DIRECTORY
        if kind is None:
            what = _REFUSED.get(info.type, f"of type {ascii(info.type.decode('latin-1'))}")
            raise ArchiveError(f"{shown(name)} is {what}: refused in an archive")
        if any(key.startswith("GNU.sparse.") for key in extended):
            raise ArchiveError(f"{shown(name)} is a sparse file: refused in an archive")
        size_bytes = _number(extended, "size", info.size) if kind is Kind.FILE else 0
        entry = Entry(
            path=split_path(name),
            kind=kind,
            mode=info.mode & 0o7777,
            uid=_number(extended, "uid", info.uid),
            gid=_number(extended, "gid", info.gid),
            time_ns=_time_ns(extended.get("mtime"), info.mtime),
            size_bytes=size_bytes,
            link=_checked_link(name, link, kind),
            xattrs=_xattrs(extended),
        )
        self._left_bytes, self._padding_bytes = size_bytes, -size_bytes % BLOCK_BYTES
        return entry


def parse_pax(data: bytes) -> dict[str, bytes]:
    """Parse records `LENGTH KEY=VALUE\\n`, in which LENGTH counts all bytes."""
    found: dict[str, bytes] = {}
    at = 0
    while at < len(data):
        space = data.find(b" ", at, at + 8)
        digits = data[at:space] if space > at else b""
        end = at + int(digits) if digits.isdigit() else 0
        key, equals, value = data[space + 1 : end - 1].partition(b"=")
        if not at <= space < end or not key or not equals or data[end - 1 : end] != b"\n":
            raise ArchiveError("the archive is damaged: an invalid pax header")
        found[key.decode("utf-8", "surrogateescape")] = value
        at = end
    return found


def _checked_link(name: str, link: str, kind: Kind) -> str:
    if kind is Kind.HARDLINK:
        if not split_path(link):
            raise ArchiveError(f"{shown(name)}: a hard link to nothing")
        return link
    if kind is not Kind.SYMLINK:
        return ""
    if not link or "\0" in link or len(_encoded(link)) > PATH_BYTES_MAX:
        raise ArchiveError(f"{shown(name)}: a symbolic link without a valid target")
    return link


def _xattrs(extended: dict[str, bytes]) -> dict[str, bytes]:
    start = len(XATTR_PREFIX)
    return {k[start:]: v for k, v in extended.items() if k.startswith(XATTR_PREFIX)}


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _until_nul(data: bytes) -> bytes:
    return data.partition(b"\0")[0]


def _text(extended: bytes | None, plain: str) -> str:
    return plain if extended is None else extended.decode("utf-8", "surrogateescape")


def _number(extended: dict[str, bytes], key: str, plain: int) -> int:
    raw = extended.get(key)
    if raw is not None and not (raw.isdigit() and len(raw) <= 19):
        raise ArchiveError(f"the archive is damaged: {key} {ascii(raw[:20])}")
    value = plain if raw is None else int(raw)
    limit = (1 << 63) - 1 if key == "size" else (1 << 32) - 2
    if not 0 <= value <= limit:
        raise ArchiveError(f"the archive is damaged: {key} {value}")
    return value


def _time_ns(raw: bytes | None, plain_s: float) -> int:
    try:
        time_s = Decimal(plain_s) if raw is None else Decimal(raw[:40].decode("ascii"))
    except (InvalidOperation, UnicodeDecodeError) as error:
        raise ArchiveError("the archive is damaged: an invalid time") from error
    if not time_s.is_finite() or not -TIME_S_MAX <= time_s <= TIME_S_MAX:
        return 0  # a wrong time is harmless, and some writers produce one
    return int(time_s * 10**9)
