# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A kernel in memory: found by its banner, read through its own page table, its types by drgn.

Nothing here trusts the memory: an address that no page table maps is a drgn.FaultError, walks of
lists are bounded, and callers handle DAMAGE.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from pathlib import Path

import drgn

from lab.errors import InfraError, RemError
from lab.lost_lines.memory import PAGE_BYTES, View
from lab.machine.qemu import NVRAM_PHYS

BANNER = b"Linux version "
KERNEL_MAP = 0xFFFFFFFF80000000
KERNEL_MAP_END = 0xFFFFFFFFC0000000
KERNEL_ALIGN = 2 << 20  # CONFIG_PHYSICAL_ALIGN
UPPER_HALF = 1 << 63
PTE_PRESENT, PTE_LARGE = 1, 1 << 7
PTE_ADDRESS = 0x000F_FFFF_FFFF_F000
SHIFTS = (39, 30, 21, 12)
CPUS_MAX = 256
# In all. A damaged structure may lead in circles; an intact one needs far fewer.
READS_MAX = 20_000_000
# What reading damaged memory can raise, drgn's helpers included: they may find nodes of a maple
# tree of unknown type (NotImplementedError, a RuntimeError).
DAMAGE = (
    drgn.FaultError, struct.error, ArithmeticError, LookupError, RuntimeError, ValueError,
)  # fmt: skip


class Symbols:
    """System.map, at the kernel's address under KASLR."""

    def __init__(self, system_map: Path) -> None:
        try:
            text = system_map.read_text(encoding="ascii")
        except OSError as error:
            raise InfraError(
                f"{system_map}: {error.strerror}; without it no address has a name"
            ) from error
        self.slide = 0
        self._at: dict[str, int] = {}
        table: list[tuple[int, str]] = []
        per_cpu: list[tuple[int, str]] = []
        for line in text.splitlines():
            address, kind, name = line.split(maxsplit=2)
            value = int(address, 16)
            self._at.setdefault(name, value)
            if value >= KERNEL_MAP:
                table.append((value, name))
            elif kind != "a" and value < self._at.get("__per_cpu_end", 1 << 30):
                per_cpu.append((value, name))
        self._starts, self._names = _columns(table)
        self._cpu_starts, self._cpu_names = _columns(per_cpu)
        self.per_cpu_bytes = self._at.get("__per_cpu_end", 0)

    def linked(self, name: str) -> int:
        """The linker's address."""
        try:
            return self._at[name]
        except KeyError as error:
            raise RemError(f"System.map has no {name}: is it the map of this kernel?") from error

    def at(self, name: str) -> int:
        return self.linked(name) + self.slide

    def name(self, address: int) -> str | None:
        """The symbol of an address in the kernel's image."""
        linked = address - self.slide
        if not self._at["_text"] <= linked < self._at["_end"]:
            return None
        return self._names[bisect.bisect_right(self._starts, linked) - 1]

    def per_cpu_name(self, offset: int) -> str:
        index = bisect.bisect_right(self._cpu_starts, offset) - 1
        return self._cpu_names[index] if index >= 0 else "per-CPU data"


def _columns(table: list[tuple[int, str]]) -> tuple[list[int], list[str]]:
    """Sorted; of several names for one address the first that is no label of a section."""
    best: dict[int, str] = {}
    for address, name in table:
        if best.get(address, "__").startswith("__"):
            best[address] = name
    starts = sorted(best)
    return starts, [best[start] for start in starts]


