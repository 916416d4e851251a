# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A step that runs a program of no listed package fails, on machines that have the program, too.

Method: a program is planted in the user's PATH, where it works, and is called directly, by a
script and by make after set-up has replaced PATH.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from lab import run
from lab.errors import InfraError
from lab.paths import cache_dir
from lab.setup import apt, tools
from lab.setup.packages import PACKAGES, RARE, USUAL, Group, of_groups

PLANTED = "remanence-planted-tool"
DPKG = """\
bare\tii \tyes\trequired\t\t,
apt\tii \tno\timportant\t\tlibapt (>= 2), other-apt-part | absent
libapt\tii \tno\toptional\t\t,
top\tii \tno\toptional\tvirtual-top (= 1)\tmiddle:any (>= 1), virtual-low
middle\tii \tno\toptional\t\t, bare
low\tii \tno\toptional\tvirtual-low\t,
removed\trc \tno\toptional\t\t,
unlisted\tii \tno\toptional\t\ttop
"""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    place = tmp_path / "bin"
    place.mkdir()
    (place / PLANTED).write_text("#!/bin/sh\necho planted\n")
    (place / PLANTED).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{run.host_path()}")
    monkeypatch.delenv(run.HOST_PATH_ENV, raising=False)
    monkeypatch.setenv(tools.USED_ENV, "")
    assert run.run([PLANTED]).stdout == "planted\n"
    return PLANTED


def test_an_unlisted_program_is_refused_by_name(planted: str) -> None:
    tools.use((Group.COMPILER,))
    with pytest.raises(InfraError, match=f"{planted} is on this machine, but in no group"):
        run.run([planted])


def test_an_unlisted_program_fails_in_a_script_and_in_make(planted: str, tmp_path: Path) -> None:
    tools.use((Group.COMPILER,))
    assert run.run(["sh", "-c", f"{planted}"], check=False).returncode == 127
    (tmp_path / "Makefile").write_text(f"all:\n\t{planted}\n")
    with pytest.raises(InfraError, match=f"{planted}: "):
        run.run(["make", "-C", tmp_path])


def test_a_program_of_another_group_is_refused_until_it_is_named(planted: str) -> None:
    tools.use((Group.COMPILER,))
    with pytest.raises(InfraError, match="shellcheck"):
        run.run(["shellcheck", "--version"])
    tools.use((Group.CHECKS,))
    assert run.run(["shellcheck", "--version"]).ok
    assert run.run(["make", "--version"]).ok  # a group that was named stays


def test_listed_programs_and_those_of_their_dependencies_are_found(planted: str) -> None:
    tools.use((Group.COMPILER, Group.CLANG, Group.RUST))
    for name in ("sh", "awk", "dpkg", "git", "cc", "gcc", "ld", "nm", "clang", "cargo", "rustc"):
        found = run.find_tool(name)
        assert found is not None, name
        assert "tools" in found.parts


def test_the_users_path_is_kept_for_a_rust_of_the_users_own(planted: str) -> None:
    before = os.environ["PATH"]
    tools.use((Group.COMPILER,))
    tools.use((Group.RUST,))
    assert os.environ[run.HOST_PATH_ENV] == before


def test_apt_runs_with_the_users_path(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its user for downloads may not enter the folders of listed programs, which may be root's."""
    seen: dict[str, str] = {}
    monkeypatch.setattr(apt, "stream", lambda argv, **words: seen.update(words["env"]))
    tools.use((Group.COMPILER,))
    apt.apt_get("update")
    assert shutil.which(planted, path=seen["PATH"]) is not None
    assert str(cache_dir() / "tools") not in seen["PATH"]


def test_closure_follows_dependencies_alternatives_and_what_is_provided() -> None:
    installed = tools.read_installed(DPKG)
    assert installed.minimal == {"bare", "apt", "libapt"}
    assert installed.closure(["top"]) == {"top", "middle", "bare", "low"}
    assert installed.closure(["virtual-top"]) == installed.closure(["top"])
    assert installed.closure(["removed", "absent"]) == set()
    assert "unlisted" not in installed.closure(["top", "apt"])


def test_each_package_is_listed_once_with_reason_and_group() -> None:
    names = [package.name for package in PACKAGES]
    assert len(names) == len(set(names))
    for package in PACKAGES:
        assert package.why
        assert package.groups
        assert len(package.groups) == len(set(package.groups))
    assert set(USUAL) | set(RARE) == set(Group)
    assert not set(USUAL) & set(RARE)
    for group in Group:
        assert of_groups((group,)) or group in (Group.RUST, Group.TESTS), group
