# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A host that is a machine of ours: its power goes as a machine's does, with `rem-vm` in it.

Two hosts. One is Debian with its own kernel: main memory is DRAM, and an NVDIMM has a file system
with DAX for the guests' memory, records and device states. The other is Remanence, whose main
memory survives; a part of its NVRAM is such a file system, too. QEMU is Debian's package. The guest
counts on its serial line, which is the machine's console, and checks its memory (guest/counter):
QEMU is emulated itself, and a kernel would take many minutes to boot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.machine import Machine
from lab.machine.config import MachineConfig
from lab.machine.cut_plan import ANNOUNCED, UNANNOUNCED, CutPlan
from lab.machine.cut_points import attach_cut_points
from lab.machine.guest import GuestResult
from lab.machine.machine import MachineState
from lab.machine.qemu import NVRAM_PHYS
from lab.machine.supply import CutRecord
from lab.setup.counter import Counter
from lab.setup.products import MACHINE, Root, need_all
from lab.setup.stock import Stock, StockKernel
from lab.setup.vm import RemVm
from lab.testbed.machines import make_config, with_caches_alone
from lab.testbed.waiting import wait_until
from lab.verdict import BrokenError

HOST_ROOT = Root.having("ndctl", "qemu-system-x86")
PMEM = "/pmem"
FOLDER = f"{PMEM}/rem-vm"
CONFIG = "/etc/rem-vm.toml"
CONSOLE = "/dev/ttyS0"  # the machine's own: what was printed there outlives a cut
LOG = "/root/host.log"
WIRE = "/dev/ttyS1"
NAME = "counter"
RAM_BYTES = 32 << 20
REGION_BYTES = 384 << 20
DRAM_BYTES = 1 << 30
HOLD_UP_US = 60_000_000  # QEMU under emulation
BOOT_LIMIT_S = 300.0
COMMAND_LIMIT_S = 600.0
GUEST_LIMIT_S = 900.0
POLL_S = 1.0
TURN = 66  # counts in which the guest has looked at all of its memory (guest/counter)
BROKEN = "does-not-continue"


@dataclass
class NestedHost:
    """The machine, and what is said to `rem-vm` in it."""

    machine: Machine
    is_debian: bool
    ram: str | None = None  # where the guest's memory is, if not in its folder
    persistent: bool = False  # what `host_is_persistent` says

    def sh(self, command: str, check: bool = True) -> GuestResult:
        return self.machine.guest.run(command, check=check, limit_s=COMMAND_LIMIT_S)

    # Power.

    def power_on(self) -> None:
        """The host's power comes; /pmem is there, and no rem-vm runs."""
        self.machine.boot()
        self.machine.wait_up(BOOT_LIMIT_S)
        self.begin()

    def begin(self) -> None:
        """What a host does at boot."""
        # No message of the kernel into a line of the guest.
        self.sh(f"dmesg -n 1; {self._devices()}")
        self.sh(
            "blkid /dev/pmem0 >/dev/null || mkfs.ext4 -q -b 4096 /dev/pmem0; "
            f"mkdir -p {PMEM} && mount -o dax=always /dev/pmem0 {PMEM}"
        )

    def _devices(self) -> str:
        """The commands that make a block device with DAX of the NVDIMM."""
        if not self.is_debian:
            return "true"
        space = "namespace0.0"
        return (
            "modprobe nfit; modprobe nd_pmem; until [ -b /dev/pmem0 ]; do sleep 0.2; done; "
            f"ndctl list -n {space} | grep -q fsdax || "
            f"ndctl create-namespace -f -e {space} -m fsdax >/dev/null"
        )

    def cut(self, plan: CutPlan = ANNOUNCED) -> CutRecord:
        self.machine.guest.close()
        return self.machine.cut(plan)

    # rem-vm.

    def write_config(self) -> None:
        self.sh(f"cat >{CONFIG} <<'end'\n{self._toml()}end\nsync")

    def _toml(self) -> str:
        """JSON's strings and lists are TOML's."""
        words = ["-nodefaults", "-display", "none", "-no-user-config"]
        words += ["-bios", "/root/counter.bin"]
        words += ["-chardev", f"file,id=console,path={CONSOLE},append=on"]
        words += ["-serial", "chardev:console"]
        lines = [
            f'folder = "{FOLDER}"',
            f"hold_up_us = {HOLD_UP_US}",
            f'wire = "{WIRE}"' if self.is_debian else "",
            "[[guest]]",
            f'name = "{NAME}"',
            f"ram_bytes = {RAM_BYTES}",
            f'ram = "{self.ram}"' if self.ram else "",
            'accel = "tcg"',
            f"args = {json.dumps(words)}",
            f"host_is_persistent = {json.dumps(self.persistent)}",
        ]
        return "\n".join(filter(None, lines)) + "\n"

    def start(self) -> dict[str, Any]:
        """rem-vm runs; the status of the guest when it serves."""
        self.sh(f"rm -f {LOG}; setsid rem-vm run {CONFIG} >{LOG} 2>&1 </dev/null &")

        def serves() -> bool:
            self.sh(f"pidof rem-vm || {{ cat {LOG} >&2; exit 1; }}")
            return self.sh(f"grep -q ^serving {LOG}", check=False).ok

        wait_until(serves, "rem-vm serves", GUEST_LIMIT_S, POLL_S)
        return self.status()

    @property
    def serves(self) -> bool:
        """Whether a rem-vm does."""
        is_on = self.machine.state is MachineState.RUNNING
        return is_on and self.sh(f"rem-vm status {CONFIG}", check=False).ok

    def status(self) -> dict[str, Any]:
        (one,) = json.loads(self.sh(f"rem-vm status {CONFIG}").stdout)["guests"]
        found: dict[str, Any] = one
        return found

    def stop(self) -> None:
        """A planned end: the guest is saved, and rem-vm has ended."""
        self.sh(f"rem-vm stop {CONFIG}")
        ended = "! pidof rem-vm && ! pidof qemu-system-x86_64"
        wait_until(lambda: self.sh(ended, check=False).ok, "rem-vm ends", COMMAND_LIMIT_S, POLL_S)

    def boot_after_a_stop(self) -> int:
        """A planned end, and another boot; what the guest had counted."""
        self.stop()
        last = self.counts()[-1]
        self.cut(UNANNOUNCED)
        self.power_on()
        return last

    # The guest.

    def counts(self) -> list[int]:
        """What the guest has counted in this boot of the machine.

        Raises BrokenError if it has found memory that is not as it left it.
        """
        assert self.machine.console is not None
        text = self.machine.console.text()
        if "memory differs" in text:
            raise BrokenError(BROKEN, "the guest's memory is not what it was")
        return [int(number) for number in re.findall(r"guest count (\d+)\.", text)]

    def wait_counts(self, more: int = 3) -> list[int]:
        """The same when there are so many."""
        wait_until(
            lambda: len(self.counts()) >= more, "the guest counts", GUEST_LIMIT_S, POLL_S
        )  # fmt: skip
        return self.counts()

    def check_goes_on(self, last: int) -> None:
        """Raises BrokenError if this boot's counts do not follow *last*, each once.

        It waits until the guest has looked at all of its memory.
        """
        found = self.wait_counts(TURN)
        # A line may have been on its way.
        follows = last < found[0] <= last + 2
        if not follows or found != list(range(found[0], found[0] + len(found))):
            raise BrokenError(BROKEN, f"after {last} the guest counts {found}")


