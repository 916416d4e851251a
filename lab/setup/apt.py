# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Queries of dpkg and apt, and a non-interactive apt-get."""

from __future__ import annotations

from lab.paths import cache_dir
from lab.progress import Step
from lab.run import host_path, run, stream


def installed_versions(names: list[str]) -> dict[str, str]:
    """Versions of those packages that are completely installed."""
    form = "${Package} ${db:Status-Abbrev} ${Version}\n"
    out = run(["dpkg-query", "-W", "-f", form, *names], check=False).stdout
    rows = [line.split() for line in out.splitlines()]
    return {row[0]: row[2] for row in rows if len(row) == 3 and row[1] == "ii"}


def apt_versions(name: str) -> list[str]:
    """The versions that apt offers, from all its sources."""
    return apt_versions_of([name])[name]


def apt_versions_of(names: list[str]) -> dict[str, list[str]]:
    """The same of several packages, in one call: apt takes a second to read its lists."""
    out = run(["apt-cache", "madison", *names], check=False).stdout
    found: dict[str, list[str]] = {name: [] for name in names}
    for line in out.splitlines():
        name, *rest = (word.strip() for word in line.split("|"))
        if len(rest) == 2 and name in found:
            found[name].append(rest[0])
    return found


def newest(versions: list[str]) -> str:
    """Return the newest of them, as dpkg compares; empty if there is none."""
    best = ""
    for version in versions:
        if not best or is_at_least(version, best):
            best = version
    return best


def is_at_least(version: str, bound: str) -> bool:
    return run(["dpkg", "--compare-versions", version, "ge", bound], check=False).ok


def apt_get(*words: str, step: Step | None = None) -> None:
    """Run apt-get; its output goes to a log, its progress to *step*."""
    stream(
        ["apt-get", "-y", "-q", "-oDpkg::Use-Pty=0", "-oDPkg::Lock::Timeout=600", *words],
        log=cache_dir() / "logs" / "apt.log",
        env=_environment(),
        on_line=AptProgress(step).read if step is not None else None,
        what="apt-get",
    )


def finish_interrupted() -> None:
    """Have dpkg end what an installation that was interrupted had begun."""
    argv = ["dpkg", "--configure", "-a"]
    run(argv, env=_environment(), what="finishing what dpkg had begun")


def _environment() -> dict[str, str]:
    """It has the user's PATH: scripts of packages run any program, and apt checks signatures as
    another user, who may not enter the folders that lab/setup/tools.py puts into PATH.
    """
    return {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "PATH": host_path()}


class AptProgress:
    """Counts the packages that apt fetches, unpacks and sets up, by the lines that it prints."""

    STAGES = ("Get:", "Unpacking ", "Setting up ")

    def __init__(self, step: Step) -> None:
        self._step = step
        self._total = 0

    def read(self, line: str) -> None:
        if " newly installed, " in line:  # "2 upgraded, 12 newly installed, 0 to remove and ..."
            count = sum(int(word) for word in line.split()[:3] if word.isdecimal())
            self._total += count * len(self.STAGES)
            self._step.reach(self._step.done, self._total)
        elif self._total and line.startswith(self.STAGES):  # lists are fetched before
            self._step.advance()
