# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A server that was installed, whose fsync ends in memory: after a boot that did not resume systemd
runs rem-replay before anything uses the files.

Method: the power goes without a Stop after an fsync that no disk has; the administrator has given
the kernel's words and nothing else. The negative proof: a unit that is masked, without which the
file has what the disk has.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine.console import kernel_warnings
from lab.machine.cut_plan import UNANNOUNCED
from lab.testbed.fsync_guest import HOLD_UP, REGISTRY, SYSFS
from lab.testbed.no_stop import consoles
from lab.testbed.server_guest import Server, booted_server, make_server_disk
from tests.support.claims import machine_name

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

UNIT = "rem-replay.service"
FILE = "/var/lib/promised"
BYTES = 20_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("server") / "server.img"
    make_server_disk(file, (), f"{REGISTRY} {HOLD_UP}")
    with booted_server(machine_name("server-fsync"), file) as made:
        assert made.state == "running", made.sh("systemctl --failed")
        yield made
        assert kernel_warnings(consoles(made.machine)) == []


def write(server: Server, letter: str) -> None:
    """Over what is there, and fsync."""
    bytes_of = f"head -c {BYTES} /dev/zero | tr '\\0' {letter}"
    server.sh(f"{bytes_of} | dd of={FILE} bs=4096 conv=notrunc,fsync status=none")


def count(server: Server, letter: str) -> int:
    return int(server.sh(f"tr -cd {letter} <{FILE} | wc -c"))


def lose_promised(server: Server) -> None:
    """The disk has the file's name, and memory what was synced last."""
    assert server.sh(f"cat {SYSFS}/state") == "memory"
    for letter in "ab":
        write(server, letter)
    server.cut(UNANNOUNCED)
    assert server.power_on_cold().startswith("cold-")


def test_what_was_promised_is_there_after_the_boot(server: Server) -> None:
    lose_promised(server)
    assert count(server, "b") == BYTES
    assert server.state == "running", server.sh("systemctl --failed")
    assert server.sh(f"systemctl show -P Result {UNIT}") == "success"
    assert "files written" in server.sh(f"journalctl -b -u {UNIT} --no-pager")
    assert server.sh(f"cat {SYSFS}/state") == "memory"


def test_without_the_unit_memory_keeps_it(server: Server) -> None:
    server.sh(f"systemctl mask {UNIT} && sync && rm -f {FILE} && sync")
    lose_promised(server)
    assert count(server, "b") == 0
    assert server.sh(f"cat {SYSFS}/state") == "found"
    server.sh(f"systemctl unmask {UNIT} && systemctl start {UNIT}")
    assert count(server, "b") == BYTES
    assert server.sh(f"cat {SYSFS}/state") == "memory"
