# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Every lost line with its owner and its last writer, and their sums."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.errors import InfraError, RemError
from lab.lost_lines.kernel import DAMAGE, Kernel, Symbols
from lab.lost_lines.memory import LINE_BYTES, View, lost_lines
from lab.lost_lines.pages import Owner, Pages
from lab.lost_lines.writers import Writers, place_of
from lab.machine.qemu import NVRAM_PHYS

# A device wrote it, or a page walk, or a CPU before power-on.
UNSEEN = "no store seen"
NOT_KNOWN = Owner("unknown", "no kernel to read")


@dataclass(frozen=True)
class Source:
    """The files to compare. *kernel* returns System.map and layout (lab/setup/layout.py) of the
    kernel that ran, which may take a while: it is called only if something was lost.
    """

    seen: Path
    media: Path
    writers: Path | None = None
    kernel: Callable[[], tuple[Path, Path]] | None = None
    firmware_bytes: int = 0  # at the beginning of the files: nothing there is kept


@dataclass(frozen=True)
class LostLine:
    """One line."""

    offset: int  # in NVRAM
    last: int  # the last byte of it that differs
    owner: Owner
    writer: str
    pc: int | None
    cpu: int | None
    time_ns: int | None


@dataclass
class Group:
    """All lines of one owner."""

    owner: Owner
    lines: int
    writers: Counter[str]
    last_ns: int | None  # the latest store to any of them
    first_offset: int


@dataclass(frozen=True)
class Loss:
    """What a cut lost."""

    lines: tuple[LostLine, ...]
    groups: tuple[Group, ...]  # the largest first
    problems: tuple[str, ...]

    @property
    def kinds(self) -> dict[str, int]:
        """Lines of each kind of owner, the most first."""
        return dict(Counter(line.owner.kind for line in self.lines).most_common())

    def as_dict(self, top: int) -> dict[str, Any]:
        return {
            "lost_lines": len(self.lines),
            "kinds": self.kinds,
            "top": [_as_dict(group) for group in self.groups[:top]],
            "problems": list(self.problems),
        }


def _as_dict(group: Group) -> dict[str, Any]:
    return {
        **asdict(group.owner),
        "lines": group.lines,
        "first_offset": group.first_offset,
        "last_written_ns": group.last_ns,
        "writers": dict(group.writers.most_common(3)),
    }


def loss_of(source: Source) -> Loss:
    """Compare the files and read the kernel that ran. Without one, lines have no owners."""
    seen, media = View(source.seen), View(source.media)
    try:
        lost = lost_lines(seen, media, source.firmware_bytes)
        pages, symbols, problems = _read_kernel(source, seen) if lost else (None, None, [])
        writers = Writers(source.writers)
        lines = []
        for line in lost:
            offset = line.line * LINE_BYTES + line.first
            owner = pages.owner(offset) if pages else NOT_KNOWN
            writer = writers.of(line.line)
            place = UNSEEN if writers.known else "not recorded"
            if writer is not None:
                process = pages.process_of(offset) if pages else None
                place = place_of(writer.pc, symbols, process)
            lines.append(
                LostLine(
                    line.line * LINE_BYTES, line.last, owner, place,
                    writer.pc if writer else None,
                    writer.cpu if writer else None,
                    writer.time_ns if writer else None,
                )
            )  # fmt: skip
        if pages:
            problems += pages.users.damaged
        return Loss(tuple(lines), _groups(lines), tuple(dict.fromkeys(problems)))
    finally:
        seen.close()
        media.close()


def _read_kernel(source: Source, seen: View) -> tuple[Pages | None, Symbols | None, list[str]]:
    if source.kernel is None:
        return None, None, ["the kernel is unknown: no owners"]
    try:
        system_map, layout = source.kernel()
    except RemError as error:
        return None, None, [f"no owners of lost lines: {error.message}"]
    symbols = Symbols(system_map)
    try:
        return Pages(Kernel(seen, symbols, layout)), symbols, []
    except InfraError:
        raise
    except (RemError, *DAMAGE) as error:
        text = error.message if isinstance(error, RemError) else f"the kernel is damaged: {error}"
        return None, symbols, [text]


def _groups(lines: list[LostLine]) -> tuple[Group, ...]:
    groups: dict[Owner, Group] = {}
    for line in lines:
        group = groups.get(line.owner)
        if group is None:
            group = groups[line.owner] = Group(line.owner, 0, Counter(), None, line.offset)
        group.lines += 1
        group.writers[line.writer] += 1
        if line.time_ns is not None:
            group.last_ns = max(group.last_ns or 0, line.time_ns)
    return tuple(sorted(groups.values(), key=lambda g: (-g.lines, g.owner.kind, g.owner.name)))


def _rows(loss: Loss) -> Iterator[list[Any]]:
    yield ["phys", "kind", "owner", "process", "writer", "pc", "cpu", "time_ns"]
    for line in loss.lines:
        owner = line.owner
        pc = "" if line.pc is None else f"{line.pc:#x}"
        yield [
            f"{NVRAM_PHYS + line.offset:#x}", owner.kind, owner.name, owner.process or "",
            line.writer, pc, line.cpu, line.time_ns,
        ]  # fmt: skip


def write_csv(loss: Loss, path: Path) -> None:
    """Every line, one a row."""
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(_rows(loss))
    except OSError as error:
        raise InfraError(f"cannot write {path}: {error.strerror}") from error
