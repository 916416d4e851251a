# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The root of a machine, as the user requests it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lab.errors import UsageError

# Debian's rule for names. apt would remove a package whose name is given with `-` at its end.
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+.]")


@dataclass(frozen=True)
class RootSpec:
    """A specification of a root. The default is the laboratory's own root."""

    packages: tuple[str, ...] = ()  # of Debian, besides the laboratory's
    oci: Path | None = None  # an image layout, or a folder that is a root
    pm: bool = False  # with the modules and programs of persistent memory
    off2f: bool = False  # with the module and tool of programs of two files
    works: bool = False  # with the programs of LightPC's workloads (guest/works)
    kernel: str | None = None  # the configuration that modules are for; None: the laboratory's
    limit_bytes: int | None = None  # of unpacked files: the disk's size, if one was requested

    def __post_init__(self) -> None:
        if self.packages and self.oci is not None:
            raise UsageError("--packages and --oci: give one of them")
        if self.oci is not None and not self.oci.exists():
            raise UsageError(f"--oci {self.oci}: no such file or folder")

    @property
    def is_special(self) -> bool:
        """Whether it differs from the laboratory's own root."""
        return bool(self.packages or self.oci is not None or self.pm or self.off2f or self.works)


def parse_packages(text: str) -> tuple[str, ...]:
    """Parse `postgresql,default-jdk-headless`: each name once, sorted."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not _PACKAGE.fullmatch(name):
            raise UsageError(f"--packages: {name!r} is not a valid name of a Debian package")
    return tuple(sorted(set(names)))
