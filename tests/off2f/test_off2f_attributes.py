# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: what takes a program's place has its owner, mode and extended attributes: a capability, an
access control list, signatures and labels. Where it cannot have them, it does not take its place.

Goal: install, bind, a second bind after a change, and remove lose none. Method: root in a guest;
programs and store are on tmpfs, which keeps all of them. The ext4 of the guest's kernel keeps
neither lists nor security.*: a copy in a store there is refused by name. Negative proof: cp and mv,
which are a way to install, too, and drop them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from lab.machine import Machine
from lab.testbed.off2f_guest import STORE, guest_with_store
from lab.testbed.pm_guest import kernel_complaints, sh

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

ELF = "/root/static"
TMPFS = "/t"
PROGRAM, PLACE = f"{TMPFS}/program", f"{TMPFS}/store"
# A second number changes each of them.
GIVE = """
import os, struct, sys
path, number = sys.argv[1], int(sys.argv[2])
os.chown(path, number, number + 1)
os.chmod(path, 0o4750)
none = 0xFFFFFFFF
entries = ((1, 7, none), (2, 5, 12345 + number), (4, 5, none), (16, 7, none), (32, 0, none))
for name, value in (
    ("system.posix_acl_access",
     struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)),
    ("security.capability", struct.pack("<5I", 0x02000001, 1 << number, 0, 0, 0)),
    ("security.ima", bytes([4, number] * 16)),
    ("security.selinux", b"label_%d" % number),
    ("trusted.label", b"%d" % number),
    ("user.label", b"%d" % number),
):
    os.setxattr(path, name, value)
"""
LOOK = """
import os, sys
found = os.stat(sys.argv[1])
print(found.st_uid, found.st_gid, oct(found.st_mode))
for name in sorted(os.listxattr(sys.argv[1])):
    print(name, os.getxattr(sys.argv[1], name).hex())
"""
COUNT = 6


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with guest_with_store(f"t-offa-{os.getpid()}") as machine:
        sh(machine, f"python3 /root/off2f-nops.py 65536 {ELF}")
        sh(machine, f"mkdir -p {TMPFS} && mount -t tmpfs none {TMPFS}")
        yield machine
        assert not kernel_complaints(machine)


def off2f(machine: Machine, words: str, store: str = PLACE) -> str:
    return sh(machine, f"off2f {words} --store {store}").stdout.strip()


def give(machine: Machine, path: str, number: int) -> str:
    """Give it attributes; what there is to see of it now."""
    sh(machine, f"python3 -c '{GIVE}' {path} {number}")
    return look(machine, path)


def look(machine: Machine, path: str) -> str:
    return sh(machine, f"python3 -c '{LOOK}' {path}").stdout


def is_mounted(machine: Machine) -> bool:
    return sh(machine, f"grep -q ' {PROGRAM} ' /proc/mounts", check=False).ok


def test_attributes_are_those_of_the_program(machine: Machine) -> None:
    sh(machine, f"cp {ELF} {PROGRAM}")
    before = give(machine, PROGRAM, 1)
    assert len(before.splitlines()) == 1 + COUNT
    off2f(machine, f"install {PROGRAM}")
    assert not sh(machine, f"cmp -s {PROGRAM} {ELF}", check=False).ok, "it is an ABC"
    assert look(machine, PROGRAM) == before
    assert off2f(machine, f"bind {PROGRAM}") == "1 programs start without the disk"
    assert is_mounted(machine)
    assert look(machine, PROGRAM) == before
    off2f(machine, f"unbind {PROGRAM}")
    # As they are at the next bind, and when it is put back: not as they were.
    after = give(machine, PROGRAM, 2)
    assert not set(after.splitlines()) & set(before.splitlines())
    off2f(machine, f"bind {PROGRAM}")
    assert is_mounted(machine)
    assert look(machine, PROGRAM) == after
    off2f(machine, f"remove {PROGRAM} --restore")
    sh(machine, f"cmp {PROGRAM} {ELF}")
    assert not is_mounted(machine)
    assert look(machine, PROGRAM) == after


def test_copy_that_cannot_have_them_takes_no_programs_place(machine: Machine) -> None:
    sh(machine, f"cp {ELF} {PROGRAM}")
    before = give(machine, PROGRAM, 3)
    off2f(machine, f"install {PROGRAM}", STORE)
    done = sh(machine, f"off2f bind {PROGRAM} --store {STORE}", check=False)
    assert not done.ok
    assert "system.posix_acl_access" in done.stderr or "security." in done.stderr
    assert not is_mounted(machine)
    assert look(machine, PROGRAM) == before
    off2f(machine, f"remove {PROGRAM} --restore", STORE)
    assert look(machine, PROGRAM) == before


def test_other_ways_to_install_drop_them(machine: Machine) -> None:
    sh(machine, f"cp {ELF} {PROGRAM}")
    before = give(machine, PROGRAM, 4)
    sh(machine, f"cp {PROGRAM} {PROGRAM}.new && mv {PROGRAM}.new {PROGRAM}")
    assert look(machine, PROGRAM) != before
