# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A census of programs: what their segments hold, from their headers alone.

`off2f scan` counts each executable segment as text and each writable one as data; `Program` has the
parts that another linker would put elsewhere. All bytes are of the file, except `zeroed_bytes`,
which a program gets in memory only, and `text_bytes`, which are whole pages of memory, as in XYZ.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import InfraError
from lab.run import run
from lab.setup.off2f import Off2fTool
from lab.setup.products import need
from lab.setup.root import RootBase

PAGE_BYTES = 4096
# System V ABI, AMD64 supplement: offsets in the headers of a 64-bit ELF file, kinds, flags.
MAGIC = b"\x7fELF\x02\x01"
PHOFF_AT, PHNUM_AT, PHDR_BYTES = 32, 56, 56
SHOFF_AT, SHNUM_AT, SHDR_BYTES = 40, 60, 64
LOAD = 1
EXECUTABLE, WRITABLE = 1, 2
# Constants with addresses in them, which a program that is relocated cannot have in .rodata.
RELOCATED = b".data.rel.ro"
MUCH_PERCENT = 10  # OFF2F paper, section I: data of so much of the file
_REFUSED = re.compile(r"^refused +(\d+) +(.+)$", re.M)


@dataclass(frozen=True)
class Segment:
    """One program header."""

    kind: int
    flags: int
    offset: int  # of its bytes in the file
    vaddr: int
    file_bytes: int
    memory_bytes: int


@dataclass(frozen=True)
class Program:
    """One program of a folder."""

    name: str
    file_bytes: int
    text_bytes: int
    read_only_bytes: int  # neither executable nor writable: constants, tables of the linker
    data_bytes: int
    relocated_bytes: int  # of the data, constants that ld.so relocates
    zeroed_bytes: int
    loaded_bytes: int  # of all segments: the file without padding, symbols and section headers


def segments(elf: bytes) -> Iterator[Segment]:
    """The program headers of a 64-bit ELF file; none of another file."""
    if not elf.startswith(MAGIC):
        return
    (first,) = struct.unpack_from("<Q", elf, PHOFF_AT)
    (count,) = struct.unpack_from("<H", elf, PHNUM_AT)
    for at in range(first, first + count * PHDR_BYTES, PHDR_BYTES):
        kind, flags, offset, vaddr, _, file_bytes, memory_bytes = struct.unpack_from(
            "<IIQQQQQ", elf, at
        )
        yield Segment(kind, flags, offset, vaddr, file_bytes, memory_bytes)


def section_bytes(elf: bytes, wanted: bytes) -> int:
    """The size of a section, by its name; 0 if there is none."""
    (first,) = struct.unpack_from("<Q", elf, SHOFF_AT)
    count, of_names = struct.unpack_from("<HH", elf, SHNUM_AT)
    at = [first + number * SHDR_BYTES for number in range(count)]
    headers = [struct.unpack_from("<I20xQQ", elf, one) for one in at]  # name, offset, size
    if not headers:
        return 0
    names = headers[of_names][1]
    named = (size for name, _, size in headers
             if elf.startswith(wanted + b"\0", names + name))  # fmt: skip
    return sum(named)


def pages_bytes(begin: int, end: int) -> int:
    """Bytes of the whole pages that hold this range."""
    return -(-end // PAGE_BYTES) * PAGE_BYTES - begin // PAGE_BYTES * PAGE_BYTES


def program(name: str, elf: bytes) -> Program:
    """What the segments of one file hold."""
    text_bytes = read_only_bytes = data_bytes = zeroed_bytes = loaded_bytes = 0
    for one in segments(elf):
        if one.kind != LOAD:
            continue
        loaded_bytes += one.file_bytes
        if one.flags & EXECUTABLE:
            text_bytes += pages_bytes(one.vaddr, one.vaddr + one.file_bytes)
        elif one.flags & WRITABLE:
            data_bytes += one.file_bytes
            zeroed_bytes += one.memory_bytes - one.file_bytes
        else:
            read_only_bytes += one.file_bytes
    return Program(
        name,
        len(elf),
        text_bytes,
        read_only_bytes,
        data_bytes,
        section_bytes(elf, RELOCATED),
        zeroed_bytes,
        loaded_bytes,
    )


def is_much(data_bytes: int, whole_bytes: int) -> bool:
    """Whether so much data is what the paper counts."""
    return data_bytes * 100 >= whole_bytes * MUCH_PERCENT


def files(folder: Path) -> Iterator[Path]:
    """Regular files of a folder, each once, whatever number of names it has."""
    seen = set()
    for path in sorted(folder.iterdir()):
        about = path.lstat()
        if path.is_symlink() or not path.is_file() or about.st_ino in seen:
            continue
        seen.add(about.st_ino)
        yield path


def programs(folder: Path) -> list[Program]:
    """The 64-bit ELF programs of a folder."""
    read = ((path.name, path.read_bytes()) for path in files(folder))
    return [program(name, data) for name, data in read if data.startswith(MAGIC)]


def scanned(folder: Path) -> dict[str, Any]:
    """What `off2f scan` counts there, by figure, and `refused`: the number of ELFs by reason."""
    tool = need(Off2fTool())
    done = run([tool, "scan", folder, "--largest", "0", "--json"], what="off2f scan")
    figures = json.loads(done.stdout)["figures"]
    found: dict[str, Any] = {name: figure["value"] for name, figure in figures.items()}
    found["refused"] = {why: int(count) for count, why in _REFUSED.findall(done.stderr)}
    return found


def packages(tree: Path) -> dict[str, str]:
    """The installed packages of a root, with their versions."""
    path = tree / "var" / "lib" / "dpkg" / "status"
    found = {}
    for entry in path.read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.+)$", entry, re.M))
        if fields.get("Status") == "install ok installed":
            found[fields["Package"]] = fields["Version"]
    if not found:
        raise InfraError(f"{path} has no installed package")
    return found


def digest_of(versions: Iterable[tuple[str, str]]) -> str:
    """One word for a list of packages with their versions."""
    lines = "".join(f"{name} {version}\n" for name, version in sorted(versions))
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def guest_tree() -> Path:
    """The unpacked root of the laboratory's guests: Debian packages, and nothing of ours."""
    return need(RootBase())
