# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem setup`: make everything that is not there yet."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import typer


class OnlyPart(StrEnum):
    """What can be made alone."""

    PACKAGES = "packages"
    LOADER = "loader"
    PLUGIN = "plugin"
    POWER = "power"
    ROOT = "root"
    KERNEL = "kernel"


class OtherKernel(StrEnum):
    """Variants of the kernel."""

    MUTANTS = "mutants"
    DEVICES = "devices"
    DEVICES_MUTANTS = "devices-mutants"
    DEBUG = "debug"
    RACES = "races"
    TRACING = "tracing"
    FILESYSTEMS = "filesystems"
    GROUPS = "groups"
    SERVER = "server"
    DEBIAN = "debian"
    RISCV = "riscv64"
    RISCV_MUTANTS = "riscv64-mutants"


class RarePackages(StrEnum):
    """Groups of packages that few need, and that are large."""

    HEAP_PEER = "heap-peer"
    LDAP = "ldap"
    BROWSER = "browser"


KERNEL_HELP = "Also this variant of the kernel (kernel/README.md says what each one has)."
ONLY_HELP = f"Only this part ({', '.join(OnlyPart)}); may be given more than once."
PACKAGES_HELP = f"Also this group of Debian packages ({', '.join(RarePackages)})."


def register(app: typer.Typer) -> None:
    @app.command()
    def setup(
        only: list[OnlyPart] = typer.Option([], metavar="PART", help=ONLY_HELP),
        kernel: OtherKernel | None = typer.Option(None, "--kernel", help=KERNEL_HELP),
        packages: list[RarePackages] = typer.Option(
            [], "--packages", metavar="GROUP", help=PACKAGES_HELP
        ),
        show: bool = typer.Option(False, "--print", help="Print the folder of each product."),
    ) -> None:
        """Install packages, build kernel, guest root, loader and plugin: what is not there yet.

        Every other command does this itself, as far as it needs. An interrupted set-up continues
        where it was. As root with REM_CACHE below another user's folder, set-up is for that user.
        """
        from lab.messages import info
        from lab.setup.owner import give_to_owner
        from lab.setup.packages import USUAL
        from lab.setup.products import (
            Group,
            Kernel,
            Loader,
            Packages,
            Part,
            Plugin,
            Power,
            Root,
            need_all,
        )

        parts: dict[OnlyPart, Part[Any]] = {
            OnlyPart.PACKAGES: Packages((*USUAL, *(Group(name) for name in packages))),
            OnlyPart.LOADER: Loader(),
            OnlyPart.PLUGIN: Plugin(),
            OnlyPart.POWER: Power(),
            OnlyPart.ROOT: Root(),
            OnlyPart.KERNEL: Kernel(),
        }
        wanted: list[Part[Any]] = [part for name, part in parts.items() if not only or name in only]
        if kernel is not None:
            wanted.append(Kernel(kernel.value))
        made = need_all(wanted)
        give_to_owner()
        for part in wanted if show else ():
            value = made[part]
            path = value.bz_image if isinstance(part, Kernel) else value
            if path is not None:
                print(path.parent)
        info(f"rem: set-up of {', '.join(only)} is complete" if only else "rem: set-up is complete")
