# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A machine with the last 256 MiB of its NVRAM as a pmem device, and pm in its guest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.errors import RemError
from lab.machine import Machine
from lab.machine.cut_plan import UNANNOUNCED
from lab.machine.guest import GuestResult
from lab.machine.qemu import NVRAM_PHYS
from lab.paths import repo_dir
from lab.setup.pm import Pm, PmProduct
from lab.setup.products import Kernel, need
from lab.setup.stock import Stock
from lab.testbed.machines import make_config

REGION_BYTES = 256 << 20
STOCK_DRAM_BYTES = 1 << 30  # what Debian's kernel needs
BOOT_LIMIT_S = 240.0
COMMAND_LIMIT_S = 600.0  # only for hangs: on a crowded host a guest is slow
WATCHED_LIMIT_S = 1200.0
ENTER_LIMIT_S = 10.0  # the connection never ends, as its kernel has ended
HALT_LIMIT_S = 120.0


@contextmanager
def stock_machine(name: str, cpus: int = 2, more: str = "") -> Iterator[Machine]:
    """The same region under Debian's own kernel, which has DRAM as its main memory."""
    stock = need(Stock())
    config = make_config(name, cpus, kernel=stock.bz_image)
    phys = NVRAM_PHYS + config.nvram_bytes - REGION_BYTES
    words = f"memmap={REGION_BYTES >> 20}M!{phys:#x} {more}".strip()
    config = replace(config, loader=None, initrd=stock.initrd, memtype=None, cmdline_extra=words)
    # Without an IOMMU: behind one, QEMU damages the memory of a kernel whose long rings lie on
    # scattered pages (kernel/patches/0019).
    config = replace(config, dram_bytes=STOCK_DRAM_BYTES, iommu=False)
    with Machine.create(config, destroy_on_exit=True) as machine:
        yield machine


def install_stock(machine: Machine) -> None:
    """Install our modules and Debian's; load those that make the region's device."""
    _install(machine, need(Pm(stock=True)))
    stock = need(Stock())
    for archive in (stock.modules, stock.tools):
        machine.guest.put(archive, "/root/more.tar")
        # Keep the links of a merged /usr.
        sh(machine, "tar -C / --keep-directory-symlink -xf /root/more.tar && ldconfig")
    sh(machine, "depmod $(uname -r) && sync")
    load_devices(machine)


def load_devices(machine: Machine) -> None:
    """Load modules of Debian's kernel after each boot: nothing loads them automatically."""
    sh(machine, "modprobe nd_e820 && modprobe nd_pmem && modprobe libcrc32c")


@contextmanager
def machine_with_region(
    name: str,
    cpus: int = 2,
    icount: bool = False,
    more: str = "",
    caches: str | None = None,
    kernel: Path | None = None,
) -> Iterator[Machine]:
    """Not yet running; destroyed at the end."""
    config = make_config(name, cpus, kernel=kernel, caches=caches)
    phys = NVRAM_PHYS + config.nvram_bytes - REGION_BYTES
    words = f"memmap={REGION_BYTES >> 20}M!{phys:#x} {more}".strip()
    config = replace(config, cmdline_extra=words, icount=icount or caches is not None)
    with Machine.create(config, destroy_on_exit=True) as machine:
        yield machine


def region_offset(machine: Machine) -> int:
    """The offset of the region in the machine's NVRAM file."""
    return machine.config.nvram_bytes - REGION_BYTES


def wait_up(machine: Machine) -> None:
    machine.wait_up(BOOT_LIMIT_S)


def install(machine: Machine, variant: str | None = None, mutants: bool = False) -> None:
    """Copy modules, for a kernel's *variant*, and programs to the guest's disk."""
    _install(machine, need(Pm(variant=variant, mutants=mutants)))


@contextmanager
def guest_with_region(
    name: str, cpus: int = 2, icount: bool = False, more: str = "", caches: str | None = None
) -> Iterator[Machine]:
    """A machine_with_region() that is up, with modules and programs installed."""
    with machine_with_region(name, cpus, icount, more, caches) as machine:
        machine.boot()
        wait_up(machine)
        install(machine)
        yield machine


