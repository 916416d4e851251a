# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Configurations of the kernel: fragments on top of each other, and Debian's own.

A fragment has lines `CONFIG_X=...` and `# CONFIG_X is not set`, and comments. Kconfig may refuse a
line, and what depends on a symbol goes with it: both are found by comparing with what it wrote.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Sequence
from pathlib import Path

from lab.errors import InfraError
from lab.setup.apt import installed_versions
from lab.setup.packages import KERNEL_CONFIG, KERNEL_SOURCE

LINE = re.compile(r"^(?:CONFIG_\w+=.*\S|# CONFIG_\w+ is not set)", re.MULTILINE)
OFF = " is not set"
DEBIANS = Path(f"/usr/src/{KERNEL_CONFIG}/config.amd64_none_amd64.xz")


def merge_fragments(fragments: Sequence[str]) -> str:
    """Merge fragments of a configuration; each symbol has its last value."""
    merged: list[str] = []
    seen: set[str] = set()
    for fragment in reversed(fragments):
        lines = fragment.splitlines()
        merged[:0] = [line for line in lines if symbol_of(line) not in seen]
        seen |= {symbol for line in lines if (symbol := symbol_of(line))}
    return "".join(f"{line}\n" for line in merged)


def symbol_of(line: str) -> str:
    """Return the symbol that a line of a configuration sets or unsets; empty for a comment."""
    match = re.match(r"(?:# )?(CONFIG_\w+)(?:=| is not set$)", line)
    return match[1] if match else ""


def config_lacks(wanted: str, got: str) -> list[str]:
    """Return the lines of the fragment that Kconfig did not accept: a dependency is missing."""
    have = set(got.splitlines())
    return [line for line in LINE.findall(wanted) if line not in have]


def config_lost(base: str, wanted: str, got: str) -> list[str]:
    """Return what of the base has another value, or is not there, because of the fragment.

    Only what was on in the base, and what the fragment does not name itself.
    """
    named = {symbol_of(line) for line in LINE.findall(wanted)}
    have = {symbol_of(line): line for line in LINE.findall(got)}
    lost = []
    for line in LINE.findall(base):
        symbol = symbol_of(line)
        if line.endswith(OFF) or symbol in named or have.get(symbol) == line:
            continue
        now = have.get(symbol, "")
        lost.append(line if not now or now.endswith(OFF) else f"{line} is now {now}")
    return lost


def debian_config(source_version: str) -> str:
    """Return Debian's own configuration of that version of the source, for 64-bit x86."""
    version = installed_versions([KERNEL_CONFIG]).get(KERNEL_CONFIG, "")
    if version != source_version:
        have = f"of version {version}" if version else "not installed"
        raise InfraError(
            f"{KERNEL_CONFIG} is {have}, and the kernel's source of {source_version}: "
            f"apt install {KERNEL_CONFIG} {KERNEL_SOURCE} gives both of the newest"
        )
    return lzma.decompress(DEBIANS.read_bytes()).decode()
