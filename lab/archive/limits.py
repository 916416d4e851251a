# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Bounds on what an archive may contain, and the errors that name what exceeded one."""

from __future__ import annotations

from dataclasses import dataclass

from lab.errors import RemError

# PATH_MAX and NAME_MAX of Linux. A longer path could be created step by step and never be opened.
PATH_BYTES_MAX = 4095
NAME_BYTES_MAX = 255
DEPTH_MAX = 256  # nested directories; the deepest that programs create is below 50
ENTRIES_MAX = 1_000_000  # a full desktop system has about 500,000 files
INODE_BYTES = 512  # an inode of ext4 and a directory's entry
SHOWN_CHARACTERS_MAX = 120


class ArchiveError(RemError):
    """The archive is damaged, or holds what is refused."""


def shown(name: str | bytes, characters_max: int = SHOWN_CHARACTERS_MAX) -> str:
    """Return a printable name: it is untrusted; control characters must not reach a terminal."""
    text = name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")
    if len(text) > characters_max:
        text = text[: characters_max - 3] + "..."
    return ascii(text)


@dataclass
class Budget:
    """A bound on written bytes. Charged before each write, so it is never exceeded."""

    left_bytes: int
    advice: str  # how the user can raise the bound
    left_entries: int = ENTRIES_MAX

    def __post_init__(self) -> None:
        self.limit_bytes = self.left_bytes

    @property
    def used_bytes(self) -> int:
        return self.limit_bytes - self.left_bytes

    def charge(self, count_bytes: int) -> None:
        if count_bytes > self.left_bytes:
            raise ArchiveError(
                f"the archive holds more than {self.limit_bytes >> 20} MiB: {self.advice}"
            )
        self.left_bytes -= count_bytes

    def charge_entry(self, count_bytes: int) -> None:
        """Charge a file, directory or link, with its inode."""
        if self.left_entries <= 0:
            raise ArchiveError(f"the archive holds more than {ENTRIES_MAX} files")
        self.left_entries -= 1
        self.charge(count_bytes + INODE_BYTES)
