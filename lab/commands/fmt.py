# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem fmt`: format every file, and write the generated ones."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    @app.command()
    def fmt(context: typer.Context) -> None:
        """Format all Python, C and Rust in place; write man/rem.1, format/FORMAT.md, rooms."""
        from lab.checks.lint import format_all
        from lab.command_line.man_page import man_page
        from lab.docs.format_page import format_page
        from lab.paths import repo_dir
        from lab.tidy.rooms import SHOWN_IN, read_rooms, with_table

        format_all(repo_dir())
        page = man_page(context.find_root().command)
        (repo_dir() / "man" / "rem.1").write_text(page, encoding="utf-8")
        (repo_dir() / "format" / "FORMAT.md").write_text(format_page(), encoding="utf-8")
        shown = repo_dir() / SHOWN_IN
        text = with_table(shown.read_text(encoding="utf-8"), read_rooms(repo_dir()))
        shown.write_text(text, encoding="utf-8")
