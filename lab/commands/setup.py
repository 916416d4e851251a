# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem setup`: make everything that is not there yet."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import typer


class Part(StrEnum):
    """What can be asked for alone."""

    PACKAGES = "packages"
    LOADER = "loader"
    PLUGIN = "plugin"
    POWER = "power"
    ROOT = "root"
    KERNEL = "kernel"


class OtherKernel(StrEnum):
    """Variants of the kernel."""

    MUTANTS = "mutants"
    DEBUG = "debug"
    SERVER = "server"


KERNEL_HELP = "Also this kernel: with planted bugs, with detectors, or for typical services."
ONLY_HELP = f"Only this part ({', '.join(Part)}); may be given more than once."


def register(app: typer.Typer) -> None:
    @app.command()
    def setup(
        only: list[Part] = typer.Option([], metavar="PART", help=ONLY_HELP),
        kernel: OtherKernel | None = typer.Option(None, "--kernel", help=KERNEL_HELP),
        show: bool = typer.Option(False, "--print", help="Print the folder of each product."),
    ) -> None:
        """Install packages, build kernel, guest root, loader and plugin: what is not there yet.

        Every other command does this by itself, as far as it needs. What is done stays done: an
        interrupted set-up goes on where it was.
        """
        from lab.messages import info
        from lab.setup import products
        from lab.setup.progress import Progress

        makers: dict[Part, Callable[[Progress], Path | None]] = {
            Part.PACKAGES: products.ensure_packages,
            Part.LOADER: products.ensure_loader,
            Part.PLUGIN: products.ensure_plugin,
            Part.POWER: products.ensure_power,
            Part.ROOT: products.ensure_root,
            Part.KERNEL: lambda progress: products.ensure_kernel(progress).bz_image,
        }
        progress = Progress()
        products.ensure_packages(progress)
        for part, maker in makers.items():
            if only and part not in only:
                continue
            made = maker(progress)
            if show and made is not None:
                print(made.parent)
        if kernel is not None:
            made = products.ensure_kernel(progress, kernel.value).bz_image
            if show:
                print(made.parent)
        info("set-up: all there" if not only else f"set-up: {', '.join(only)}: there")
