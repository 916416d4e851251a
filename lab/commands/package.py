# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem package`: Debian packages of kernel, loader and programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.command_line.options import JsonOption
from lab.errors import Exit


def register(app: typer.Typer) -> None:
    @app.command("package")
    def package_command(
        folder: Annotated[Path, typer.Argument(help="Where to put them, with an index for apt.")],
        check: Annotated[
            bool,
            typer.Option(
                "--check",
                help="Make them a second time, at another place with an empty cache, compare all"
                " bytes, and ask lintian. Exit 1 if they differ or have errors.",
            ),
        ] = False,
        sign_with: Annotated[
            str | None,
            typer.Option(
                "--sign",
                metavar="KEY",
                help="Sign the index with this secret key of your GnuPG: its fingerprint or"
                " address. The public key is then in the folder, too.",
            ),
        ] = None,
        as_json: JsonOption = False,
    ) -> int:
        """Make Debian packages of the last commit: kernel, headers, loader, programs, libraries.

        The folder is then a repository of apt. The same commit gives the same bytes.
        """
        from lab.distribution.again import differing, made_again
        from lab.distribution.lintian import errors_of, said_by_lintian
        from lab.distribution.publish import clean_commit, publish
        from lab.distribution.sign import find_key, sign
        from lab.messages import info
        from lab.result import Result
        from lab.setup.debs import Debs
        from lab.setup.products import need

        if sign_with is not None:
            find_key(sign_with)
        packages = publish(need(Debs(clean_commit())), folder)
        if sign_with is not None:
            sign(folder, sign_with)
        result = Result("package")
        total = sum(path.stat().st_size for path in packages)
        result.add("packages", len(packages), "", "counted")
        result.add("package_bytes", total, "bytes", "counted")
        info(f"rem: {len(packages)} packages, {total >> 20} MiB, in {folder}")
        if check:
            said = said_by_lintian(packages)
            errors = errors_of(said)
            for line in said:
                info(f"lintian: {line}")
            with made_again() as again:
                others = differing(folder, again)
            for name in others:
                info(f"package: {name} is not the same when it is made again")
            result.add("reproducible", int(not others), "", "counted")
            result.add("lintian_errors", len(errors), "", "counted")
            result.add("lintian_warnings", len(said) - len(errors), "", "counted")
            result.ok = not others and not errors
        if as_json:
            result.emit()
        return Exit.PASS if result.ok else Exit.BROKEN
