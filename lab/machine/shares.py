# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Folders of the host that a guest shares, as a person names them. The server: share_server.py."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.errors import UsageError

PORT_FIRST = 5640
GUEST_PATH_DEFAULT = "/host"
# Also a word of the kernel's command line, and of a shell script in the guest.
_GUEST_PATH = re.compile(r"(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)+")


@dataclass(frozen=True)
class Share:
    """One folder."""

    host: Path
    guest: str
    read_only: bool

    @staticmethod
    def parse(text: str) -> Share:
        """`DIR`, `DIR:GUESTPATH`, either with `,ro`."""
        place, comma, option = text.rpartition(",")
        if comma and option not in ("ro", "rw"):
            place, option = text, ""
        host, _, guest = (place or text).partition(":")
        guest = guest or GUEST_PATH_DEFAULT
        if not _GUEST_PATH.fullmatch(guest):
            raise UsageError(
                f"--share {text}: {guest!r} is no path for the guest: an absolute one of letters, "
                "digits, '.', '_' and '-'"
            )
        if not Path(host).is_dir():
            raise UsageError(f"--share {text}: there is no folder {host}")
        return Share(Path(host).resolve(), guest, option == "ro")

    def word(self, number: int) -> str:
        """For the kernel's command line, where the guest's init finds it."""
        return f"rem.share={self.guest},{PORT_FIRST + number}" + ",ro" * self.read_only


def check(shares: Sequence[Share]) -> None:
    """UsageError where two folders would be in one place."""
    places = [share.guest for share in shares]
    if len(set(places)) != len(places):
        raise UsageError(f"--share: two folders at {max(places, key=places.count)} of the guest")
