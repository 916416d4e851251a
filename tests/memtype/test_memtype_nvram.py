# SPDX-License-Identifier: Apache-2.0 OR MIT
"""memtype=nvram: the kernel, all its allocations and all memory of programs are in NVRAM.

Goal: no DRAM is written except the few pages that the kernel lists. Method: SeaBIOS and the shim
start a bzImage in DRAM, with all other DRAM filled with poison, several times, since KASLR chooses
a different place each time; after a workload that fills memory the poison must be intact.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.shim_machine import (
    E820_PMEM,
    E820_PRAM,
    MIB,
    NVRAM_START,
    PAGE_BYTES,
    Boot,
    BootOne,
    Range,
)

NVRAM = Range(NVRAM_START, NVRAM_START + 512 * MIB)
LOW_PAGES_MAX = 9
"""The bound: a single-digit number of DRAM pages."""

FULL_BOOTS = 2
SOAK_BOOTS = 20


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((E820_PMEM, FULL_BOOTS), id="type-7", marks=pytest.mark.full),
        pytest.param(
            (E820_PRAM, FULL_BOOTS),
            id="type-12",
            marks=[pytest.mark.full, pytest.mark.in_turn("type-12")],
        ),
        pytest.param((E820_PMEM, SOAK_BOOTS), id="type-7-soak", marks=pytest.mark.soak),
        pytest.param((E820_PRAM, SOAK_BOOTS), id="type-12-soak", marks=pytest.mark.soak),
    ],
)
def boots(request: pytest.FixtureRequest, boot_one: BootOne) -> list[Boot]:
    nvram_type, count = request.param
    return [boot_one("memtype=nvram", nvram_type) for _ in range(count)]


def test_workload_runs_to_its_end(boots: list[Boot]) -> None:
    for boot in boots:
        assert boot.powered_off, boot.console[-2000:]
        assert not any("BROKEN" in line for line in boot.sections["work"])
        assert boot.sections["cpus"] == ["2"]


def test_kernel_is_decompressed_into_nvram_at_varying_places(boots: list[Boot]) -> None:
    places = set()
    for boot in boots:
        for name in ("Kernel code", "Kernel rodata", "Kernel data", "Kernel bss"):
            (part,) = boot.iomem(name)
            assert part.within(NVRAM), f"{name} at {part.start:#x}"
        places.add(boot.iomem("Kernel code")[0].start)
    assert len(places) > 1, "KASLR chose the same place each time"


def test_system_ram_is_nvram_and_counted_low_pages(boots: list[Boot]) -> None:
    for boot in boots:
        low = [part for part in boot.low_dram() if part.start != 0]
        for part in boot.iomem("System RAM"):
            assert part.within(NVRAM) or any(part.within(page) for page in low), f"{part}"
        assert sum(part.pages() for part in boot.low_dram()) <= LOW_PAGES_MAX


def test_dram_is_not_written_except_the_listed_low_pages(boots: list[Boot]) -> None:
    for boot in boots:
        poisoned = sum(part.pages() for part in boot.shim_ranges("poison"))
        assert poisoned > 200 * MIB // PAGE_BYTES
        listed = {
            page for part in boot.low_dram() for page in range(part.start, part.end, PAGE_BYTES)
        }
        assert set(boot.broken_pages) <= listed, [hex(p) for p in set(boot.broken_pages) - listed]
        assert boot.broken_pages, "the trampoline was never used: is the poison checked at all?"


def test_excluded_dram_stays_reserved_in_the_map(boots: list[Boot]) -> None:
    """A hole would count as address space for PCI BARs."""
    for boot in boots:
        reserved = boot.iomem("Reserved")
        for usable in boot.shim_ranges("firmware"):
            if usable.name == "01" and usable.start >= MIB:
                assert any(usable.within(part) for part in reserved), f"{usable}"


def test_nvdimm_driver_ignores_nvram_in_use(boots: list[Boot]) -> None:
    for boot in boots:
        assert boot.sections["pmem"] == []
        assert "nd_pmem" not in boot.console


@pytest.mark.full
def test_map_without_nvram_is_completed_from_the_nfit(boot_one: BootOne) -> None:
    """QEMU's own firmware, no entry added by the shim."""
    boot = boot_one("memtype=nvram", None)
    assert boot.powered_off, boot.console[-2000:]
    (code,) = boot.iomem("Kernel code")
    assert code.within(NVRAM)
    assert set(boot.broken_pages) <= {
        page for part in boot.low_dram() for page in range(part.start, part.end, PAGE_BYTES)
    }


@pytest.mark.full
def test_bzimage_started_by_seabios_alone_moves_to_nvram(boot_one: BootOne) -> None:
    """No shim at all: the 16-bit entry, the stub's own page tables."""
    boot = boot_one("memtype=nvram", None, shim=None)
    assert boot.powered_off, boot.console[-2000:]
    (code,) = boot.iomem("Kernel code")
    assert code.within(NVRAM)


@pytest.mark.full
def test_all_nvram_of_the_nfit_is_used(boot_one: BootOne, memory_dir: Path) -> None:
    """Two NVDIMMs, neither in the map."""
    boot = boot_one("memtype=nvram", None, nvram_bytes=(256 * MIB, 512 * MIB))
    assert boot.powered_off, boot.console[-2000:]
    high = [part for part in boot.iomem("System RAM") if part.start >= NVRAM_START]
    assert sum(part.end - part.start for part in high) == 768 * MIB
