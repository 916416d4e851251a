# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a machine with UEFI boots from: a disk with the loader.

The disk is an EFI system partition without a partition table, as on a removable medium. It is made
at each power-on, because kernel and options may differ between boots; the guest cannot write to it.
The loader's files are beside it in \\EFI\\remanence; what they mean is in loader/README.md.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

from lab import run

FOLDER = "::/EFI/remanence"
# What firmware starts from a removable medium of an x86-64 machine (UEFI 3.5.1.1).
FALLBACK = "::/EFI/BOOT/BOOTX64.EFI"
# Its size is a part of the machine: it changes in large steps, so that another kernel fits.
STEP_BYTES = 64 << 20
ROOM_BYTES = 8 << 20  # for FAT32's tables and the small files


def loader_efi(loader: Path) -> Path:
    """The UEFI application beside loader.elf, of the same objects."""
    return loader.with_suffix(".efi")


def make_esp(
    disk: Path,
    application: Path | None,
    files: dict[str, Path],
    texts: dict[str, str],
    least_bytes: int = 0,
) -> None:
    """Write the whole disk, with what firmware is to start, or without.

    *files* and *texts* are the loader's files by name: copies, or what is in them.
    """
    copies = {f"{FOLDER}/{name}": file for name, file in files.items()}
    if application is not None:
        copies[FALLBACK] = application
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=disk.parent)))
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
            copies[f"{FOLDER}/{name}"] = folder / name
        new = folder / "esp.img"
        new.touch(mode=0o600)
        used = sum(file.stat().st_size for file in copies.values()) + ROOM_BYTES
        os.truncate(new, -(-max(used, least_bytes) // STEP_BYTES) * STEP_BYTES)
        _mtools("mformat", new, "-F", "-N", "0", "::")
        _mtools("mmd", new, "::/EFI", "::/EFI/BOOT", FOLDER)
        for place, file in copies.items():
            _mtools("mcopy", new, file, place)
        new.replace(disk)


def sign(application: Path, key: Path, certificate: Path) -> None:
    """Sign it in place, for Secure Boot."""
    run.run(
        ["sbsign", "--key", key, "--cert", certificate, "--output", application, application],
        what="signing the loader",
    )


def _mtools(program: str, disk: Path, *words: str | Path) -> None:
    run.run([program, "-i", disk, *words], what="making the disk that firmware boots from")
