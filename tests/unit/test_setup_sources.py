# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Package sources: the backports entry and the guest's sources follow from the machine's own.

Goal: no mirror is named in the repository, and every form in which a machine may name its own is
understood. Method: invented source files, read as set-up reads /etc/apt.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.setup import sources
from lab.setup.sources import Source

DEB822 = """\
# the archive
Types: deb deb-src
URIs: http://mirror.invalid/debian
# a remark inside
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/archive.gpg

Types: deb
URIs: http://mirror.invalid/debian-security
Suites: bookworm-security
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abcdef
 -----END PGP PUBLIC KEY BLOCK-----

Enabled: no
Types: deb
URIs: http://other.invalid/debian
Suites: bookworm-backports
Components: main
"""

ONE_LINE = """\
# deb http://off.invalid/debian bookworm main
deb [arch=amd64,i386 signed-by=/etc/key.gpg] http://mirror.invalid/debian bookworm main non-free # x
deb-src http://mirror.invalid/debian bookworm main
"""


def machine(tmp_path: Path, **files: str) -> list[Source]:
    folder = tmp_path / "sources.list.d"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".").replace("_", "-")).write_text(text)
    return sources.read_machine(tmp_path)


def test_deb822_is_read_with_keys_and_without_disabled_stanzas() -> None:
    found = sources.parse_deb822(DEB822)
    assert [s.suites for s in found] == [("bookworm", "bookworm-updates"), ("bookworm-security",)]
    assert found[0].types == ("deb", "deb-src")
    assert found[0].options == {"Signed-By": "/usr/share/keyrings/archive.gpg"}
    assert found[1].options["Signed-By"].splitlines()[1] == " -----BEGIN PGP PUBLIC KEY BLOCK-----"


def test_written_stanza_reads_back_as_itself() -> None:
    found = sources.parse_deb822(DEB822)
    text = "\n".join(source.as_deb822() for source in found)
    assert sources.parse_deb822(text) == found


def test_one_line_form_keeps_its_options() -> None:
    found = sources.parse_list(ONE_LINE)
    assert [s.types for s in found] == [("deb",), ("deb-src",)]
    assert found[0].components == ("main", "non-free")
    assert found[0].options == {"Architectures": "amd64 i386", "Signed-By": "/etc/key.gpg"}


def test_backports_are_the_release_entry_with_another_suite() -> None:
    for text, parse in ((DEB822, sources.parse_deb822), (ONE_LINE, sources.parse_list)):
        entry = sources.backports(parse(text), "bookworm")
        assert entry is not None
        assert entry.suites == ("bookworm-backports",)
        assert entry.types == ("deb",)
        assert entry.components == ("main",)
        assert entry.uris == ("http://mirror.invalid/debian",)
        assert "Signed-By" in entry.options


def test_no_backports_without_the_release_itself() -> None:
    security_only = [s for s in sources.parse_deb822(DEB822) if "bookworm" not in s.suites]
    assert sources.backports(security_only, "bookworm") is None
    assert sources.backports(sources.parse_deb822(DEB822), "trixie") is None


def test_own_file_is_no_source_to_derive_from(tmp_path: Path) -> None:
    own = "Types: deb\nURIs: http://old.invalid/\nSuites: bookworm-backports\nComponents: main\n"
    found = machine(tmp_path, debian__sources=DEB822, remanence_backports__sources=own)
    assert not sources.has_suite(found, "bookworm-backports")
    found = machine(tmp_path, mine__sources=own)
    assert sources.has_suite(found, "bookworm-backports")


def test_guest_is_made_from_the_release_and_its_updates_only(tmp_path: Path) -> None:
    third = "deb http://third.invalid/ nodistro main\ndeb http://third.invalid/ bookworm extra\n"
    found = machine(tmp_path, debian__sources=DEB822, third__list=third)
    guest = sources.release_only(found, "bookworm")
    assert [s.suites for s in guest] == [("bookworm", "bookworm-updates"), ("bookworm-security",)]
    assert all(s.types == ("deb",) and s.components == ("main",) for s in guest)


def test_source_packages_are_debians_own_with_backports() -> None:
    other = "Types: deb\nURIs: http://other.invalid/x\nSuites: other-bookworm\nComponents: main\n"
    known = sources.parse_deb822(DEB822 + "\n" + other)
    found = sources.of_source_packages(known, "bookworm")
    assert {source.types for source in found} == {("deb-src",)}
    suites = [suite for source in found for suite in source.suites]
    assert sorted(suites) == [
        "bookworm", "bookworm-backports", "bookworm-security", "bookworm-updates",
    ]  # fmt: skip
    assert all("Signed-By" in source.options for source in found)
    assert sources.of_source_packages(known, "trixie") == []


def test_packages_of_a_guest_may_come_from_the_backports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As set-up's own do: in Debian 12, and where a guest gets packages besides the release's."""
    monkeypatch.setattr(sources, "read_machine", lambda: sources.parse_deb822(DEB822))

    def suites(codename: str, ported: bool) -> list[str]:
        listing = sources.write_release(codename, tmp_path, "bookworm", ported=ported)
        found = sources.parse_deb822(listing.read_text(encoding="utf-8"))
        return [suite for source in found for suite in source.suites]

    assert "bookworm-backports" in suites("bookworm", ported=True)
    assert "bookworm-backports" not in suites("bookworm", ported=False)
    assert not [suite for suite in suites("trixie", ported=True) if "backports" in suite]
    assert "src:qemu" in sources.preferences("bookworm")
    assert not sources.preferences("trixie")