def _debian(
    name: str, cpus: int, stock: StockKernel, root: Path, caches: str | None
) -> MachineConfig:
    made = make_config(name, cpus, kernel=stock.bz_image)
    made = replace(made, loader=None, initrd=stock.initrd, memtype=None, root=root)
    # Without an IOMMU: see lab/testbed/pm_guest.py.
    made = replace(made, nvram_bytes=REGION_BYTES, dram_bytes=DRAM_BYTES, iommu=False)
    return made if caches is None else with_caches_alone(made, caches)


def _remanence(name: str, cpus: int, root: Path) -> MachineConfig:
    made = make_config(name, cpus)
    phys = NVRAM_PHYS + made.nvram_bytes - REGION_BYTES
    words = f"memmap={REGION_BYTES >> 20}M!{phys:#x}"
    return replace(made, root=root, cmdline_extra=words)


@contextmanager
def nested_host(
    name: str, debian: bool, cpus: int = 2, caches: str | None = None, **fields: Any
) -> Iterator[NestedHost]:
    """A host that is on, with everything installed; destroyed at the end.

    *caches*: volatile ones, of a Debian host; *fields*: those of NestedHost.
    """
    built = need_all([MACHINE, Stock(), RemVm(), HOST_ROOT, Counter()])
    root, stock = built[HOST_ROOT], built[Stock()]
    config = _debian(name, cpus, stock, root, caches) if debian else _remanence(name, cpus, root)
    with Machine.create(config, destroy_on_exit=True) as machine:
        host = NestedHost(machine, debian, **fields)
        attach_cut_points(machine)
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        _install(host, stock, built[Counter()], built[RemVm()])
        host.begin()
        yield host


def _install(host: NestedHost, stock: StockKernel, counter: Path, program: Path) -> None:
    put = host.machine.guest.put
    put(program, "/usr/local/bin/rem-vm")
    put(counter, "/root/counter.bin")
    if host.is_debian:
        put(stock.modules, "/root/more.tar")
        host.sh("tar -C / --keep-directory-symlink -xf /root/more.tar && depmod")
    host.write_config()
