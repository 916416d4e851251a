# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem report`: read the records, make the page, replace the file."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import NamedTemporaryFile

from lab.errors import InfraError
from lab.evaluation.collect import collect
from lab.evaluation.own_picture import own_picture
from lab.evaluation.page import page
from lab.result import Result

READABLE = 0o644  # a temporary file is its owner's alone


def write_report(repo: Path, target: Path) -> Result:
    """Write the page of a checkout to *target*; where a record is damaged, RemError and no file."""
    evaluation = collect(repo)
    pictures = {entry.name: own_picture(repo, entry) for entry in evaluation.entries}
    _replace(target, page(evaluation, pictures))
    counts = evaluation.counts()
    result = Result("report", ok=counts["deviating"] == 0)
    for name, value in counts.items():
        result.add(name, value, "", "counted")
    return result


def _replace(target: Path, text: str) -> None:
    """A reader of *target* gets the old page or the whole new one."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(
            "w", encoding="utf-8", dir=target.parent, prefix=f".{target.name}-", delete=False
        ) as opened:
            partial = Path(opened.name)
            try:
                opened.write(text)
                opened.close()
                partial.chmod(READABLE)
                os.replace(partial, target)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise InfraError(f"cannot write {target}: {error.strerror}") from error
