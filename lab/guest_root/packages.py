# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Install Debian packages on top of the laboratory's root with apt; no service is started.

mmdebstrap works on a copy of the base: it reaches the mirrors as the host's apt does, mounts what
installation scripts need, and keeps them from starting anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from lab.errors import InfraError, UsageError
from lab.run import stream

# The base is made without documentation. Packages that the user requests are complete: some do not
# install without folders of manual pages (a JVM's alternatives), some read their documentation.
EXCLUDES = "etc/dpkg/dpkg.cfg.d/99mmdebstrap"
SOURCES = "etc/apt/sources.list.d"
PREFERENCES = "etc/apt/preferences.d/remanence"
MANUAL_SECTIONS = range(1, 9)
LAST_LINES = 60  # of apt's output, which contain the error

_UNKNOWN = re.compile(r"^E: Unable to locate package (\S+)|^E: Package '(\S+)' has no installation")
_UNMET = re.compile(r"^E: (Unable to correct problems.*)")


def install(
    base: Path,
    into: Path,
    names: Sequence[str],
    suite: str,
    sources: Path,
    *,
    apt_options: Sequence[str],
    preferences: str = "",
    log: Path,
) -> None:
    """Make a tree at *into*: the base, these packages and their dependencies.

    *sources* is a file of the host's package sources, *apt_options* its network settings,
    *preferences* which of several versions is taken, as apt_preferences(5) has it.
    """
    argv: list[str | Path] = ["mmdebstrap", "--mode=root", "--variant=custom", "--format=directory"]
    argv += ["--include=" + ",".join(names), f"--setup-hook={_setup(base, preferences)}"]
    argv += [f'--customize-hook=rm -f "$1"/{PREFERENCES}']
    argv += ["--aptopt=Apt::Install-Recommends false"]
    argv += [f"--aptopt={option}" for option in apt_options]
    last: list[str] = []

    def keep(line: str) -> None:
        last.append(line)
        del last[:-LAST_LINES]

    try:
        stream([*argv, suite, into, sources], log=log, on_line=keep, what="mmdebstrap")
    except InfraError as error:
        raise explained(last) or error from error


def explained(lines: Sequence[str]) -> UsageError | None:
    """Return the error in the names, if apt reported one."""
    unknown = [m[1] or m[2] for m in map(_UNKNOWN.match, lines) if m is not None]
    if unknown:
        names = ", ".join(sorted(set(unknown)))
        return UsageError(f"--packages: this release of Debian has no package {names}")
    if any(_UNMET.match(line) for line in lines):
        return UsageError("--packages: these cannot be installed together (see the log of root)")
    return None


def _setup(base: Path, preferences: str) -> str:
    """Return shell commands that fill the new tree, $1, before anything is installed."""
    manuals = " ".join(f'"$1"/usr/share/man/man{section}' for section in MANUAL_SECTIONS)
    return (
        f'cd "$1" && rm -rf {SOURCES}.new && mv {SOURCES} {SOURCES}.new'
        f" && cp -a {shlex.quote(str(base))}/. ."
        f" && rm -rf {SOURCES} {EXCLUDES} && mv {SOURCES}.new {SOURCES}"
        f" && mkdir -p {manuals} && printf %s {shlex.quote(preferences)} >{PREFERENCES}"
    )
