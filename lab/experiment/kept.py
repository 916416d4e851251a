# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Raw results that are kept beside the reports, so that experiments with the same needs measure
once.

The name of a file has what was asked for, the keys of set-up's products, and a key of the code that
makes the results (`code_key`): what other code has measured is never taken.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

from lab.parts import PARTS_DIR
from lab.paths import repo_dir
from lab.setup.inputs import Inputs

Name = TypeVar("Name")
Maker = Callable[..., Any]

# What set-up makes has a key of its own, and how results are judged does not change them.
NOT_FOLLOWED = ("lab.setup.", "lab.experiment.run.", "lab.experiment.expected.")


def kept(
    files: Mapping[Name, Path],
    measure: Callable[[list[Name]], Iterable[tuple[Name, Any]]],
    *makers: Maker,
) -> dict[Name, Any]:
    """Results by name. *measure* gets the names whose file is missing, and gives their results.

    Each is written when it is given, as a whole. A name for which nothing was given is left out.
    Files get the key of the code of *measure* and *makers*, which it calls, before their suffix.
    """
    code = code_key(measure, *makers)
    named = {name: path.with_name(f"{path.stem}-{code}{path.suffix}")
             for name, path in files.items()}  # fmt: skip
    missing = [name for name, path in named.items() if not path.exists()]
    for name, raw in measure(missing) if missing else ():
        path = named[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(raw), encoding="utf-8")
        new.replace(path)
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in named.items()
        if path.exists()
    }


def code_key(*makers: Maker) -> str:
    """Of the files of these functions, of all of lab that they import, and of the table of parts.

    Comments and docstrings are not in it.
    """
    inputs = Inputs("results").add_path(PARTS_DIR, "parts")
    for path in sorted(followed(map(_file_of, makers))):
        inputs.add(path.name, _code(path))
    return inputs.key()


def _file_of(maker: Maker) -> Path:
    assert isinstance(maker, FunctionType), f"{maker} has no file"
    return Path(maker.__code__.co_filename)


def followed(files: Iterable[Path]) -> set[Path]:
    """These files, and those that they import, also in functions."""
    found = set(files)
    todo = list(found)
    while todo:
        new = set(_imports(todo.pop())) - found
        found |= new
        todo += new
    return found


def _imports(path: Path) -> Iterator[Path]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for module in modules:
            of_lab = module.startswith("lab.") and not f"{module}.".startswith(NOT_FOLLOWED)
            file = repo_dir() / f"{module.replace('.', '/')}.py"
            if of_lab and file.is_file():
                yield file


def _code(path: Path) -> str:
    """Of a module, without comments and docstrings."""
    tree = _tree(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            del node.body[: ast.get_docstring(node) is not None]
    return ast.dump(tree)


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
