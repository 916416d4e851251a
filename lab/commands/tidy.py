# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem tidy`: the repository's own rules."""

from __future__ import annotations

import typer

from lab.command_line.options import JsonOption


def register(app: typer.Typer) -> None:
    @app.command("tidy")
    def tidy_command(as_json: JsonOption = False) -> int:
        """Check what no other linter does: rooms, cycles, binaries, units, lengths, licences.

        Prints one line per finding. The rooms and the edges that are allowed between them are in
        lab/tidy/edges.toml.
        """
        from lab.errors import Exit
        from lab.paths import repo_dir
        from lab.result import Result
        from lab.tidy.check import counts, tidy

        found = tidy(repo_dir())
        for finding in found:
            print(finding)
        if as_json:
            result = Result("tidy", ok=not found)
            for name, count in counts(found).items():
                result.add(name, count, "1", "counted")
            result.emit()
        return Exit.BROKEN if found else Exit.PASS
