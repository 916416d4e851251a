# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem tidy`: the repository's own rules."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    @app.command()
    def tidy() -> None:
        """Look for what no other linter knows: licences, machine paths, lengths, changelog."""
        from lab.errors import Exit
        from lab.paths import repo_dir
        from lab.tidy.rules import tidy as findings

        found = findings(repo_dir())
        for finding in found:
            print(finding)
        if found:
            raise typer.Exit(Exit.BROKEN)
