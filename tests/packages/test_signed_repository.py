# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A signed repository of packages.

Goal: apt takes a signed index with the public key alone, and refuses one that somebody else has
changed or signed. Method: a small package, GnuPG with keys of its own, and Debian's apt with
folders of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.commit import commit_of_checkout
from lab.distribution.publish import publish
from lab.distribution.sign import KEYRING, SIGNED, find_key, sign
from lab.errors import RemError
from lab.run import Done, run
from lab.setup.debs import write_index

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]

OWNER, STRANGER = "owner@example.org", "stranger@example.org"
CONTROL = """Package: rem-test
Version: {version}
Architecture: all
Maintainer: Nobody <nobody@example.org>
Description: nothing
"""


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    for name in (OWNER, STRANGER):
        run(["gpg", "--batch", "--passphrase", "", "--quick-gen-key", name, "default", "sign"])
    yield
    run(["gpgconf", "--kill", "all"], check=False)


def made(tmp_path: Path, version: str) -> Path:
    """A folder with one package and its index."""
    root, debs = tmp_path / f"root-{version}", tmp_path / f"debs-{version}"
    (root / "DEBIAN").mkdir(parents=True)
    debs.mkdir()
    (root / "DEBIAN/control").write_text(CONTROL.format(version=version), encoding="utf-8")
    run(["dpkg-deb", "--root-owner-group", "--build", root, debs])
    write_index(commit_of_checkout(), debs)
    return debs


class Apt:
    """Debian's apt, which knows one repository and its key."""

    def __init__(self, folder: Path, repository: Path) -> None:
        self._folder = folder
        for name in ("state/lists/partial", "cache/archives/partial", "parts"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        line = f"deb [signed-by={repository / KEYRING}] file:{repository} ./\n"
        (folder / "sources.list").write_text(line, encoding="utf-8")

    def _call(self, *words: str) -> Done:
        values = {
            "Dir::Etc::SourceList": "sources.list",
            "Dir::Etc::SourceParts": "parts",
            "Dir::State": "state",
            "Dir::State::status": "status",
            "Dir::Cache": "cache",
        }
        options = [f"{key}={self._folder / value}" for key, value in values.items()]
        options += ["APT::Sandbox::User=root", "APT::Update::Error-Mode=any"]
        argv = ["apt-get", *(word for option in options for word in ("-o", option)), *words]
        return run(argv, check=False)

    def update(self) -> bool:
        return self._call("update").ok

    def offers(self) -> str:
        """What it would install."""
        return self._call("-s", "install", "rem-test").stdout


def test_apt_takes_what_the_owner_signed(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    publish(made(tmp_path, "1"), folder)
    sign(folder, OWNER)
    apt = Apt(tmp_path / "apt", folder)
    assert apt.update()
    assert "rem-test (1 " in apt.offers()
    publish(made(tmp_path, "2"), folder)
    assert not (folder / SIGNED).exists(), "the old signature hides the new index"
    assert not apt.update()
    sign(folder, OWNER)
    assert apt.update()
    assert "rem-test (2 " in apt.offers()


def test_apt_refuses_what_others_changed_or_signed(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    publish(made(tmp_path, "1"), folder)
    sign(folder, OWNER)
    key = (folder / KEYRING).read_bytes()
    index = folder / "Packages"
    index.write_text(index.read_text(encoding="utf-8").replace("nothing", "changed"))
    assert not Apt(tmp_path / "changed", folder).update()
    publish(made(tmp_path, "2"), folder)
    sign(folder, STRANGER)
    (folder / KEYRING).write_bytes(key)
    assert not Apt(tmp_path / "other", folder).update()


def test_a_key_that_is_not_there_is_one_line() -> None:
    find_key(OWNER)
    with pytest.raises(RemError, match=r"no secret key 'nobody@example\.org'"):
        find_key("nobody@example.org")
