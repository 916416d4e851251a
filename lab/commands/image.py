# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem image`: a disk with Debian, our packages and the loader, which UEFI boots."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.errors import UsageError


def register(app: typer.Typer) -> None:
    @app.command("image")
    def image_command(
        file: Annotated[Path, typer.Argument(help="Where to write the disk.")],
        ssh_key: Annotated[
            Path, typer.Option(help="The public key that root's sessions by ssh have.")
        ],
        packages: Annotated[
            str, typer.Option(help="More of Debian's packages.", metavar="NAME,...")
        ] = "",
        network: Annotated[
            Path | None,
            typer.Option(help="A .network file of systemd-networkd, instead of DHCP."),
        ] = None,
        cmdline: Annotated[
            str, typer.Option(help="Words of the kernel, besides its root.", metavar="WORDS")
        ] = "memtype=nvram",
        hostname: Annotated[str, typer.Option(help="Its name.")] = "remanence",
    ) -> int:
        """Write a disk that boots: Debian with systemd, and the packages of the last commit.

        For a USB stick, a server's disk, or QEMU. Root has no password, only the key.
        """
        from lab.distribution.disk import BASE, DHCP, VARIANT, DiskPlan, make_disk
        from lab.distribution.publish import clean_commit
        from lab.messages import info
        from lab.setup.debian_root import DebianRoot
        from lab.setup.debs import Debs
        from lab.setup.kernel import FOR_MODULES
        from lab.setup.packages import Group
        from lab.setup.products import Packages, need_all

        for given in (ssh_key, network):
            if given is not None and not given.is_file():
                raise UsageError(f"{given} is no file")
        debs = Debs(clean_commit())
        more = tuple(name for name in packages.split(",") if name)
        base = DebianRoot(VARIANT, (*BASE, *FOR_MODULES, *more))
        made = need_all([debs, base, Packages((Group.ROOT, Group.UEFI))])
        plan = DiskPlan(
            base=made[base],
            debs=made[debs],
            ssh_key=ssh_key.read_text(encoding="utf-8"),
            network=DHCP if network is None else network.read_text(encoding="utf-8"),
            cmdline=cmdline,
            hostname=hostname,
        )
        make_disk(plan, file)
        info(f"rem: {file}, {file.stat().st_size >> 20} MiB")
        return 0
