# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The owner of a page of NVRAM: by the kernel's image, memory map, and programs' page tables."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import drgn
from drgn import offsetof

from lab import format as fmt
from lab.lost_lines.kernel import DAMAGE, Kernel
from lab.lost_lines.memory import PAGE_BYTES
from lab.lost_lines.processes import Process, Users, path_of, text_of, users_of
from lab.machine.qemu import NVRAM_PHYS

STRUCT_PAGE_BYTES = 64
MAPPING_FLAGS = 3
ANON = 1
TYPE_SHIFT = 24  # of page_type: the upper byte is the type of the page
S_IFMT, S_IFBLK = 0o170000, 0o060000
HEADER_PAGES = fmt.CONST["REM_BLOCK_BYTES"] // PAGE_BYTES


@dataclass(frozen=True)
class Owner:
    """The owner of a lost line. Lines of one owner are summed."""

    kind: str  # KINDS
    name: str
    process: str | None = None


KINDS = {
    "record": "the record block",
    "kernel": "symbol of the kernel",
    "per-cpu": "per-CPU variable",
    "slab": "slab cache",
    "stack": "kernel stack",
    "page table": "page table",
    "process": "program's memory",
    "page cache": "file in the page cache",
    "page struct": "memory map",
    "kernel pages": "pages allocated by the kernel",
    "free": "free pages",
    "unknown": "unknown",
}


