# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A new user's first hour: README's commands on a bare machine.

Goal: each command installs and builds everything it needs, also as the first one; if that is
impossible, it prints one line. Method: a bare Debian in a folder, for each command a new one. Only
the compiler's cache comes from the host.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from bare_debian import CACHE, SUITES, USER, BareDebian, Done, bare_debian

from lab.errors import Exit
from lab.setup.host import debian

FIRST_COMMANDS = {
    "demo": ("demo", "--json"),
    "quick tests": ("test", "--tier", "quick", "--json"),
    "run": ("run", "-d", "--name", "first"),
    "bench media": ("bench", "media", "--requests", "1000000", "--json"),
    "campaign": ("campaign", "--model", "--images", "2000", "--json"),
}
pytestmark = [pytest.mark.timeout(4 * 3600)]


@pytest.fixture(scope="module")
def machine() -> Iterator[BareDebian]:
    """Yield a machine of this host's release; it is bare until the demonstration has run."""
    _need_root()
    with bare_debian(debian().codename) as made:
        yield made


def _need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: a Debian in a folder takes chroot and mounts")


def figures(done: Done) -> dict[str, Any]:
    """Return the figures in the last line of a command with --json."""
    assert done.returncode == Exit.PASS, done.shown()
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["ok"], done.shown()
    return {name: figure["value"] for name, figure in found["figures"].items()}


def one_line(done: Done) -> str:
    """Return the only line of a command that could not run, except for progress."""
    assert done.returncode == Exit.INFRASTRUCTURE, done.shown()
    assert done.stdout == ""
    lines = [line for line in done.lines if not line.endswith(" ...")]
    assert len(lines) == 1, done.shown()
    assert lines[0].startswith("rem: ")
    return lines[0]


@pytest.mark.full
def test_bare_machine_has_no_programs_of_the_host(machine: BareDebian) -> None:
    """Otherwise the other tests here would prove nothing."""
    for name in ("python3", "gcc", "make", "git", "qemu-system-x86_64", "cargo", "ccache"):
        assert machine.type("sh", "-c", f"command -v {name}").returncode != 0, name
    assert machine.type("ls", CACHE).stdout == "ccache\n"


@pytest.mark.full
@pytest.mark.parametrize("command", FIRST_COMMANDS)
def test_without_root_a_line_gives_the_command_for_root(machine: BareDebian, command: str) -> None:
    line = one_line(machine.type("./rem", *FIRST_COMMANDS[command], user=USER))
    assert f"as root, once: REM_CACHE=/home/{USER}/.cache/remanence " in line
    assert line.endswith("/rem setup")


@pytest.mark.full
def test_missing_network_is_reported_in_one_line(machine: BareDebian) -> None:
    done = machine.type("unshare", "--net", "./rem", "demo")
    assert "no network or no disk space" in one_line(done)


@pytest.mark.full
def test_demonstration_runs_first_on_a_bare_machine(machine: BareDebian) -> None:
    found = figures(machine.type("./rem", *FIRST_COMMANDS["demo"]))
    assert found["lost_writes"] == 0
    assert found["resumed"] == 1
    print(f"from nothing to a machine: {found['setup_s']} s")


@pytest.mark.in_turn
@pytest.mark.full
def test_full_disk_is_reported_in_one_line(machine: BareDebian) -> None:
    """After the demonstration: Debian's packages are installed, and the cache is elsewhere."""
    small = "mkdir -p /small && mount -t tmpfs -o size=100M tmpfs /small"
    done = machine.type("env", "REM_CACHE=/small", "./rem", "setup", before=small)
    assert "no disk space" in one_line(done) or "No space left" in one_line(done)


@pytest.mark.soak
@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("command", FIRST_COMMANDS)
def test_each_command_runs_first_on_a_bare_machine(suite: str, command: str) -> None:
    _need_root()
    with bare_debian(suite) as fresh:
        done = fresh.type("./rem", *FIRST_COMMANDS[command])
        assert done.returncode == Exit.PASS, done.shown()
        if "--json" in FIRST_COMMANDS[command]:
            figures(done)


@pytest.mark.soak
@pytest.mark.parametrize("suite", SUITES)
def test_all_tests_pass_on_a_bare_machine(suite: str) -> None:
    """Without the tests of this file: a bare machine has no room for another."""
    _need_root()
    with bare_debian(suite) as fresh:
        found = figures(fresh.type("./rem", "test", "--json", "--without", "first hour"))
        assert found["failed"] == 0
        assert found["skipped"] == 0


@pytest.mark.soak
def test_interrupted_set_up_is_continued() -> None:
    """By Ctrl-C at any stage; the result equals that of a set-up without interruption."""
    _need_root()
    with bare_debian(debian().codename) as fresh:
        for wait_s in (3, 15, 40, 90):
            interrupted = fresh.type("timeout", "--signal=INT", str(wait_s), "./rem", "setup")
            assert interrupted.returncode != Exit.PASS
        done = fresh.type("./rem", "setup")
        assert done.returncode == Exit.PASS, done.shown()
        assert fresh.type("./rem", "doctor").returncode == Exit.PASS


@pytest.mark.soak
def test_user_runs_products_that_root_has_set_up() -> None:
    """Root only has to run the command in the line."""
    _need_root()
    with bare_debian(debian().codename) as fresh:
        line = one_line(fresh.type("./rem", "campaign", "--model", user=USER))
        command = line.partition("as root, once: ")[2]
        assert fresh.type("sh", "-c", command).returncode == Exit.PASS
        for name in ("campaign", "bench media", "run"):
            done = fresh.type("./rem", *FIRST_COMMANDS[name], user=USER)
            assert done.returncode == Exit.PASS, done.shown()
