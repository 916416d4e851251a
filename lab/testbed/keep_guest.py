# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A machine with Debian's own kernel, a range of NVRAM for kept programs, and `rem-keep` in it.

NVRAM is two things for that kernel: a reserved range, which the module makes memory of, and a pmem
device with a file system for what is not memory (CRIU's images). Programs serve at an address of
their own, which the fresh system has not got before they are back: until then their clients wait,
as for a server that is off.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.clients.process import ClientProcess
from lab.errors import RemError
from lab.machine import Machine
from lab.machine.config import MachineConfig
from lab.machine.cut_plan import ANNOUNCED, CutPlan
from lab.machine.cut_points import attach_cut_points
from lab.machine.guest import GuestResult
from lab.machine.qemu import NVRAM_PHYS
from lab.machine.supply import CutRecord
from lab.setup.keep import KEEP_ROOT, KeepModule, RemKeep
from lab.setup.products import MACHINE, need, need_all
from lab.setup.stock import Stock, StockKernel
from lab.testbed.machines import make_config, with_caches_alone
from lab.testbed.workload import PORTS

Writers = ClientProcess
SERVICE_ADDRESS = "10.77.0.3"
FOLDER = "/keep"
CONFIG = "/etc/rem-keep.toml"
WIRE = "/dev/ttyS1"
BOOT_LIMIT_S = 300.0
COMMAND_LIMIT_S = 600.0
ENTER_LIMIT_S = 20.0

REDIS = "redis-server --save '' --appendonly no --protected-mode no --bind 0.0.0.0 --dir /run"
CRIU_MODULES = (
    "nf_tables nft_compat xt_mark xt_tcpudp inet_diag tcp_diag udp_diag raw_diag "
    "unix_diag netlink_diag af_packet_diag"
)


@dataclass(frozen=True)
class Sizes:
    """Of the machine's memories."""

    range_bytes: int = 512 << 20
    images_bytes: int = 128 << 20
    dram_bytes: int = 1 << 30


@dataclass
class KeepGuest:
    """The machine and what is said to `rem-keep` in it."""

    machine: Machine
    hold_up_us: int
    sizes: Sizes

    def sh(self, command: str, check: bool = True) -> GuestResult:
        return self.machine.guest.run(command, check=check, limit_s=COMMAND_LIMIT_S)

    def keep(self, *words: str, check: bool = True) -> GuestResult:
        """A command of `rem-keep`."""
        return self.sh(" ".join(("rem-keep", words[0], CONFIG, *words[1:])), check=check)

    def power_on(self) -> dict[str, Any]:
        """A fresh system; kept programs are back when this returns. The status of `rem-keep`."""
        self.machine.boot()
        self.machine.wait_up(BOOT_LIMIT_S)
        return self.begin()

    def mount(self) -> None:
        """The file system of CRIU's images."""
        self.sh(
            f"for n in nd_e820 nd_pmem ext4 {CRIU_MODULES}; do modprobe $n; done; "
            f"mkdir -p {FOLDER}; blkid /dev/pmem0 >/dev/null || mkfs.ext4 -q -b 4096 /dev/pmem0; "
            f"mount -o dax /dev/pmem0 {FOLDER} || mount /dev/pmem0 {FOLDER}"
        )

    def begin(self) -> dict[str, Any]:
        """What a unit does at boot."""
        self.mount()
        # Packets of connections that are not there yet would be answered by resets.
        rule = f"INPUT -d {SERVICE_ADDRESS} -j DROP"
        self.sh(f"iptables -w -I {rule}; ip addr add {SERVICE_ADDRESS}/24 dev eth0")
        self.keep("up")
        self.sh(f"iptables -w -D {rule}")
        return self.status()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.keep("status").stdout)
        return found

    def run(self, name: str, command: str) -> None:
        """Start a program that is kept."""
        self.keep("run", "--detach", name, "--", command)

    def serve(self) -> None:
        """From here on a drop of PWR_OK saves all kept programs."""
        self.sh(f"setsid rem-keep serve {CONFIG} >/run/serve.log 2>&1 </dev/null &")

    def cut(self, plan: CutPlan = ANNOUNCED) -> CutRecord:
        self.machine.guest.close()
        return self.machine.cut(plan)

    def kexec(self) -> dict[str, Any]:
        """A planned change of the kernel: all programs are saved, and the next kernel runs."""
        console = self.machine.console
        assert console is not None
        self.sh("kexec -l /root/bzImage --initrd=/root/initrd --reuse-cmdline")
        self.keep("save")
        before = console.position()
        with suppress(RemError):  # this kernel ends before the connection does
            self.machine.guest.run("kexec -e", limit_s=ENTER_LIMIT_S)
        self.machine.guest.close()
        self.machine.wait_up(BOOT_LIMIT_S, before)
        return self.begin()

    def writers(self, protocol: str, clients: int, depth: int) -> Writers:
        """Clients of a server at the service's address; they never connect again."""
        words = {"protocol": protocol, "host": SERVICE_ADDRESS, "clients": clients, "depth": depth}
        return Writers.beside(self.machine.network, "writers", **words)

    def start_redis(self, more: str = "") -> None:
        self.run("redis", f"{REDIS} {more}".strip())
        self.sh("until redis-cli ping >/dev/null 2>&1; do sleep 0.2; done")
        assert PORTS["redis"] == 6379

    def plant(self, bug: str) -> None:
        """Switch a planted bug of the module on, until the next boot."""
        self.sh(f"echo {bug} >/sys/module/rem_keep/parameters/mutant")

    def has_redis(self) -> bool:
        return self.sh("pidof redis-server", check=False).ok

    @property
    def range_bytes(self) -> int:
        return self.sizes.range_bytes

    @property
    def range_offset(self) -> int:
        """Of the range in the machine's NVRAM, in bytes."""
        return self.machine.config.nvram_bytes - self.sizes.range_bytes - self.sizes.images_bytes

    def nvram(self) -> Path:
        """The file of media, for damage while the machine is off."""
        return self.machine.files.nvram(self.machine.config)