class Pages:
    """Finds the owner of any byte of NVRAM; `unknown` if structures are damaged."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.users: Users = users_of(kernel)
        page = kernel.program.type("struct page")
        self._at = {
            name: offsetof(page, name)
            for name in ("flags", "mapping", "index", "compound_head", "page_type")
        }
        self._types = {
            name: kernel.enumerator("enum pagetype", f"PGTY_{name}")
            for name in ("buddy", "slab", "table")
        }
        self._reserved = 1 << kernel.enumerator("enum pageflags", "PG_reserved")
        self._vmemmap = kernel.word("vmemmap_base")
        symbols = kernel.symbols
        self._image = (kernel.phys, kernel.phys + symbols.linked("_end") - symbols.linked("_text"))
        self._per_cpu = self._per_cpu_pages()
        self._map = self._map_pages()
        self._known: dict[int, Owner] = {}
        self._slabs: dict[int, str] = {}
        self._files: dict[int, str] = {}

    def owner(self, offset: int) -> Owner:
        """The owner of the byte at that offset of NVRAM."""
        phys = NVRAM_PHYS + offset
        frame = phys // PAGE_BYTES
        if offset // PAGE_BYTES < HEADER_PAGES:
            return Owner("record", part_of_block(offset))
        if self._image[0] <= phys < self._image[1]:
            return self._image_owner(phys)
        if frame in self._per_cpu:
            cpu, first = self._per_cpu[frame]
            name = self._kernel.symbols.per_cpu_name(first + phys % PAGE_BYTES)
            return Owner("per-cpu", f"{name} of CPU {cpu}")
        known = self._known.get(frame)
        if known is None:
            try:
                known = self._page_owner(frame)
            except DAMAGE as error:
                known = Owner("unknown", f"damaged: {error}".split("\n")[0])
            self._known[frame] = known
        return known

    def process_of(self, offset: int) -> Process | None:
        """A process that has mapped the page, if any."""
        user = self.users.mapped.get((NVRAM_PHYS + offset) // PAGE_BYTES)
        return user[0] if user else None

    def _image_owner(self, phys: int) -> Owner:
        symbols = self._kernel.symbols
        address = symbols.at("_text") + phys - self._image[0]
        return Owner("kernel", symbols.name(address) or "the image")

    def _per_cpu_pages(self) -> dict[int, tuple[int, int]]:
        """Frame: CPU, and the per-CPU address of the page's first byte."""
        pages = {}
        kernel = self._kernel
        try:
            for cpu, base in kernel.per_cpu_bases():
                for offset in range(0, kernel.symbols.per_cpu_bytes, PAGE_BYTES):
                    pages[kernel.translate(base + offset) // PAGE_BYTES] = (cpu, offset)
        except DAMAGE as error:
            self.users.damaged.append(f"per-CPU areas cannot be found: {error}")
        return pages

    def _map_pages(self) -> set[int]:
        """The pages that hold struct page of NVRAM itself."""
        pages = set()
        first = self._page_address(NVRAM_PHYS // PAGE_BYTES)
        count = self._kernel.view.size_bytes // PAGE_BYTES * STRUCT_PAGE_BYTES
        for address in range(first // PAGE_BYTES * PAGE_BYTES, first + count, PAGE_BYTES):
            try:
                pages.add(self._kernel.translate(address) // PAGE_BYTES)
            except drgn.FaultError:
                continue  # that part of memory has no map
        return pages

    def _page_address(self, frame: int) -> int:
        return self._vmemmap + frame * STRUCT_PAGE_BYTES

    def _field(self, raw: bytes, name: str, form: str = "<Q") -> int:
        return int(struct.unpack_from(form, raw, self._at[name])[0])

    def _page_owner(self, frame: int) -> Owner:
        users = self.users
        if frame in users.stacks:
            process = users.stacks[frame]
            return Owner("stack", str(process), str(process))
        if frame in self._map:
            return Owner("page struct", "struct page")
        raw = self._kernel.read(self._page_address(frame), STRUCT_PAGE_BYTES)
        head = self._field(raw, "compound_head")
        if head & 1:
            raw = self._kernel.read(head - 1, STRUCT_PAGE_BYTES)
        mapping = self._field(raw, "mapping")
        kind = self._field(raw, "page_type", "<I") >> TYPE_SHIFT
        if kind == self._types["slab"]:
            return Owner("slab", self._slab(head - 1 if head & 1 else self._page_address(frame)))
        if kind == self._types["buddy"]:
            return Owner("free", "free")
        if kind == self._types["table"] or frame in users.tables:
            of = users.tables.get(frame)
            return Owner("page table", str(of) if of else "the kernel's", str(of) if of else None)
        if mapping and mapping & MAPPING_FLAGS == 0 and mapping >> 63:
            return Owner("page cache", self._file(mapping))
        return self._mapped_owner(frame, mapping, self._field(raw, "flags"))

    def _mapped_owner(self, frame: int, mapping: int, flags: int) -> Owner:
        user = self.users.mapped.get(frame)
        if user is not None:
            process, address = user
            place = process.mapping_of(address)
            sharers = self.users.sharers[frame] - 1
            more = f" and {sharers} more" if sharers else ""
            name = place.name if place else "unmapped"
            return Owner("process", f"{process}{more}: {name}", str(process))
        if mapping & MAPPING_FLAGS == ANON:
            return Owner("process", "anonymous, in no page table", None)
        if flags & self._reserved:
            return Owner("kernel pages", "reserved at boot")
        return Owner("kernel pages", "no owner recorded")

    def _slab(self, address: int) -> str:
        program = self._kernel.program
        cache = drgn.Object(program, "struct slab", address=address).slab_cache.read_()
        key = int(cache.value_())
        if key not in self._slabs:
            self._slabs[key] = text_of(cache.name)
        return self._slabs[key]

    def _file(self, mapping: int) -> str:
        """FILE SYSTEM:PATH of an address_space."""
        if mapping not in self._files:
            self._files[mapping] = self._file_name(mapping)
        return self._files[mapping]

    def _file_name(self, mapping: int) -> str:
        program = self._kernel.program
        space = drgn.Object(program, "struct address_space", address=mapping)
        inode = space.host.read_()
        if not inode.value_():
            return "no file"
        super_block = inode.i_sb.read_()
        kind = text_of(super_block.s_type.name)
        if int(inode.i_mode.value_()) & S_IFMT == S_IFBLK:
            device = int(inode.i_rdev.value_())
            return f"block device {device >> 20}:{device & 0xFFFFF}"
        first = inode.i_dentry.first.read_()
        if not first.value_():
            return f"{kind}:inode {int(inode.i_ino.value_())}, which has no name"
        dentry = drgn.container_of(first, "struct dentry", "d_u.d_alias")
        return f"{kind}:{path_of(dentry)}"


# Offsets of the parts of the block (format/rem_image.h).
PARTS = {
    0: "block header",
    fmt.CONST["REM_CONSUMED_OFFSET"]: "consumed word",
    fmt.CONST["REM_COMMIT_OFFSET"]: "commit words",
    fmt.CONST["REM_NOTE_OFFSET"]: "boot note",
    fmt.CONST["REM_TRUST_OFFSET"]: "note on the key",
    fmt.CONST["REM_DESC_OFFSET"]: "machine description",
    fmt.CONST["REM_BODY_OFFSET"]: "bodies",
    fmt.CONST["REM_TIMELINE_OFFSET"]: "timelines",
    fmt.CONST["REM_ACPI_OFFSET"]: "ACPI tables",
    fmt.CONST["REM_WORK_OFFSET"]: "the loader's work area",
    fmt.CONST["REM_TREE_OFFSET"]: "the kernel's device tree",
}


def part_of_block(offset: int) -> str:
    return PARTS[max(begin for begin in PARTS if begin <= offset)]
