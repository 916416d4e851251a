# SPDX-License-Identifier: Apache-2.0 OR MIT
"""loader.efi with its files as sections of one image, so that one signature covers all of it.

The names of the sections are in loader/entry/boot_efi.c; those that other unified images have, too,
are theirs (https://uapi-group.org/specifications/specs/unified_kernel_image/).
"""

from __future__ import annotations

import struct

from lab.errors import InfraError

SECTIONS = {
    "vmlinuz": b".linux", "initrd": b".initrd", "cmdline": b".cmdline", "protected": b".protect",
}  # fmt: skip
# Of the PE format: places in the headers, and what a section of data is.
PE_AT, COFF_BYTES = 0x3C, 24
SECTION_COUNT, OPTIONAL_BYTES, IMAGE_BYTES = 6, 20, COFF_BYTES + 56
SECTION_BYTES = 40
READ_DATA = 0x40000040
ALIGN_BYTES = 4096


def _aligned(count: int) -> int:
    return -(-count // ALIGN_BYTES) * ALIGN_BYTES


def unified(loader: bytes, files: dict[str, bytes]) -> bytes:
    """*loader* with *files* by name; empty ones are left out."""
    image = bytearray(loader)
    pe = struct.unpack_from("<I", image, PE_AT)[0]
    count, optional = (struct.unpack_from("<H", image, pe + at)[0] for at in (6, 20))
    table = pe + COFF_BYTES + optional
    address = struct.unpack_from("<I", image, pe + IMAGE_BYTES)[0]
    for name, data in files.items():
        if not data:
            continue
        at = table + count * SECTION_BYTES
        if at + SECTION_BYTES > ALIGN_BYTES:
            raise InfraError("the loader has no room for the header of another section")
        address = _aligned(address)
        image += bytes(_aligned(len(image)) - len(image))
        raw = _aligned(len(data))
        head = struct.pack("<8sIIII", SECTIONS[name], len(data), address, raw, len(image))
        image[at : at + SECTION_BYTES] = head + struct.pack("<IIHHI", 0, 0, 0, 0, READ_DATA)
        image += data + bytes(raw - len(data))
        address += raw
        count += 1
    struct.pack_into("<H", image, pe + SECTION_COUNT, count)
    struct.pack_into("<I", image, pe + IMAGE_BYTES, _aligned(address))
    return bytes(image)
