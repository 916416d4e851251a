# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Addresses of functions of the kernel and of the loader, and the loader's code under UEFI."""

from __future__ import annotations

import struct
from pathlib import Path

from lab import run
from lab.errors import InfraError, RemError
from lab.machine.esp import loader_efi

BEGIN_BYTES = 64  # of code that is nowhere else
PE_OFFSET_AT, PE_ENTRY_AT = 0x3C, 0x28


def _find(table: str, name: str, where: str) -> int:
    """In lines as nm prints them: ADDRESS KIND NAME."""
    for line in table.splitlines():
        words = line.split()
        if words[2:] == [name] and words[1] in "tT":
            return int(words[0], 16)
    raise RemError(where)


def symbol_address(system_map: Path, name: str) -> int:
    """The address of a kernel function, valid with `nokaslr`."""
    try:
        text = system_map.read_text(encoding="ascii")
    except OSError as error:
        raise InfraError(f"cannot read {system_map}: {error.strerror}") from error
    return _find(text, name, f"{system_map} has no function {name}: is it the map of this kernel?")


def loader_address(loader: Path, name: str) -> int:
    """The address of a function of the loader."""
    table = run.run(["nm", loader], what="reading the loader's symbols").stdout
    return _find(table, name, f"{loader} has no function {name}: is it this version's loader?")


def loader_begin(loader: Path) -> bytes:
    """The first instructions of loader.efi, which firmware starts at an address of its choice.

    Its offsets in the file are its addresses (loader/loader_efi.ld).
    """
    image = loader_efi(loader)
    try:
        raw = image.read_bytes()
        (header,) = struct.unpack_from("<I", raw, PE_OFFSET_AT)
        (entry,) = struct.unpack_from("<I", raw, header + PE_ENTRY_AT)
    except (OSError, struct.error) as error:
        raise InfraError(f"{image}: no UEFI application of ours: {error}") from error
    code = raw[entry : entry + BEGIN_BYTES]
    if len(code) < BEGIN_BYTES:
        raise InfraError(f"{image}: no code at its entry")
    return code
