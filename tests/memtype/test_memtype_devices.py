# SPDX-License-Identifier: Apache-2.0 OR MIT
"""memtype=nvram beside the rest of a machine: NVDIMMs for data, 32-bit DMA, NUMA nodes."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.shim_machine import (
    BASE_CMDLINE,
    E820_PMEM,
    MIB,
    NVRAM_START,
    PAGE_BYTES,
    Boot,
    BootOne,
    Machine,
    boot,
    build_initrd,
)

pytestmark = [pytest.mark.full, pytest.mark.in_turn("file")]

DAX_WORK = """#!/bin/busybox sh
# As `ndctl create-namespace -m fsdax` does it: DAX on an NFIT range needs struct pages.
cd /sys/bus/nd
region=$(dirname "$(readlink -f devices/namespace*.0)")
pfn=$(cat "$region/pfn_seed")
name=$(basename "$(ls -d "$region"/namespace*.0)")
echo "$name" > drivers/nd_pmem/unbind
echo 11111111-2222-3333-4444-555555555555 > "devices/$pfn/uuid"
echo pmem > "devices/$pfn/mode"
echo "$name" > "devices/$pfn/namespace"
echo "$pfn" > drivers/nd_pmem/bind
device=/dev/$(basename "$(ls -d "devices/$pfn/block/"*)")
mke2fs -b 4096 "$device" > /dev/null 2>&1
mkdir -p /pm
mount -t ext2 -o dax "$device" /pm
grep " /pm " /proc/mounts
yes "written through DAX" | head -c 1000000 > /pm/file
sync
umount /pm
"""

NET_WORK = """#!/bin/busybox sh
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
timeout 60 wget -q -O /tmp/file http://10.0.2.2:{port}/payload && sha256sum < /tmp/file
"""


def boot_with_script(machine: Machine, words: str, script: str) -> Boot:
    initrd = build_initrd(machine.work_dir / "initrd-extra", {"extra": script})
    return boot(replace(machine, initrd=initrd, cmdline=f"{BASE_CMDLINE} {words}"))


def pages_outside_the_list(boot: Boot) -> list[str]:
    listed = {page for part in boot.low_dram() for page in range(part.start, part.end, PAGE_BYTES)}
    return [hex(page) for page in boot.broken_pages if page not in listed]


def test_nvdimm_that_is_not_system_memory_serves_dax(
    base_machine: Machine, memory_dir: Path
) -> None:
    """The second NVDIMM lies above mem=: it stays with the NVDIMM driver."""
    machine = replace(base_machine, nvram_bytes=(512 * MIB, 256 * MIB))
    boot = boot_with_script(machine, "memtype=nvram mem=4608M", DAX_WORK)
    assert boot.powered_off, boot.console[-2000:]
    assert max(part.end for part in boot.iomem("System RAM")) == NVRAM_START + 512 * MIB
    assert boot.sections["pmem"] == ["pmem0"]
    assert any(" /pm " in line and "dax" in line for line in boot.sections["extra"])
    # A few of 50,000 lines are split by blocks that are not adjacent.
    assert (memory_dir / "nvram1").read_bytes().count(b"written through DAX\n") > 49_900


def test_part_of_nvram_kept_by_memmap_serves_as_pmem(boot_one: BootOne) -> None:
    boot = boot_one("memtype=nvram memmap=64M!0x110000000", E820_PMEM)
    assert boot.powered_off, boot.console[-2000:]
    assert boot.sections["pmem"] == ["pmem0"]
    kept = (NVRAM_START + 256 * MIB, NVRAM_START + 320 * MIB)
    assert not any(part.start < kept[1] and kept[0] < part.end for part in boot.iomem("System RAM"))


@pytest.fixture
def payload_port(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "payload").write_bytes(bytes(range(256)) * 4096 * 4)
    handler = partial(QuietHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Requests are not logged."""


PAYLOAD_SHA256 = hashlib.sha256(bytes(range(256)) * 4096 * 4).hexdigest()
NET = ("-netdev", "user,id=net0")


def test_device_with_32_bit_dma_works_through_the_iommu(
    base_machine: Machine, payload_port: int
) -> None:
    """QEMU's e1000 is a PCI device: its driver needs addresses below 4 GiB."""
    machine = replace(
        base_machine,
        map_entries=((NVRAM_START, 512 * MIB, E820_PMEM),),
        extra=("-device", "intel-iommu", *NET, "-device", "e1000,netdev=net0"),
    )
    boot = boot_with_script(
        machine, "memtype=nvram swiotlb=noforce", NET_WORK.format(port=payload_port)
    )
    assert boot.powered_off, boot.console[-2000:]
    assert f"{PAYLOAD_SHA256}  -" in boot.sections["extra"]
    assert pages_outside_the_list(boot) == []


def test_device_with_32_bit_dma_fails_without_the_iommu(
    base_machine: Machine, payload_port: int
) -> None:
    """The negative proof of the test above: the device can reach no memory."""
    machine = replace(
        base_machine,
        map_entries=((NVRAM_START, 512 * MIB, E820_PMEM),),
        extra=(*NET, "-device", "e1000,netdev=net0"),
    )
    boot = boot_with_script(machine, "memtype=nvram", NET_WORK.format(port=payload_port))
    assert boot.powered_off, boot.console[-2000:]
    assert f"{PAYLOAD_SHA256}  -" not in boot.sections["extra"]


def test_two_nodes_of_nvram_are_two_numa_domains(boot_one: BootOne) -> None:
    boot = boot_one(
        "memtype=nvram", None, nvram_bytes=(256 * MIB, 512 * MIB), numa=True, dram_bytes=256 * MIB
    )
    assert boot.powered_off, boot.console[-2000:]
    nodes = dict(line.split(" ", 1) for line in boot.sections["nodes"])
    kib = {node: int(text.split()[0]) for node, text in nodes.items()}
    assert kib.keys() == {"node0", "node1"}
    # The struct pages and what was allocated at boot are not counted in MemTotal.
    assert 200 * 1024 < kib["node0"] <= 256 * 1024
    assert 460 * 1024 < kib["node1"] <= 512 * 1024
