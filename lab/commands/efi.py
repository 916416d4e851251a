# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem efi`: loader and kernel as one file that UEFI starts."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from lab.errors import UsageError
from lab.machine.esp import loader_efi, sign
from lab.machine.unified import unified
from lab.messages import info
from lab.setup.need import Part


def register(app: typer.Typer) -> None:
    @app.command("efi")
    def efi_command(
        file: Annotated[Path, typer.Argument(help="Where to write it, as remanence.efi.")],
        kernel: Annotated[
            Path | None, typer.Option(help="Another bzImage than that of this checkout.")
        ] = None,
        cmdline: Annotated[
            str, typer.Option(help="The kernel's command line.", metavar="WORDS")
        ] = "memtype=nvram",
        initrd: Annotated[Path | None, typer.Option(help="An initial RAM disk.")] = None,
        key: Annotated[
            Path | None, typer.Option(help="Sign it for Secure Boot with this key (PEM).")
        ] = None,
        certificate: Annotated[
            Path | None, typer.Option(help="The certificate of that key (PEM).")
        ] = None,
    ) -> int:
        """Write loader, kernel and command line as one UEFI application.

        Firmware starts it as \\EFI\\BOOT\\BOOTX64.EFI of a disk, or by a boot entry.
        """
        from lab.setup.packages import Group
        from lab.setup.products import Kernel, Loader, Packages, need_all

        if (key is None) != (certificate is None):
            raise UsageError("give both --key and --certificate, or none")
        for given in (kernel, initrd, key, certificate):
            if given is not None and not given.is_file():
                raise UsageError(f"{given} is no file")
        parts: list[Part[Any]] = [Loader(), *([Kernel()] if kernel is None else [])]
        parts += [Packages((Group.UEFI,))] if key is not None else []
        made = need_all(parts)
        files = {
            "vmlinuz": (kernel or made[Kernel()].bz_image).read_bytes(),
            "cmdline": cmdline.encode(),
            "initrd": initrd.read_bytes() if initrd is not None else b"",
        }
        # It appears whole, and signed if it is to be.
        with TemporaryDirectory(prefix=".rem-efi-", dir=file.parent) as folder:
            made_file = Path(folder) / file.name
            made_file.write_bytes(unified(loader_efi(made[Loader()]).read_bytes(), files))
            if key is not None and certificate is not None:
                sign(made_file, key, certificate)
            made_file.replace(file)
        info(f"rem: {file}, {file.stat().st_size >> 20} MiB" + (", signed" if key else ""))
        return 0
