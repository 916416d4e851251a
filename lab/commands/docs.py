# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem docs`: keep the figures of documents true."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.command_line.options import JsonOption
from lab.errors import Exit, UsageError
from lab.messages import info
from lab.result import Result


def register(app: typer.Typer) -> None:
    @app.command("docs")
    def docs_command(
        names: Annotated[
            list[str] | None, typer.Argument(help="Sources of figures; all stale ones if none.")
        ] = None,
        check: Annotated[
            bool, typer.Option("--check", help="Report findings; the default.")
        ] = False,
        write: Annotated[
            bool, typer.Option("--write", help="Fill documents from records.")
        ] = False,
        refresh: Annotated[
            bool, typer.Option("--refresh", help="Run the commands of stale sources, then --write.")
        ] = False,
        as_json: JsonOption = False,
    ) -> int:
        """Check that each figure in a document is what a command printed for the present code.

        docs/figures.toml lists the commands and the code that they measure; docs/figures/ has what
        they printed. Exit 1 if a figure is stale, wrong, missing or unsourced.
        """
        from lab.docs.check import KINDS, documents, stale_sources
        from lab.docs.check import check as check_all
        from lab.docs.records import read_table
        from lab.docs.refresh import refresh as refresh_one
        from lab.docs.refresh import write_documents
        from lab.paths import repo_dir
        from lab.tidy.files import project_files

        if check and (write or refresh):
            raise UsageError("--check changes nothing: give it alone")
        repo = repo_dir()
        table, files = read_table(repo), project_files(repo)
        for name in names or []:
            if name not in table.sources:
                raise UsageError(f"{name}: choose some of {', '.join(table.sources)}")
        if refresh:
            for name in names or stale_sources(repo, table, files):
                info(f"docs: {name}: ./rem {table.sources[name].command}")
                refresh_one(repo, table.sources[name])
        if write or refresh:
            for changed in write_documents(repo, documents(repo, files)):
                info(f"docs: wrote {changed}")
        findings = check_all(repo)
        for finding in findings:
            info(str(finding))
        if as_json:
            result = Result("docs", ok=not findings)
            for kind in KINDS:
                result.add(kind, sum(f.kind == kind for f in findings), "1", "counted")
            result.emit()
        return Exit.BROKEN if findings else Exit.PASS