class Kernel:
    """The kernel in *view*. RemError if there is none."""

    def __init__(self, view: View, symbols: Symbols, layout: Path) -> None:
        self.view = view
        self.symbols = symbols
        self._pages: dict[int, int] = {}
        self._reads = 0
        self.phys = self._find()
        text, table = symbols.linked("_text"), symbols.linked("init_top_pgt")
        self._table_phys = self.phys + table - text
        self._image = (0, 0)
        symbols.slide = self._find_virtual() - text
        self._image = (symbols.at("_text"), symbols.at("_end"))
        self.program = drgn.Program(drgn.Platform(drgn.Architecture.X86_64))
        self.program.add_memory_segment(UPPER_HALF, UPPER_HALF, self._read_virtual)
        module = self.program.extra_module("layout", create=True)
        module.try_file(layout, force=True)

    # Memory.

    def read_phys(self, phys: int, count: int) -> bytes:
        data = self.view.read(phys - NVRAM_PHYS, count)
        if len(data) != count:
            raise drgn.FaultError("not in NVRAM", phys)
        return data

    def u64(self, phys: int) -> int:
        return int(struct.unpack("<Q", self.read_phys(phys, 8))[0])

    def translate(self, address: int) -> int:
        """Physical address, by the kernel's page table.

        Of the image it is known: its text may be mapped to copies in DRAM (kernel/mixed/text.c).
        """
        if self._image[0] <= address < self._image[1]:
            return self.phys + address - self._image[0]
        page = address // PAGE_BYTES
        found = self._pages.get(page)
        if found is None:
            found = self._walk(page * PAGE_BYTES)
            self._pages[page] = found
        return found + address % PAGE_BYTES

    def _walk(self, address: int) -> int:
        table = self._table_phys
        for shift in SHIFTS:
            entry = self.u64(table + (address >> shift & 511) * 8)
            if not entry & PTE_PRESENT:
                raise drgn.FaultError("not mapped", address)
            table = entry & PTE_ADDRESS
            if shift == SHIFTS[-1] or entry & PTE_LARGE:
                size = 1 << shift
                return table // size * size + address % size
        raise drgn.FaultError("not mapped", address)

    def read(self, address: int, count: int) -> bytes:
        """Read at a virtual address of the kernel."""
        return self._read_virtual(address, count, 0, False)

    def _read_virtual(self, address: int, count: int, _offset: int, _physical: bool) -> bytes:
        self._reads += 1
        if self._reads > READS_MAX:
            raise drgn.FaultError("the kernel's structures contain a cycle", address)
        parts = []
        while count > 0:
            part = min(count, PAGE_BYTES - address % PAGE_BYTES)
            parts.append(self.read_phys(self.translate(address), part))
            address, count = address + part, count - part
        return b"".join(parts)

    # Its place.

    def _find(self) -> int:
        offset = self.symbols.linked("linux_banner") - self.symbols.linked("_text")
        for at in range(0, self.view.size_bytes, KERNEL_ALIGN):
            if self.view.read(at + offset, len(BANNER)) == BANNER:
                return NVRAM_PHYS + at
        raise RemError(
            f"{self.view.path} holds no kernel of this machine: lines are counted, their owners "
            "are unknown"
        )

    def _find_virtual(self) -> int:
        # A page of data: the text's may be in DRAM.
        data = self.symbols.linked("_sdata") - self.symbols.linked("_text")
        data = data // PAGE_BYTES * PAGE_BYTES
        for address in range(KERNEL_MAP, KERNEL_MAP_END - data, KERNEL_ALIGN):
            try:
                if self._walk(address + data) == self.phys + data:
                    return address
            except drgn.FaultError:
                continue
        raise RemError(
            f"{self.view.path}: the kernel's page table does not map the kernel: it is damaged, "
            "and owners are unknown"
        )

    # Its objects.

    def variable(self, name: str, type_name: str) -> drgn.Object:
        return drgn.Object(self.program, type_name, address=self.symbols.at(name))

    def word(self, name: str) -> int:
        return int(self.variable(name, "unsigned long").value_())

    def per_cpu_bases(self) -> Iterator[tuple[int, int]]:
        """CPU, and the offset that is added to the address of a per-CPU symbol."""
        for cpu in range(min(self._word32("nr_cpu_ids"), CPUS_MAX)):
            at = self.symbols.at("__per_cpu_offset") + 8 * cpu
            yield cpu, int(struct.unpack("<Q", self.read(at, 8))[0])

    def _word32(self, name: str) -> int:
        return int(struct.unpack("<I", self.read(self.symbols.at(name), 4))[0])

    def enumerator(self, type_name: str, name: str) -> int:
        members = self.program.type(type_name).enumerators or ()
        return next(int(member.value) for member in members if member.name == name)
