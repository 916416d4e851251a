# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A server that was installed: Debian with systemd from the disk of `rem image`, by firmware.

Goal: a machine of UEFI firmware boots the disk as it is; systemd says that all units run; each of
three power cuts under load is survived by all programs, by the ssh session from the host, and by
what has been written; the same units run as before, and remctl says that the last boot resumed.
Without the commit of a Stop (the negative proof) nothing of that holds: the boot is cold. Method:
the disk is made once; the machine has nothing of the laboratory's own guest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.addresses import GUEST_ADDRESS, HOST_ADDRESS
from lab.commit import commit_of_checkout
from lab.distribution.disk import BASE, VARIANT, DiskPlan, make_disk
from lab.machine.config import MachineConfig
from lab.machine.cut_plan import CutPlan
from lab.machine.machine import Machine
from lab.paths import ssh_key
from lab.setup.debian_root import DebianRoot
from lab.setup.debs import Debs
from lab.setup.loader import Loader
from lab.setup.ovmf import Ovmf
from lab.setup.products import MACHINE, Group, Kernel, Packages, Root, need_all
from lab.testbed.machines import firmware_fields

pytestmark = pytest.mark.soak

NETWORK = f"""[Match]
Type=ether

[Network]
Address={GUEST_ADDRESS}/24
Gateway={HOST_ADDRESS}
"""
# Why: lab/machine/config.py, CMDLINE_BASE.
QEMU_WORDS = (
    "memtype=nvram console=ttyS0 panic=-1 no_timer_check tsc=reliable lapic_timer_khz=1000000"
    " hpet=disable"
)
BOOT_LIMIT_S = 600.0
CUTS = 3
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
    debs = Debs(commit_of_checkout())
    base = DebianRoot(VARIANT, (*BASE, "python3", "redis-server"))
    # The laboratory's own root brings the key of its guests.
    made = need_all([debs, base, Root(), Packages((Group.ROOT, Group.UEFI))])
    file = tmp_path_factory.mktemp("server") / "server.img"
    plan = DiskPlan(
        made[base],
        made[debs],
        ssh_key().with_suffix(".pub").read_text(encoding="utf-8"),
        network=NETWORK,
        cmdline=QEMU_WORDS,
    )
    make_disk(plan, file)
    return file


@pytest.fixture
def server(disk: Path) -> Iterator[Machine]:
    made = need_all([Kernel("server"), Loader(), Ovmf(), MACHINE])
    config = MachineConfig(
        name="t-server",
        kernel=made[Kernel("server")].bz_image,
        loader=made[Loader()],
        root=disk,
        boots_from_root=True,
        cpus=2,
        disk_cache="volatile",
        **firmware_fields(made[Ovmf()]),
    )
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.guest.wait_ssh(BOOT_LIMIT_S)
        yield machine


def call(machine: Machine, command: str) -> str:
    return machine.run_in_guest(command, limit_s=BOOT_LIMIT_S).stdout.strip()


def state_of_units(machine: Machine) -> str:
    """Waits until systemd has started what it is to start."""
    return call(machine, "systemctl is-system-running --wait || true")


def units_that_run(machine: Machine) -> set[str]:
    words = "systemctl list-units --state=running --plain --no-legend --type=service"
    found = {line.split()[0] for line in call(machine, words).splitlines()}
    return {name for name in found if not name.startswith(("session-", "user@"))}


def test_an_installed_server_survives_cuts(server: Machine) -> None:
    assert state_of_units(server) == "running", call(server, "systemctl --failed")
    status = json.loads(call(server, "remctl status --json"))
    assert status["armed"], status
    units, boot_id = units_that_run(server), call(server, "cat /proc/sys/kernel/random/boot_id")
    pid = call(server, COUNTER)
    for number in range(CUTS):
        call(server, f"redis-cli set key-{number} kept && sync")
        count = int(call(server, "cat /run/count"))
        record = server.cut()
        assert record.stopped, record
        server.resume()
        server.wait_resumed(BOOT_LIMIT_S)
        assert call(server, f"kill -0 {pid} && echo runs") == "runs"
        assert int(call(server, "cat /run/count")) >= count
        for key in range(number + 1):
            assert call(server, f"redis-cli get key-{key}") == "kept"
    assert call(server, "cat /proc/sys/kernel/random/boot_id") == boot_id
    assert units_that_run(server) == units
    assert state_of_units(server) == "running"
    status = json.loads(call(server, "remctl status --json"))
    assert status["resumes"] == CUTS, status


def test_without_a_commit_the_boot_is_cold(server: Machine) -> None:
    """The negative proof: power that ends at once, without a Stop."""
    boot_id = call(server, "cat /proc/sys/kernel/random/boot_id")
    pid = call(server, COUNTER)
    server.cut(CutPlan(announced=False))
    server.resume()
    note = server.wait_boot_note(BOOT_LIMIT_S)
    assert not note.resumed
    server.guest.wait_ssh(BOOT_LIMIT_S)
    assert call(server, "cat /proc/sys/kernel/random/boot_id") != boot_id
    assert call(server, f"kill -0 {pid} 2>/dev/null && echo runs || true") != "runs"
