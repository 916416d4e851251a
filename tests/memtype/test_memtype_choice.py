# SPDX-License-Identifier: Apache-2.0 OR MIT
"""memtype= on the same kernel: dram, both, none, wrong, and together with mem= and memmap=.

The oracle for "both" is what an unpatched kernel does with memmap=SIZE%ADDR-7+1.
"""

from __future__ import annotations

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
ORACLE = f"memmap=512M%{NVRAM_START:#x}-7+1"

pytestmark = [pytest.mark.full, pytest.mark.in_turn]


def system_ram(boot: Boot) -> list[Range]:
    assert boot.powered_off, boot.console[-2000:]
    return boot.iomem("System RAM")


def firmware_dram(boot: Boot) -> list[Range]:
    """Type 1 of the firmware, without page 0, which Linux never uses."""
    usable = [part for part in boot.shim_ranges("firmware") if part.name == "01"]
    return [Range(max(part.start, PAGE_BYTES), part.end, "System RAM") for part in usable]


@pytest.fixture(scope="module")
def default_boot(boot_one: BootOne) -> Boot:
    return boot_one("", E820_PMEM)


def test_map_is_unchanged_without_the_parameter(default_boot: Boot) -> None:
    assert "memtype" not in default_boot.console
    assert system_ram(default_boot) == firmware_dram(default_boot)
    assert default_boot.iomem("Persistent Memory") == [
        Range(NVRAM.start, NVRAM.end, "Persistent Memory")
    ]
    assert default_boot.sections["pmem"] == ["pmem0"]


def test_poison_shows_a_kernel_that_uses_dram(default_boot: Boot) -> None:
    """The negative proof of the poison: an ordinary boot overwrites most of it."""
    poisoned = sum(part.pages() for part in default_boot.shim_ranges("poison"))
    assert len(default_boot.broken_pages) > poisoned // 2


def test_dram_means_dram_only(boot_one: BootOne, default_boot: Boot) -> None:
    boot = boot_one("memtype=dram", E820_PMEM)
    assert system_ram(boot) == system_ram(default_boot)
    assert boot.sections["pmem"] == ["pmem0"]


def test_dram_excludes_nvram_that_memmap_made_ram(boot_one: BootOne, default_boot: Boot) -> None:
    boot = boot_one(f"{ORACLE} memtype=dram", E820_PMEM)
    assert system_ram(boot) == system_ram(default_boot)


def test_both_kinds_equal_the_oracle(boot_one: BootOne) -> None:
    oracle = boot_one(ORACLE, E820_PMEM)
    both = boot_one("memtype=nvram,dram", E820_PMEM)
    assert Range(NVRAM.start, NVRAM.end, "System RAM") in system_ram(oracle)
    assert system_ram(both) == system_ram(oracle)


def test_order_of_the_kinds_does_not_matter(boot_one: BootOne) -> None:
    boot = boot_one("memtype=dram,nvram", E820_PRAM)
    assert Range(NVRAM.start, NVRAM.end, "System RAM") in system_ram(boot)


@pytest.mark.parametrize("words", ["mem=4352M memtype=nvram", "memtype=nvram mem=4352M"])
def test_mem_limits_nvram_at_any_position(boot_one: BootOne, words: str) -> None:
    boot = boot_one(words, E820_PMEM)
    assert max(part.end for part in system_ram(boot)) == NVRAM_START + 256 * MIB
    (code,) = boot.iomem("Kernel code")
    assert code.within(Range(NVRAM_START, NVRAM_START + 256 * MIB))


def test_memmap_cannot_bring_dram_back(boot_one: BootOne) -> None:
    boot = boot_one("memmap=64M@64M memtype=nvram", E820_PMEM)
    assert all(part.start >= NVRAM_START or part.end <= MIB for part in system_ram(boot))


@pytest.mark.parametrize(
    "words, message",
    [
        ("memtype=nvran", "the value must be nvram, dram, nvram,dram or mixed"),
        ("memtype=", "the value must be nvram, dram, nvram,dram or mixed"),
        ("memtype=nvram,", "the value must be nvram, dram, nvram,dram or mixed"),
        ("memtype=nvram,dram,nvram,dram", "the value must be nvram, dram, nvram,dram or mixed"),
        ("memtype=nvram nokaslr", "the kernel must not be there"),
        ("memtype=nvram mem=128M", "the kernel must not be there"),
        # The stub reads the firmware's map; the kernel proper finds this region.
        (
            "memtype=nvram memmap=exactmap memmap=128M@1M",
            "panic - not syncing: memtype=: the map shows no memory of the allowed kinds",
        ),
    ],
)
def test_wrong_choice_stops_with_a_message(boot_one: BootOne, words: str, message: str) -> None:
    """On the console of console=, without earlyprintk=."""
    boot = boot_one(words, E820_PMEM)
    assert not boot.powered_off
    assert message in boot.console
    assert "Run /init" not in boot.console


def test_nvram_on_a_machine_without_it_stops_with_a_message(boot_one: BootOne) -> None:
    boot = boot_one("memtype=nvram", None, nvram_bytes=())
    assert not boot.powered_off
    assert "memtype=: the map shows no memory of the allowed kinds" in boot.console
