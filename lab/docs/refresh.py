# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem docs --refresh`: run the commands that figures come from, and keep what they print."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.docs.check import ages
from lab.docs.marks import filled
from lab.docs.records import (
    TABLE,
    Record,
    Source,
    measured_key,
    read_record,
    read_table,
    write_record,
)
from lab.errors import RemError
from lab.paths import state_dir
from lab.run import run
from lab.tidy.files import project_files

# Lines of set-up, of progress and of `rem` itself are not output; nor is where files were written,
# which differs from one machine to the next.
_NOT_OUTPUT = re.compile(r"^(?:set-up: |rem: |Page: |Picture: )")


@contextmanager
def _own_state() -> Iterator[dict[str, str]]:
    """An empty folder for machines and results, by the environment. What earlier commands have
    left, such as a campaign of other code, is neither continued nor counted, and is kept.
    """
    state_dir().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="docs-", dir=state_dir()) as folder:
        yield {"REM_STATE": folder}


def refresh(repo: Path, source: Source) -> Record:
    """Run the command of *source*; RemError where it fails or prints no figures.

    The error names a file with all that it printed: what it had in its state folder is gone.
    """
    log = state_dir() / f"docs-{source.name}.log"
    try:
        return _refresh(repo, source, log)
    except RemError as error:
        kept = f"; all that it printed: {log}" if log.is_file() else ""
        raise type(error)(f"{error.message}{kept}") from error


def _refresh(repo: Path, source: Source, log: Path) -> Record:
    log.unlink(missing_ok=True)
    _check_used(repo, source)
    key = measured_key(repo, source, project_files(repo))
    with _own_state() as env:
        what = f"./rem {source.command}"
        done = run([repo / "rem", *source.words], cwd=repo, env=env, check=False, what=what)
    log.write_text(f"{done.stderr}{done.stdout}", encoding="utf-8")
    if not done.ok and not source.misses:
        raise RemError(f"{what} failed (exit {done.returncode})")
    if key != measured_key(repo, source, project_files(repo)):
        raise RemError(f"the code that {source.name} measures has changed meanwhile: run it again")
    try:
        printed = json.loads(done.stdout.splitlines()[-1])
        figures = printed["figures"]
    except (IndexError, ValueError, KeyError) as error:
        raise RemError(f"./rem {source.command} --json printed no figures: {error}") from error
    _check_misses(source, printed)
    printed_lines = done.stderr.splitlines() if source.output else []
    lines = tuple(line for line in printed_lines if not _NOT_OUTPUT.match(line))
    record = Record(source.command, key, figures, lines)
    write_record(repo, source, record)
    log.unlink()
    return record


def _check_used(repo: Path, source: Source) -> None:
    """RemError if a record that its command reads is not of today's code."""
    table = read_table(repo)
    used = replace(table, sources={name: table.sources[name] for name in source.uses})
    for name, age in ages(repo, used, project_files(repo)).items():
        if age != "current":
            raise RemError(
                f"{source.name} has figures of {name}, whose record is {age}: run"
                f" `./rem docs --refresh {name}` first"
            )


def _check_misses(source: Source, printed: dict[str, Any]) -> None:
    """RemError unless all is well but for the aims that are known to be missed."""
    missed = set(printed.get("missed", []))
    if not printed["ok"] and (not missed or missed - source.misses.keys()):
        names = "".join(f": {name}" for name in sorted(missed - source.misses.keys()))
        raise RemError(f"./rem {source.command} failed{names}: its figures are not recorded")
    if held := source.misses.keys() - missed:
        raise RemError(
            f"{TABLE}: {source.name}: {', '.join(sorted(held))}: the aim is reached: remove it from"
            " `misses`"
        )


def write_documents(repo: Path, documents: list[Path]) -> list[str]:
    """Fill the marks of all documents; the names of those that changed."""
    changed = []
    for path in documents:
        text = path.read_text(encoding="utf-8")
        current, _ = filled(text, lambda name: read_record(repo, name))
        if current != text:
            path.write_text(current, encoding="utf-8")
            changed.append(str(path.relative_to(repo)))
    return changed