@contextmanager
def guest_that_watches(name: str, more: str = "") -> Iterator[Machine]:
    """The same with the debug kernel (kernel/config/debug.config), which is slow."""
    kernel = need(Kernel("debug")).bz_image
    with machine_with_region(name, more=more, kernel=kernel) as machine:
        machine.boot()
        machine.wait_up(WATCHED_LIMIT_S)
        install(machine, "debug")
        yield machine


@contextmanager
def guest_with_stock(name: str, more: str = "") -> Iterator[Machine]:
    """The same with stock_machine()."""
    with stock_machine(name, more=more) as machine:
        machine.boot()
        wait_up(machine)
        install_stock(machine)
        yield machine


def _install(machine: Machine, product: PmProduct) -> None:
    for path in (*product.modules, *product.test_modules):
        machine.guest.put(path, f"/root/{path.name}")
    machine.guest.put(product.pmadmin, "/usr/local/bin/pmadmin")
    machine.guest.put(product.folder / "pm-bench", "/usr/local/bin/pm-bench")
    machine.guest.put(product.folder / "libpm.so.1", "/usr/lib/libpm.so.1")
    machine.guest.put(repo_dir() / "pm" / "lib" / "pm.py", "/root/pm.py")
    for path in sorted((repo_dir() / "pm" / "guest").glob("*.py")):
        machine.guest.put(path, f"/root/{path.name}")
    # The disk may lose what was not written back when the power fails.
    sh(machine, "sync")


def load(machine: Machine, *words: str, source: str = "device=/dev/pmem0") -> None:
    """Load the modules on the region; *words* are parameters of pmcore."""
    if machine.config.loader is None:
        load_devices(machine)
    sh(machine, " ".join(("insmod /root/pmcore.ko", source, *words)))
    sh(machine, "insmod /root/pmbc.ko && insmod /root/pmramd.ko")


def unload(machine: Machine) -> None:
    sh(machine, "rmmod pmramd && rmmod pmbc && rmmod pmcore")


def status(machine: Machine, check: bool = True) -> dict[str, Any]:
    """pmadmin's status of the region; without *check* also of a damaged one."""
    found: dict[str, Any] = json.loads(sh(machine, "pmadmin --json status", check=check).stdout)
    return found


def sh(machine: Machine, command: str, check: bool = True) -> GuestResult:
    return machine.guest.run(command, check=check, limit_s=COMMAND_LIMIT_S)


def reset(machine: Machine, trigger: str) -> None:
    """By a letter of sysrq: b reboots, c panics. The root disk is written back first."""
    _end_kernel(machine, f"sync -f /root; echo {trigger} >/proc/sysrq-trigger")


def kexec(machine: Machine) -> None:
    """The kernel enters the same kernel again by kexec: no reset, no loader."""
    machine.guest.put(machine.config.kernel, "/root/bzImage")
    sh(machine, "python3 /root/pm-kexec.py load /root/bzImage")
    _end_kernel(machine, "python3 /root/pm-kexec.py enter")


def halt(machine: Machine) -> None:
    """The kernel halts in order, though programs are not asked; the power stays on."""
    code = "import ctypes; ctypes.CDLL(None).reboot(0xcdef0123)"
    before = _leave_kernel(machine, f"sync -f /root; python3 -c '{code}'")
    assert machine.console is not None
    machine.console.expect("System halted", HALT_LIMIT_S, before)


def _end_kernel(machine: Machine, command: str) -> None:
    """End the kernel by *command* and wait until the next one is up."""
    machine.wait_up(BOOT_LIMIT_S, _leave_kernel(machine, command))


def _leave_kernel(machine: Machine, command: str) -> int:
    """End the kernel by *command*; the console's position before it."""
    assert machine.console is not None
    before = machine.console.position()
    with suppress(RemError):  # this kernel ends before the connection does
        machine.guest.run(command, limit_s=ENTER_LIMIT_S)
    machine.guest.close()
    return before


def cut(machine: Machine) -> None:
    """Cut the power without announcement, and boot again."""
    machine.cut(UNANNOUNCED)
    machine.boot()
    wait_up(machine)


def kernel_complaints(machine: Machine) -> str:
    """Oopses and warnings so far in this boot."""
    return sh(machine, "dmesg | grep -E 'BUG:|WARNING:|Oops|INFO: task' || true").stdout
