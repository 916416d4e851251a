# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Installing: one call of apt for all that is missing, one line where that cannot be done.

Method: dpkg's answers and the call of apt are replaced; the cache and apt's folder are invented.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.errors import InfraError
from lab.progress import Step
from lab.run import HOST_PATH_ENV
from lab.setup import apt, host, install, owner, rust, sources
from lab.setup.packages import KERNEL_CONFIG, KERNEL_SOURCE, QEMU, Group, of_groups
from lab.setup.sources import Source

GROUPS = (Group.BASE, Group.MACHINE, Group.KERNEL, Group.RUST)
NEW = "9:9"  # a version that serves for everything


class Machine:
    """The answers of dpkg and apt, and the calls they got."""

    def __init__(self) -> None:
        self.installed: dict[str, str] = {}
        self.calls: list[list[str]] = []
        self.queries = 0
        self.has_rust = False

    def versions(self, names: list[str]) -> dict[str, str]:
        self.queries += 1
        return {name: self.installed[name] for name in names if name in self.installed}

    def apt_get(self, *words: str, step: Step | None = None) -> None:
        del step
        self.calls.append(list(words))
        if words[0] == "install":
            names = [word.split("=")[0] for word in words[1:] if not word.startswith("-")]
            self.installed |= dict.fromkeys(names, NEW)
            self.has_rust = self.has_rust or "rustc" in names


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    fake = Machine()
    state = tmp_path / "status"
    state.write_text("")
    (tmp_path / "apt" / "sources.list.d").mkdir(parents=True)
    monkeypatch.setattr(sources, "APT_DIR", tmp_path / "apt")
    found = [Source(("deb",), ("http://mirror",), ("bookworm",), ("main",))]
    monkeypatch.setattr(sources, "read_machine", lambda: found)
    monkeypatch.setenv("REM_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(install.LISTS_NEW_ENV, raising=False)
    instead: dict[str, Any] = {
        "DPKG_STATUS": state,
        "installed_versions": fake.versions,
        "apt_get": fake.apt_get,
        "apt_versions": lambda _: [NEW],
        "is_root": lambda: True,
        "debian": lambda: host.Debian(12, "bookworm"),
        "run": lambda *_, **__: None,
        "finish_interrupted": lambda: None,
    }
    for name, value in instead.items():
        monkeypatch.setattr(install, name, value)
    monkeypatch.setattr(rust, "folder", lambda: Path("/usr/bin") if fake.has_rust else None)
    monkeypatch.setattr(rust, "packages", lambda: ("rustc", "cargo"))
    return fake


def names_of(call: list[str]) -> list[str]:
    return [word for word in call[1:] if not word.startswith("-")]


def test_all_that_is_missing_is_one_call(machine: Machine) -> None:
    machine.installed = {"gcc": NEW, "git": NEW}
    install.install(GROUPS)
    (found,) = [call for call in machine.calls if call[0] == "install"]
    wanted = {package.name for package in of_groups(GROUPS)} - {"gcc", "git"}
    names = {name.split("=")[0] for name in names_of(found)}
    assert names == wanted | {"rustc", "cargo"}
    assert f"{KERNEL_SOURCE}={NEW}" in found
    assert machine.calls[0][0] == "update"


@pytest.mark.parametrize(("offered", "taken"), [(["1.0", NEW], "1.0"), ([NEW], NEW)])
def test_the_kernel_s_configuration_is_the_source_s_if_apt_has_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, offered: list[str], taken: str
) -> None:
    """Archives keep old sources longer than configurations."""
    groups = (Group.DEBIAN_CONFIG,)
    machine.installed = {KERNEL_SOURCE: "1.0", "libssl-dev": NEW}
    monkeypatch.setattr(install, "apt_versions", lambda _: offered)
    install.install(groups)
    assert machine.calls[-1][-1] == f"{KERNEL_CONFIG}={taken}"


def test_a_package_that_is_too_old_is_installed_again(machine: Machine) -> None:
    machine.installed = {package.name: NEW for package in of_groups(GROUPS)}
    machine.has_rust = True
    machine.installed[QEMU] = "1:7.2"
    install.install(GROUPS)
    assert [names_of(call) for call in machine.calls if call[0] == "install"] == [[QEMU]]


def test_a_person_s_rust_is_left_alone(machine: Machine) -> None:
    machine.has_rust = True
    install.install(GROUPS)
    assert "rustc" not in names_of(machine.calls[-1])


def test_dpkg_is_not_queried_until_dpkg_has_changed(machine: Machine, tmp_path: Path) -> None:
    install.install(GROUPS)
    queries = machine.queries
    install.install(GROUPS[:2])
    assert machine.queries == queries
    install.install((Group.CHECKS,))  # a group that was never checked
    assert machine.queries > queries
    queries = machine.queries
    install.install((*GROUPS, Group.CHECKS))
    assert machine.queries == queries
    (tmp_path / "status").write_text("changed")
    install.install(GROUPS)
    assert machine.queries > queries


