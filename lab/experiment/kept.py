# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Raw results that are kept beside the reports, so that experiments with the same needs measure
once. The name of a file has the keys of all that was measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

Name = TypeVar("Name")


def kept(
    files: Mapping[Name, Path], measure: Callable[[list[Name]], Iterable[tuple[Name, Any]]]
) -> dict[Name, Any]:
    """Results by name. *measure* gets the names whose file is missing, and gives their results.

    Each is written when it is given, as a whole. A name for which nothing was given is left out.
    """
    missing = [name for name, path in files.items() if not path.exists()]
    for name, raw in measure(missing) if missing else ():
        path = files[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(raw), encoding="utf-8")
        new.replace(path)
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in files.items()
        if path.exists()
    }