def _config(name: str, cpus: int, caches: str | None, sizes: Sizes) -> MachineConfig:
    stock, root = need(Stock()), need(KEEP_ROOT)
    made = make_config(name, cpus, kernel=stock.bz_image)
    region_bytes = sizes.range_bytes + sizes.images_bytes
    made = replace(made, nvram_bytes=max(made.nvram_bytes, region_bytes))
    start = NVRAM_PHYS + made.nvram_bytes - region_bytes
    words = (
        f"memmap={sizes.range_bytes >> 20}M${start:#x} "
        f"memmap={sizes.images_bytes >> 20}M!{start + sizes.range_bytes:#x}"
    )
    made = replace(made, loader=None, initrd=stock.initrd, memtype=None, cmdline_extra=words)
    # Without an IOMMU: see lab/testbed/pm_guest.py.
    made = replace(made, root=root, dram_bytes=sizes.dram_bytes, iommu=False)
    return made if caches is None else with_caches_alone(made, caches)


@contextmanager
def keep_guest(
    name: str,
    cpus: int = 2,
    caches: str | None = None,
    hold_up_us: int = 60_000_000,
    module: Path | None = None,
    sizes: Sizes = Sizes(),
) -> Iterator[KeepGuest]:
    """A machine that is on, with everything installed; destroyed at the end."""
    built = need_all([MACHINE, Stock(), RemKeep(), KEEP_ROOT])
    module = module or need(KeepModule())
    with Machine.create(_config(name, cpus, caches, sizes), destroy_on_exit=True) as machine:
        guest = KeepGuest(machine, hold_up_us, sizes)
        attach_cut_points(machine)
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        _install(guest, built[Stock()], module, built[RemKeep()])
        guest.begin()
        yield guest


def _install(guest: KeepGuest, stock: StockKernel, module: Path, program: Path) -> None:
    machine = guest.machine
    start = NVRAM_PHYS + guest.range_offset
    text = (
        f'folder = "{FOLDER}/images"\nstart = {start:#x}\nbytes = {guest.range_bytes}\n'
        f'module = "/root/rem_keep.ko"\nhold_up_us = {guest.hold_up_us}\nwire = "{WIRE}"\n'
    )
    machine.guest.put(stock.modules, "/root/more.tar")
    machine.guest.put(stock.bz_image, "/root/bzImage")
    machine.guest.put(stock.initrd, "/root/initrd")
    machine.guest.put(module, "/root/rem_keep.ko")
    machine.guest.put(program, "/usr/local/bin/rem-keep")
    guest.sh(f"cat >{CONFIG} <<'end'\n{text}end")
    guest.sh("tar -C / --keep-directory-symlink -xf /root/more.tar && ldconfig; depmod; sync")
