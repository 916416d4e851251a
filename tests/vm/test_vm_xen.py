# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Xen as a guest of `rem-vm`: a hypervisor goes on, with the domain that runs on it.

Goal: a guest's system may be any. Method: Xen under QEMU, whose first domain counts on its
console; the host's power is cut again and again, and the count goes on with the next number.
Negative proof: after a cut without a save it begins again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from lab.setup.products import need
from lab.setup.stock import Stock
from lab.setup.xen import Xen
from lab.testbed.vm_host import BARE, VmGuest, VmHost

pytestmark = [pytest.mark.full, pytest.mark.in_turn, pytest.mark.timeout(900)]

NAME = "xen"
RAM_BYTES = 512 << 20
LIMIT_S = 300.0
CUTS, CUTS_IN_SOAK = 2, 25


def counts(host: VmHost) -> list[int]:
    """What the domain has counted since the host's power came."""
    path = host.files.directory / "xen.log"
    text = path.read_text(encoding="latin-1") if path.exists() else ""
    return [int(number) for number in re.findall(r"xen count (\d+)\.", text)]


def wait_counts(host: VmHost, more: int = 3) -> list[int]:
    end_s = time.monotonic() + LIMIT_S
    while len(counts(host)) < more:
        assert time.monotonic() < end_s, "the domain counts nothing"
        time.sleep(0.2)
    return counts(host)


@pytest.fixture
def host() -> Iterator[VmHost]:
    files, kernel = need(Xen()), need(Stock()).bz_image
    with VmHost("test-vm-xen", debian=False) as host:
        console = host.files.directory / "xen.log"
        words = [*BARE, "-serial", f"file:{console}"]
        words += ["-kernel", str(files.hypervisor)]
        words += ["-append", "console=com1 com1=115200 dom0_mem=256M"]
        words += ["-initrd", f"{kernel} console=hvc0 quiet panic=-1,{files.initrd}"]
        host.add(VmGuest(NAME, tuple(words), RAM_BYTES))
        host.power_on()
        yield host


@pytest.mark.parametrize("cuts", [CUTS, pytest.param(CUTS_IN_SOAK, marks=pytest.mark.soak)])
def test_count_goes_on_after_each_cut(host: VmHost, cuts: int) -> None:
    last = wait_counts(host)[-1]
    for _ in range(cuts):
        last = max(last, counts(host)[-1])
        assert host.cut().stopped
        last = max(last, counts(host)[-1])
        assert host.power_on()[NAME]["reason"] == "resume"
        found = wait_counts(host)
        # A line may have been on its way.
        assert last < found[0] <= last + 2
        assert found == list(range(found[0], found[0] + len(found)))


def test_count_begins_again_after_a_cut_without_a_save(host: VmHost) -> None:
    wait_counts(host, 5)
    host.cut(announced=False)
    assert not host.power_on()[NAME]["resumed"]
    assert wait_counts(host)[0] == 1
