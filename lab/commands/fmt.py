# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem fmt`: bring every file into form, and make what is generated."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    @app.command()
    def fmt() -> None:
        """Format all Python, C and Rust in place; write man/rem.1 and format/FORMAT.md."""
        from lab.format_doc import format_page
        from lab.lint import format_all
        from lab.manpage import man_page
        from lab.paths import repo_dir

        format_all(repo_dir())
        (repo_dir() / "man" / "rem.1").write_text(man_page(), encoding="utf-8")
        (repo_dir() / "format" / "FORMAT.md").write_text(format_page(), encoding="utf-8")