def test_lists_that_the_entry_script_has_fetched_are_not_fetched_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those of the backports, whose entry is new."""
    monkeypatch.setenv(install.LISTS_NEW_ENV, "1")
    install.install(GROUPS)
    (update,) = [call for call in machine.calls if call[0] == "update"]
    assert any(sources.OWN_NAME in word for word in update)
    install.install((Group.CHECKS,))
    assert [call[0] for call in machine.calls].count("update") == 2  # they were new only once


def test_qemu_comes_from_the_backports_of_debian_12_only(tmp_path: Path) -> None:
    pins = install._preferences("bookworm")
    assert "Pin: release n=bookworm-backports\n" in pins
    assert "src:qemu" in pins
    assert "backports" not in install._preferences("trixie")


def test_preferences_of_the_machine_stay(machine: Machine) -> None:
    (sources.APT_DIR / "preferences").write_text("Package: mine\n")
    assert install._preferences("bookworm").startswith("Package: mine\n")


def test_without_root_it_is_one_line_with_the_command_for_root(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(install, "is_root", lambda: False)
    with pytest.raises(InfraError) as error:
        install.install((*GROUPS, Group.LDAP))
    message = error.value.message
    assert "\n" not in message
    assert f"as root, once: REM_CACHE={tmp_path / 'cache'} " in message
    assert message.endswith("/rem setup --packages ldap")
    assert machine.calls == []


def test_packages_that_apt_did_not_install_are_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "apt_get", lambda *_, **__: None)
    with pytest.raises(InfraError, match=rf"did not install what is needed: .*{QEMU} >= 1:10\.0"):
        install.install(GROUPS)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("E: Failed to fetch http://mirror.invalid/x", "no network while installing"),
        ("E: You don't have enough free space in /var/cache/apt/", "no disk space while"),
    ],
)
def test_a_failure_of_apt_is_one_line(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, output: str, expected: str
) -> None:
    def fail(*_: str, **__: object) -> None:
        raise InfraError(f"apt-get failed\n  {output}")

    monkeypatch.setattr(install, "apt_get", fail)
    with pytest.raises(InfraError, match=expected) as error:
        install.install(GROUPS)
    assert "\n" not in error.value.message


def test_progress_of_apt_counts_fetched_unpacked_and_set_up_packages() -> None:
    shown = Step("packages", None, "steps")
    reader = apt.AptProgress(shown)
    for line in (
        "Get:1 http://mirror bookworm InRelease [1 kB]",  # a list
        "1 upgraded, 2 newly installed, 0 to remove and 5 not upgraded.",
        "Get:1 http://mirror bookworm/main amd64 gcc amd64 12 [1 kB]",
        "Selecting previously unselected package gcc.",
        "Unpacking gcc (12) ...",
        "Setting up gcc (12) ...",
    ):
        reader.read(line)
    assert shown.amount() == "3 of 9 steps"


def test_a_cache_below_a_users_folder_is_given_to_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What root has made there, but for the guest's root, whose owners are the packages' own."""
    home = tmp_path / "home"
    cache = home / ".cache" / "remanence"
    (cache / "kernel" / "key").mkdir(parents=True)
    (cache / "kernel" / "key" / "bzImage").write_text("")
    (cache / "root-base" / "key").mkdir(parents=True)
    monkeypatch.setenv("REM_CACHE", str(cache))
    changed: dict[Path, tuple[int, int]] = {}

    def chown(path: str | Path, uid: int, gid: int, follow_symlinks: bool = True) -> None:
        changed[Path(path)] = (uid, gid)

    monkeypatch.setattr(owner, "is_root", lambda: True)
    monkeypatch.setattr(owner.os, "chown", chown)
    monkeypatch.setattr(owner, "owner_of", lambda _: (1000, 1001))
    owner.give_to_owner()
    assert changed[cache / "kernel" / "key" / "bzImage"] == (1000, 1001)
    assert changed[cache] == (1000, 1001)
    assert not any("root-base" in path.parts for path in changed)
    changed.clear()
    monkeypatch.setattr(owner, "owner_of", lambda _: None)
    owner.give_to_owner()
    assert changed == {}


def test_what_was_interrupted_is_finished_with_the_users_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dpkg wants programs of packages that are not set up yet, which PATH has left out."""
    host_folder, ours = tmp_path / "host", tmp_path / "ours"
    for folder in (host_folder, ours):
        folder.mkdir()
    for name, words in (
        ("dpkg", f'echo "$@" >{tmp_path}/called; ldconfig'),
        ("ldconfig", "exit 0"),
    ):
        (host_folder / name).write_text(f"#!/bin/sh\n{words}\n")
        (host_folder / name).chmod(0o755)
    (ours / "dpkg").symlink_to(host_folder / "dpkg")
    monkeypatch.setenv("PATH", str(ours))
    monkeypatch.setenv(HOST_PATH_ENV, str(host_folder))
    apt.finish_interrupted()
    assert (tmp_path / "called").read_text() == "--configure -a\n"
