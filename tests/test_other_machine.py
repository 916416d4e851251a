# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: an image is entered by no other machine and no other kernel; the difference is reported to
programs (boot note) and to people (`rem status`), and the image is consumed (invariant 6).

Method: one stopped machine; each trial starts it with one difference and lets the real loader
decide; then the right machine again, which must find the image consumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from lab import format as fmt
from lab.machine.config import CPU_MODEL, MIB_BYTES
from lab.machine.status import status_from_files, status_lines
from lab.record.boot_note import DescEntry
from tests.support.trials import CPUS, NVRAM_BYTES, Bed, bed

CRC_AT_END_BYTES = 4  # of a bzImage: changes with every build

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Other:
    """A machine that differs in one thing."""

    name: str
    reason: str
    config: dict[str, Any] = field(default_factory=dict)  # instead of the machine's own
    options: dict[str, Any] = field(default_factory=dict)  # of the boot
    disk_grows_bytes: int = 0
    nvram_grows_bytes: int = 0
    # The required entries of the note: (expected, found) or None.
    differs: Callable[[tuple[int, ...], tuple[int, ...]], bool] = lambda e, f: e != f

    def __str__(self) -> str:
        return self.name


OTHERS = (
    Other("one CPU", "CPU", options={"cpus": 1}, differs=lambda e, f: (e[0], f[0]) == (CPUS, 1)),
    Other("more CPUs", "CPU", options={"cpus": 4}, differs=lambda e, f: (e[0], f[0]) == (CPUS, 4)),
    Other("a CPU without clwb", "CPUID", config={"cpu_model": f"{CPU_MODEL},-clwb"}),
    Other("more DRAM", "MEMORY", config={"dram_bytes": 128 * MIB_BYTES}),
    Other(
        "more NVRAM",
        "MEMORY",
        config={"nvram_bytes": 2 * NVRAM_BYTES},
        nvram_grows_bytes=NVRAM_BYTES,
        differs=lambda e, f: (e[1], f[1]) == (NVRAM_BYTES, 2 * NVRAM_BYTES),
    ),
    Other("no disk", "PCI", config={"root": None}),
    Other("one device more", "PCI", config={"devices": ("virtio-rng-pci",)}),
    Other(
        "a larger disk",
        "DISK",
        disk_grows_bytes=MIB_BYTES,
        differs=lambda e, f: f[0] == e[0] + MIB_BYTES // 512,
    ),
    Other(
        "another disk of the same size",
        "DISK",
        options={"disk_serial": "rem-root-2"},
        differs=lambda e, f: e[0] == f[0] and e[1:] != f[1:],
    ),
)


@pytest.fixture(scope="module")
def it() -> Iterator[Bed]:
    with bed("other") as it:
        yield it


@pytest.fixture(scope="module")
def block(it: Bed) -> bytes:
    return bytes(it.read_block())


@contextmanager
def changed(it: Bed, other: Other) -> Iterator[None]:
    machine, own = it.machine, it.machine.config
    files = {it.nvram: other.nvram_grows_bytes, machine.files.disk: other.disk_grows_bytes}
    sizes = {path: path.stat().st_size for path in files}
    for path, more in files.items():
        _resize(path, sizes[path] + more)
    machine.config = replace(own, **other.config)
    try:
        yield
    finally:
        it.off()
        machine.config = own
        for path, size in sizes.items():
            _resize(path, size)


def _resize(path: Any, size_bytes: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size_bytes)


def status_text(it: Bed) -> str:
    """The line of `rem status` about the last boot."""
    lines = status_lines(status_from_files(it.machine.files))
    return next(line for line in lines if line.startswith("last boot"))


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_another_machine_is_refused_and_the_difference_named(
    it: Bed, block: bytes, other: Other
) -> None:
    it.off()
    it.write_block(block)
    with changed(it, other):
        note = it.boot_decision(**other.options)
        text = status_text(it)
    assert note.reason == f"COLD_{other.reason}_DIFFERS"
    assert note.expected is not None or note.found is not None
    if note.expected is not None and note.found is not None:
        assert note.expected.type == note.found.type
        assert other.differs(note.expected.value, note.found.value), note
    assert f"{other.reason.lower()} differs; image has " in text
    assert "machine has " in text
    # The image may have been overwritten: the right machine must not enter it.
    assert it.boot_decision().reason == "COLD_ALREADY_CONSUMED"


def is_virtio_blk(entry: DescEntry) -> bool:
    vendor_device = entry.value[0] & 0xFFFFFFFF
    return vendor_device in {0x1AF4 | 0x1001 << 16, 0x1AF4 | 0x1042 << 16}


def test_missing_disk_is_named_as_missing(it: Bed, block: bytes) -> None:
    it.off()
    it.write_block(block)
    other = next(other for other in OTHERS if other.name == "no disk")
    with changed(it, other):
        note = it.boot_decision()
        text = status_text(it)
    assert note.expected is not None
    assert is_virtio_blk(note.expected)
    # QEMU gives the next device the place that is now free.
    assert note.found is None or not is_virtio_blk(note.found)
    assert "image has pci 0x8.0 = " in text


def test_another_kernel_is_refused_cold_boots_and_reports_it(it: Bed) -> None:
    it.restore()
    kernel = it.machine.files.directory / "other-kernel"
    image = bytearray(it.machine.config.kernel.read_bytes())
    image[-CRC_AT_END_BYTES:] = bytes(byte ^ 0xFF for byte in image[-CRC_AT_END_BYTES:])
    kernel.write_bytes(image)
    try:
        note = it.cold_boot(kernel=kernel)
        assert note.reason == "COLD_KERNEL_DIFFERS"
        assert note.expected is not None
        assert note.found is not None
        crc = [entry.value[0] for entry in (note.expected, note.found)]
        assert crc[0] ^ crc[1] == 0xFFFFFFFF, "the image's own checksum identifies the build"
        assert it.last_boot() == "kernel-differs"
        assert "kernel differs; image has kernel " in status_text(it)
        assert it.kept()
    finally:
        it.off()
    assert it.boot_decision().reason == "COLD_ALREADY_CONSUMED"


def test_same_machine_is_not_refused(it: Bed) -> None:
    """Proves that all refusals above were caused by the difference."""
    it.restore()
    assert it.resume().reason == fmt.BootReason.RESUME.name
    assert it.kept()
