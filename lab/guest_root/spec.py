# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Which root a machine is to have, as a person asks for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lab.errors import UsageError

# Debian's rule for names. apt would take a name with `-` at its end as a wish to remove it.
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+.]")


@dataclass(frozen=True)
class RootSpec:
    """The default is the laboratory's own root."""

    packages: tuple[str, ...] = ()  # of Debian, besides the laboratory's
    oci: Path | None = None  # an image layout, or a folder that is a root
    pm: bool = False  # with the modules and programs of persistent memory
    off2f: bool = False  # with the module and tool of programs of two files
    kernel: str | None = None  # the configuration that modules are for; None: the laboratory's
    limit_bytes: int | None = None  # of what is unpacked: the disk's size, if one was asked for

    def __post_init__(self) -> None:
        if self.packages and self.oci is not None:
            raise UsageError("--packages are Debian's, --oci is another root: give one of them")
        if self.oci is not None and not self.oci.exists():
            raise UsageError(f"--oci {self.oci}: there is no such file or folder")

    @property
    def is_special(self) -> bool:
        """Whether it is another root than the laboratory's own."""
        return bool(self.packages or self.oci is not None or self.pm or self.off2f)


def parse_packages(text: str) -> tuple[str, ...]:
    """`postgresql,default-jdk-headless`: each name once, sorted."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not _PACKAGE.fullmatch(name):
            raise UsageError(f"--packages: {name!r} is no name of a Debian package")
    return tuple(sorted(set(names)))
