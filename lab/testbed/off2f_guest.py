# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A machine that can run programs of two files: a text store in NVRAM, module and tool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lab.machine import Machine
from lab.paths import repo_dir
from lab.setup.off2f import Off2fModule, Off2fTool
from lab.setup.packages import BUSYBOX
from lab.setup.products import Group, Kernel, Packages, need
from lab.testbed.pm_guest import WATCHED_LIMIT_S, machine_with_region, sh, wait_up

NVM = "/nvm"  # the file system in NVRAM
STORE = f"{NVM}/store"
PARAMETERS = "/sys/module/binfmt_off2f/parameters"
# So that the file system allocates aligned extents of 2 MiB.
MKFS = "mkfs.ext4 -q -F -b 4096 -E stride=512,stripe_width=512"
PROGRAMS = ("off2f-run", "off2f-try", "off2f-debug", "off2f-nvm")


def install(machine: Machine, busybox: bool = False, variant: str | None = None) -> None:
    """Copy module, for a kernel's *variant*, tool and programs to the guest's disk."""
    product, tool = need(Off2fModule(variant=variant), Off2fTool())
    machine.guest.put(product.module, "/root/binfmt_off2f.ko")
    machine.guest.put(tool, "/usr/local/bin/off2f")
    for name in PROGRAMS:
        machine.guest.put(product.folder / name, f"/root/{name}")
    if busybox:
        need(Packages((Group.GUESTS,)))
        machine.guest.put(BUSYBOX, "/root/busybox")
    for path in sorted((repo_dir() / "off2f" / "guest").glob("*.py")):
        machine.guest.put(path, f"/root/{path.name}")
    sh(machine, "sync")


@contextmanager
def guest_with_store(
    name: str, cpus: int = 2, icount: bool = False, busybox: bool = False, more: str = ""
) -> Iterator[Machine]:
    """A machine_with_region() that is up, with all of it installed and a new text store."""
    with machine_with_region(name, cpus, icount, more) as machine:
        machine.boot()
        wait_up(machine)
        install(machine, busybox)
        make_store(machine)
        yield machine


@contextmanager
def watched_guest_with_store(name: str, more: str = "") -> Iterator[Machine]:
    """The same with the debug kernel (kernel/config/debug.config), which is slow."""
    kernel = need(Kernel("debug")).bz_image
    with machine_with_region(name, more=more, kernel=kernel) as machine:
        machine.boot()
        machine.wait_up(WATCHED_LIMIT_S)
        install(machine, variant="debug")
        make_store(machine)
        yield machine


def make_store(machine: Machine) -> None:
    """Make a new file system in NVRAM, mount it and load the module."""
    sh(machine, f"{MKFS} /dev/pmem0")
    mount(machine)


def mount(machine: Machine) -> None:
    """Mount the file system and load the module; needed after each boot."""
    sh(machine, f"mkdir -p {NVM} && mount -o dax=always,noatime /dev/pmem0 {NVM}")
    sh(machine, "insmod /root/binfmt_off2f.ko")


def convert(machine: Machine, elf: str, to: str) -> None:
    """Install a converted program under another name: the ELF stays."""
    sh(machine, f"mkdir -p $(dirname {to}) && off2f install {elf} --to {to} --store {STORE}")


def libraries_to_nvram(machine: Machine, program: str) -> None:
    """Copy ld.so and all shared libraries of a program to the DAX file system.

    Each copy is bind-mounted over the original, where the unchanged ld.so finds it.
    """
    at = f"{NVM}/lib"
    words = f"ldd {program} | grep -o '/[^ ]*' | xargs -n 1 readlink -f | sort -u"
    one = f"cp -p $f {at}/ && sync {at} && mount --bind {at}/$(basename $f) $f || exit 1"
    sh(machine, f"mkdir -p {at}; for f in $({words}); do {one}; done")


def forget(machine: Machine) -> None:
    """Restore the state after a boot: an empty page cache, no text known to the module.

    The module is reset first: what it holds stays in the caches of names and inodes.
    """
    keep = f"{PARAMETERS}/keep"
    sh(machine, f"k=$(cat {keep}); echo 0 >{keep}; echo $k >{keep}")
    sh(machine, "sync; echo 3 >/proc/sys/vm/drop_caches")


def measure(machine: Machine, words: str, text: bool = False) -> dict[str, int]:
    """Run once by off2f-run; return its counters. *text*: the places of texts instead."""
    option = "-t " if text else ""
    lines = sh(machine, f"/root/off2f-run {option}{words}").stdout.splitlines()
    return {name: int(value) for name, value in map(str.split, lines)}
