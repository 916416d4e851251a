# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A server that was installed: Debian with systemd, on a disk of `rem image`, by UEFI firmware.

It has nothing of the laboratory's own guest, and the kernel of our packages.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.addresses import GUEST_ADDRESS, GUEST_ADDRESS6, HOST_ADDRESS
from lab.commit import commit_of_checkout
from lab.distribution.disk import BASE, MATCH, VARIANT, DiskPlan, make_disk, take_from_root
from lab.machine import Machine
from lab.machine.config import CPU_MODEL, MachineConfig
from lab.machine.cut_plan import ANNOUNCED, CutPlan
from lab.machine.machine import make_room
from lab.machine.network import TapNetwork
from lab.machine.supply import CutRecord
from lab.paths import ssh_key, state_dir
from lab.setup.debian_root import DebianRoot
from lab.setup.debs import Debs
from lab.setup.kernel import FOR_MODULES, PACKED
from lab.setup.loader import Loader
from lab.setup.ovmf import Ovmf
from lab.setup.products import MACHINE, TPM, Group, Kernel, Packages, Root, need_all
from lab.testbed.machines import fast_dir, firmware_fields
from lab.verdict import cold_verdict

NETWORK = f"""{MATCH}
[Network]
Address={GUEST_ADDRESS}/24
Address={GUEST_ADDRESS6}/64
Gateway={HOST_ADDRESS}
"""
# Why: lab/machine/config.py, CMDLINE_BASE.
QEMU_WORDS = (
    "memtype=nvram console=ttyS0 panic=-1 no_timer_check tsc=reliable lapic_timer_khz=1000000"
    " hpet=disable"
)
BOOT_LIMIT_S = 600.0
PASSING = ("session-", "user@", "systemd-fsckd", "systemd-hostnamed", "systemd-timedated")


@dataclass
class Server:
    """The machine, and what is said to its system."""

    machine: Machine

    def sh(self, command: str) -> str:
        """What a command that succeeds prints."""
        return self.machine.run_in_guest(command, limit_s=BOOT_LIMIT_S).stdout.strip()

    def cut(self, plan: CutPlan = ANNOUNCED) -> CutRecord:
        return self.machine.cut(plan)

    def power_on(self) -> None:
        """Power returns, and the loader enters the image."""
        self.machine.resume()
        self.machine.wait_resumed(BOOT_LIMIT_S)

    def power_on_cold(self) -> str:
        """Power returns, and the loader boots the kernel: `cold-REASON`, or `resumed`."""
        self.machine.resume()
        note = self.machine.wait_boot_note(BOOT_LIMIT_S)
        self.machine.guest.close()
        self.machine.guest.wait_ssh(BOOT_LIMIT_S)
        return "resumed" if note.resumed else cold_verdict(note.reason)

    @property
    def boot_id(self) -> str:
        return self.sh("cat /proc/sys/kernel/random/boot_id")

    @property
    def state(self) -> str:
        """Of the system; waits until systemd has started what it is to start."""
        return self.sh("systemctl is-system-running --wait || true")

    @property
    def units(self) -> set[str]:
        """Services that run, but those of sessions and what ends when it is idle."""
        words = "systemctl list-units --state=running --plain --no-legend --type=service"
        found = {line.split()[0] for line in self.sh(words).splitlines()}
        return {name for name in found if not name.startswith(PASSING)}

    @property
    def stop_mode(self) -> str:
        """How the kernel would stop now."""
        return self.sh("cat /sys/kernel/remanence/stop_mode")

    @property
    def status(self) -> dict[str, Any]:
        """What remctl says."""
        found: dict[str, Any] = json.loads(self.sh("remctl status --json"))
        return found


def make_server_disk(file: Path, packages: tuple[str, ...], words: str = "", **sizes: int) -> None:
    """Of the last commit's packages and more of Debian's; root has the laboratory's key. *words*:
    more of the kernel's; *sizes*: those of a DiskPlan.
    """
    debs = Debs(commit_of_checkout())
    base = DebianRoot(VARIANT, (*BASE, *FOR_MODULES, *packages))
    # The laboratory's own root brings the key of its guests.
    made = need_all([debs, base, Root(), Packages((Group.ROOT, Group.UEFI))])
    plan = DiskPlan(
        made[base],
        made[debs],
        ssh_key().with_suffix(".pub").read_text(encoding="utf-8"),
        network=NETWORK,
        cmdline=f"{QEMU_WORDS} {words}".strip(),
        **sizes,  # type: ignore[arg-type]  # its fields of numbers
    )
    make_disk(plan, file)


@contextmanager
def server_disk(packages: tuple[str, ...] = (), **sizes: int) -> Iterator[Path]:
    """The same in a folder of its own, which is removed at the end."""
    state_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="server-", dir=state_dir()) as folder:
        disk = Path(folder) / "server.img"
        make_server_disk(disk, packages, "", **sizes)
        yield disk


def initrd_of(disk: Path) -> Path:
    """The initial RAM disk of the kernel on that disk, copied beside it."""
    kernel = Kernel(PACKED)
    copy = disk.with_name(f"initrd.img-{need_all([kernel])[kernel].version}")
    take_from_root(disk, f"/boot/{copy.name}", copy)
    return copy


@contextmanager
def booted_server(
    name: str,
    disk: Path,
    cpus: int = 2,
    devices: tuple[str, ...] = (),
    cpu_model: str = CPU_MODEL,
) -> Iterator[Server]:
    """A machine that has booted from a copy of that disk, destroyed at the end. *devices*: more of
    QEMU's."""
    make_room(name)
    kernel = Kernel(PACKED)
    made = need_all([kernel, Loader(), Ovmf(), MACHINE, TPM])
    config = MachineConfig(
        name=name,
        kernel=made[kernel].bz_image,
        loader=made[Loader()],
        root=disk,
        boots_from_root=True,
        cpus=cpus,
        cpu_model=cpu_model,
        disk_cache="volatile",
        nvram_dir=fast_dir(),
        network="tap",
        tpm="crb",
        devices=devices,
        **firmware_fields(made[Ovmf()]),
    )
    with Machine.create(config, destroy_on_exit=True) as machine:
        assert isinstance(machine.network, TapNetwork)
        machine.network.add_ipv6()
        machine.boot()
        machine.guest.wait_ssh(BOOT_LIMIT_S)
        yield Server(machine)


@contextmanager
def server(name: str, packages: tuple[str, ...], data_bytes: int) -> Iterator[Server]:
    """A disk, and a machine that has booted from it; nothing of either is left."""
    with server_disk(packages, data_bytes=data_bytes) as disk, booted_server(name, disk) as made:
        yield made
