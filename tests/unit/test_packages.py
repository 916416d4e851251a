# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Debian packages: their names, what is published, and what counts as the same.

Goal: packages are made of a commit alone; a difference of one byte is found; what a package has
and what its control file says agree. Method: small checkouts and folders, without any build. That
packages install and are reproducible is tested in tests/packages.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import commit as commits
from lab.commit import Commit, commit_of_checkout
from lab.distribution.again import differing
from lab.distribution.lintian import errors_of
from lab.distribution.publish import INDEX, clean_commit, publish
from lab.errors import RemError
from lab.paths import repo_dir
from lab.run import run
from lab.setup.debs import check_staged

CONTROL = repo_dir() / "packages" / "debian" / "control"


def checkout(folder: Path) -> Path:
    """A checkout of git with one commit of one file."""
    words = ["-c", "user.name=n", "-c", "user.email=n@localhost"]
    (folder / "file").write_text("1\n", encoding="utf-8")
    run(["git", "init", "-q", folder])
    run(["git", "add", "."], cwd=folder)
    run(["git", *words, "commit", "-q", "-m", "first"], cwd=folder)
    return folder


@pytest.fixture
def commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(commits, "repo_dir", lambda: tmp_path)
    return checkout(tmp_path)


def test_a_clean_checkout_names_its_commit(commit: Path) -> None:
    head = run(["git", "rev-parse", "HEAD"], cwd=commit).stdout.strip()
    assert clean_commit().digest == head


@pytest.mark.parametrize("name", ["file", "other"])
def test_packages_are_made_of_a_commit_alone(commit: Path, name: str) -> None:
    """Neither a changed file nor one that git does not know."""
    (commit / name).write_text("2\n", encoding="utf-8")
    with pytest.raises(RemError, match=rf"^packages are made of a commit, and {name} differ"):
        clean_commit()


def test_without_git_there_are_no_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "repo_dir", lambda: tmp_path)
    with pytest.raises(RemError, match="is no checkout of git"):
        commit_of_checkout()


def test_version_grows_with_the_time_of_the_commit() -> None:
    """As dpkg compares: a later commit whose digest is smaller is an upgrade nevertheless."""
    older, newer = Commit("f" * 40, 1_700_000_000, "m"), Commit("0" * 40, 1_700_000_001, "m")
    for relation, ok in (("lt", True), ("ge", False)):
        argv = ["dpkg", "--compare-versions", older.version, relation, newer.version]
        assert run(argv, check=False).ok is ok


def folder_of(folder: Path, **packages: bytes) -> Path:
    folder.mkdir()
    for name, data in packages.items():
        (folder / f"{name}.deb").write_bytes(data)
    for name in INDEX:
        (folder / name).write_bytes(b"index")
    return folder


def test_published_packages_are_beside_older_ones(tmp_path: Path) -> None:
    made, into = folder_of(tmp_path / "made", a=b"new"), tmp_path / "into" / "below"
    into.mkdir(parents=True)
    (into / "old.deb").write_bytes(b"old")
    assert publish(made, into) == [into / "a.deb"]
    assert {path.name for path in into.iterdir()} == {"a.deb", "old.deb", *INDEX}
    assert (into / "a.deb").read_bytes() == b"new"


@pytest.mark.parametrize(
    "other, names",
    [
        ({"a": b"1", "b": b"2"}, []),
        ({"a": b"1", "b": b"3"}, ["b.deb"]),
        ({"a": b"1"}, ["b.deb"]),
        ({"a": b"1", "b": b"2", "c": b""}, ["c.deb"]),
    ],
)
def test_each_difference_is_found(
    tmp_path: Path, other: dict[str, bytes], names: list[str]
) -> None:
    one = folder_of(tmp_path / "one", a=b"1", b=b"2")
    assert differing(one, folder_of(tmp_path / "other", **other)) == names


def test_errors_are_told_from_warnings() -> None:
    lines = ["E: libpm1: no-copyright-file", "W: libpm1: odd-name"]
    assert errors_of(lines) == lines[:1]


def test_files_of_no_package_are_an_error(tmp_path: Path) -> None:
    """debhelper would leave them out and say nothing."""
    control = CONTROL.read_text(encoding="utf-8")
    (tmp_path / "libpm1").mkdir()
    check_staged(tmp_path, control)
    (tmp_path / "libpm2").mkdir()
    with pytest.raises(RemError, match="^packages/debian/control has no package libpm2"):
        check_staged(tmp_path, control)
