# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Read Debian's package sources of this machine, and derive others from them.

This repository names no mirror: the entry for the backports, and the entries that the guest
root is made from, are the machine's own with another suite.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.errors import InfraError
from lab.run import run

APT_DIR = Path("/etc/apt")
# How apt reaches its mirrors, and how old their lists may be.
NETWORK_OPTIONS = (
    "Acquire::http::",
    "Acquire::https::",
    "Acquire::Retries",
    "Acquire::Check-Valid-Until",
    "Acquire::Check-Date",
)
OWN_NAME = "remanence-backports.sources"
FROM_BACKPORTS = "src:qemu src:seabios src:opensbi"  # in Debian 12


@dataclass(frozen=True)
class Source:
    """One stanza of a .sources file, or one line of a .list file."""

    types: tuple[str, ...]
    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    options: dict[str, str] = field(default_factory=dict)  # Signed-By and the like

    def as_deb822(self) -> str:
        lines = {
            "Types": " ".join(self.types),
            "URIs": " ".join(self.uris),
            "Suites": " ".join(self.suites),
            "Components": " ".join(self.components),
            **self.options,
        }
        return "".join(f"{key}: {value}\n" for key, value in lines.items())


# Names of the options in brackets of a .list line in a .sources file.
_LIST_OPTIONS = {
    "arch": "Architectures",
    "signed-by": "Signed-By",
    "trusted": "Trusted",
    "check-valid-until": "Check-Valid-Until",
}
_LIST_LINE = re.compile(r"^(deb|deb-src)\s+(?:\[([^]]*)\]\s+)?(\S+)\s+(\S+)\s*(.*)$")
_MAIN_FIELDS = ("types", "uris", "suites", "components")


def read_machine(apt_dir: Path = APT_DIR) -> list[Source]:
    """Return all enabled sources, without our own file."""
    found: list[Source] = []
    plain = [apt_dir / "sources.list", *sorted((apt_dir / "sources.list.d").glob("*.list"))]
    for path in plain:
        if path.is_file():
            found += parse_list(path.read_text(encoding="utf-8"))
    for path in sorted((apt_dir / "sources.list.d").glob("*.sources")):
        if path.name != OWN_NAME:
            found += parse_deb822(path.read_text(encoding="utf-8"))
    return found


def apt_network_options() -> list[str]:
    """Return settings of this machine's apt that another apt needs for the same mirrors."""
    dump = run(["apt-config", "dump"]).stdout.splitlines()
    return [line for line in dump if line.startswith(NETWORK_OPTIONS) and '""' not in line]


def preferences(codename: str) -> str:
    """What is taken from the backports, as apt_preferences(5) has it: QEMU 10, in Debian 12."""
    if codename != "bookworm":
        return ""
    pin = {"Package": FROM_BACKPORTS, "Pin": f"release n={codename}-backports"}
    pin["Pin-Priority"] = "600"  # above that of the release itself
    return "".join(f"{key}: {value}\n" for key, value in pin.items())


def write_release(
    codename: str,
    into: Path,
    own: str | None = None,
    *,
    updates: bool = True,
    ported: bool = False,
) -> Path:
    """Write a file with this machine's package sources of a release, for mmdebstrap.

    *own*: the machine's release, if that is another one; *updates*: with what came after it;
    *ported*: with the backports, where preferences() name any.
    """
    found = read_machine()
    entries = release_only(found, codename, own)
    if ported and preferences(codename) and (more := backports(found, codename)) is not None:
        entries.append(more)
    if not updates:
        alone = (codename,)
        entries = [replace(one, suites=alone) for one in entries if codename in one.suites]
    if not entries:
        raise InfraError(f"no apt source of {own or codename}/main found below {APT_DIR}: add one")
    listing = into / "guest.sources"
    listing.write_text("\n".join(entry.as_deb822() for entry in entries), encoding="utf-8")
    return listing


def parse_list(text: str) -> list[Source]:
    """Parse the one-line form: `deb [options] uri suite component...`."""
    found = []
    for line in text.splitlines():
        match = _LIST_LINE.match(line.split("#", 1)[0].strip())
        if match is None:
            continue
        kind, brackets, uri, suite, components = match.groups()
        options = {}
        for option in (brackets or "").split():
            name, _, value = option.partition("=")
            if name in _LIST_OPTIONS:
                options[_LIST_OPTIONS[name]] = value.replace(",", " ")
        found.append(Source((kind,), (uri,), (suite,), tuple(components.split()), options))
    return found


def parse_deb822(text: str) -> list[Source]:
    """Parse the stanza form; continued values (keys) are kept, disabled stanzas are skipped."""
    found = []
    for stanza in re.split(r"\n\s*\n", text):
        fields = _deb822_fields(stanza)
        main = [tuple(fields.pop(name, "").split()) for name in _MAIN_FIELDS]
        enabled = fields.pop("enabled", "yes").lower() not in ("no", "false", "0")
        if main[0] and main[1] and enabled:
            options = {_deb822_name(name): value for name, value in fields.items()}
            found.append(Source(main[0], main[1], main[2], main[3], options))
    return found


def _deb822_fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    last = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1] in (" ", "\t"):
            fields[last] = f"{fields.get(last, '')}\n{line}"
        elif ":" in line:
            name, value = line.split(":", 1)
            last = name.strip().lower()
            fields[last] = value.strip()
    return fields


def _deb822_name(lower: str) -> str:
    return "-".join(word.capitalize() for word in lower.split("-"))


def backports(sources: Iterable[Source], codename: str) -> Source | None:
    """Return the backports entry: the machine's entry of the release with another suite."""
    for source in sources:
        if codename in source.suites and "deb" in source.types and "main" in source.components:
            return replace(
                source, types=("deb",), suites=(f"{codename}-backports",), components=("main",)
            )
    return None


def has_suite(sources: Iterable[Source], suite: str) -> bool:
    return any(suite in source.suites and "deb" in source.types for source in sources)


def release_only(sources: Iterable[Source], codename: str, own: str | None = None) -> list[Source]:
    """Return Debian's own entries (release, updates, security), for the guest root.

    *own*: the release that the sources have, if another one is wanted: its mirrors have both.
    """
    wanted = {
        f"{own or codename}{part}": f"{codename}{part}" for part in ("", "-updates", "-security")
    }
    found = []
    for source in sources:
        suites = tuple(wanted[suite] for suite in source.suites if suite in wanted)
        if suites and "deb" in source.types and "main" in source.components:
            found.append(replace(source, types=("deb",), suites=suites, components=("main",)))
    return found


def of_source_packages(sources: Iterable[Source], codename: str) -> list[Source]:
    """Return Debian's own entries, including backports, as entries of source packages."""
    known = list(sources)
    ported = backports(known, codename)
    found = [*release_only(known, codename), *([ported] if ported else [])]
    return [replace(source, types=("deb-src",)) for source in found]
