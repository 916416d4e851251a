# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A server that was installed: Debian with systemd from the disk of `rem image`, by firmware.

Goal: a machine of UEFI firmware with 1, 2 or 4 CPUs boots the disk as it is; systemd says that all
units run; each of 25 power cuts under load is survived by all programs, by the ssh session from the
host, and by what has been written; the same units run as before, and remctl counts the resumes.
Without the commit of a Stop (the negative proof) nothing of that holds: the boot is cold. Method:
the disk is made once; the machine has nothing of the laboratory's own guest.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.errors import HangError
from lab.machine import MachineState
from lab.machine.cut_plan import UNANNOUNCED
from lab.testbed.server_guest import Server, booted_server, make_server_disk
from tests.support import ups

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

CUTS = 25
SLEEP_LIMIT_S = 120.0
REFUSED_S = 30.0
CPUS = (1, 2, 4)
# Counts in memory alone; its answers are what a client would have been told.
COUNTER = """cat >/run/counter.py <<'END'
import itertools, os, time
for n in itertools.count():
    with open("/run/count.new", "w") as file:
        file.write(str(n))
    os.replace("/run/count.new", "/run/count")
    time.sleep(0.01)
END
nohup python3 /run/counter.py >/dev/null 2>&1 </dev/null &
echo $!
until test -e /run/count; do sleep 0.1; done"""


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("server") / "server.img"
    make_server_disk(file, ("python3", "redis-server", "nut-server", "nut-client"))
    return file


@pytest.fixture
def server(request: pytest.FixtureRequest, disk: Path) -> Iterator[Server]:
    with booted_server("t-server", disk, getattr(request, "param", 2)) as made:
        yield made


@pytest.mark.parametrize("server", CPUS, indirect=True)
def test_an_installed_server_survives_cuts(server: Server) -> None:
    assert server.state == "running", server.sh("systemctl --failed")
    assert server.status["armed"], server.status
    assert server.stop_mode == "fast"  # no driver of Debian's keeps it off the short way
    units, boot_id = server.units, server.boot_id
    pid = server.sh(COUNTER)
    for number in range(CUTS):
        server.sh(f"redis-cli set key-{number} kept && sync")
        count = int(server.sh("cat /run/count"))
        record = server.cut()
        assert record.stopped, record
        server.power_on()
        assert server.sh(f"kill -0 {pid} && echo runs") == "runs"
        assert int(server.sh("cat /run/count")) >= count
        for key in range(number + 1):
            assert server.sh(f"redis-cli get key-{key}") == "kept"
    assert server.boot_id == boot_id
    assert server.units == units
    assert server.state == "running"
    assert server.status["resumes"] == CUTS, server.status
    assert server.stop_mode == "fast"


def test_sleep_is_a_stop(server: Server) -> None:
    """Suspend and hibernate are off, and back where it was, though nothing is written to a swap."""
    assert server.state == "running", server.sh("systemctl --failed")
    boot_id, pid = server.boot_id, server.sh(COUNTER)
    for number, way in enumerate(("suspend", "hibernate", "hybrid-sleep"), 1):
        server.sh(f"systemctl {way}")  # ends before the machine is off: logind asks systemd
        assert server.machine.wait_off(SLEEP_LIMIT_S) is MachineState.STOPPED
        server.power_on()
        assert server.sh(f"kill -0 {pid} && echo runs") == "runs"
        assert server.sh(f"systemctl show -P Result systemd-{way}.service") == "success"
        assert server.status["resumes"] == number, server.status
    assert server.boot_id == boot_id
    assert server.state == "running"


def test_an_empty_ups_is_a_stop_each_time(server: Server) -> None:
    """By NUT's own units; the script is that of the package."""
    server.sh(f"{ups.CONFIGURE}systemctl enable -q nut-driver-enumerator nut-server nut-monitor")
    server.sh("systemctl restart nut-driver-enumerator nut-driver@ups nut-server nut-monitor")
    pid = server.sh(COUNTER)
    for number in (1, 2):
        ups.wait_settled(server.machine)
        server.sh(f"cat >/run/mains <<'END'\n{ups.MAINS}END")
        server.sh("systemd-run --quiet sh /run/mains")
        assert server.machine.wait_off(SLEEP_LIMIT_S) is MachineState.STOPPED
        server.power_on()
        assert server.status["resumes"] == number
    assert server.sh(f"kill -0 {pid} && echo runs") == "runs"
    assert server.state == "running", server.sh("systemctl --failed")


def test_without_the_drop_in_there_is_no_image(server: Server) -> None:
    """The negative proof: without the drop-in the same words are systemd's own sleep."""
    assert server.state == "running", server.sh("systemctl --failed")
    server.sh("mkdir -p /etc/systemd/system/systemd-hibernate.service.d")
    server.sh(
        "printf '[Service]\\nExecStart=\\nExecStart=/lib/systemd/systemd-sleep hibernate\\n'"
        " >/etc/systemd/system/systemd-hibernate.service.d/zz.conf && systemctl daemon-reload"
    )
    server.sh("systemctl hibernate || true")
    with pytest.raises(HangError):
        server.machine.wait_off(REFUSED_S)
    assert server.status["resumes"] == 0, server.status


def test_without_a_commit_the_boot_is_cold(server: Server) -> None:
    """The negative proof: power that ends at once, without a Stop."""
    boot_id, pid = server.boot_id, server.sh(COUNTER)
    server.cut(UNANNOUNCED)
    assert server.power_on_cold() != "resumed"
    assert server.boot_id != boot_id
    assert server.sh(f"kill -0 {pid} 2>/dev/null && echo runs || true") != "runs"
