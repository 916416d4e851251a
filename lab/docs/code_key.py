# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A hash of code that ignores what changes no behaviour: comments, docstrings, blank space.

A figure in a document is stale when the key of the code that it measures has changed. Prose in
that code must not make it stale, or nobody would correct a comment. Of a paper.toml, the points
that cannot be had are not in it either.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

KEY_DIGITS = 16

_IGNORED_SUFFIXES = frozenset({".md", ".txt", ".lock", ".png", ".svg"})

# What a comment or a string looks like, in the order in which a lexer has to try them.
_C = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)"""
    r"""|(?P<keep>r\#*".*?"\#*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\\n])')""",
    re.DOTALL,
)
_PYTHON = re.compile(
    r'''(?P<comment>\#[^\n]*|^[ \t]*(?:"""(?:\\.|[^\\])*?"""))'''
    r"""|(?P<keep>\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""",
    re.DOTALL | re.MULTILINE,
)
_HASH = re.compile(r"""(?P<comment>(?:^|(?<=\s))\#[^\n]*)|(?P<keep>"[^"\n]*"|'[^'\n]*')""", re.M)
# Points that an experiment does not measure (lab/experiment/expected.py): up to the next table.
_UNMEASURED = re.compile(r"^\[\[unobtainable\]\].*?(?=^\[|\Z)", re.MULTILINE | re.DOTALL)
_LEXERS = {
    **dict.fromkeys((".c", ".h", ".cc", ".rs", ".S", ".ld"), _C),
    ".py": _PYTHON,
    **dict.fromkeys((".toml", ".config", ".sh", ""), _HASH),
}


def code_only(name: str, text: str) -> str:
    """The text of a source file without comments, docstrings and blank space at line ends."""
    suffix = Path(name).suffix
    if suffix == ".patch":
        return "\n".join(
            line
            for line in text.splitlines()
            if line[:1] in "+-" and line[:3] not in {"+++", "---"} and line.strip() not in "+-"
        )
    lexer = _LEXERS.get(suffix)
    if lexer is not None:
        text = lexer.sub(lambda found: found["keep"] or "", text)
    if Path(name).name == "paper.toml":
        text = _UNMEASURED.sub("", text)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def code_key(repo: Path, files: Iterable[Path]) -> str:
    """The key of these files (absolute paths below *repo*), by name and code."""
    digest = hashlib.sha256()
    for path in sorted(set(files)):
        if path.suffix in _IGNORED_SUFFIXES:
            continue
        name = str(path.relative_to(repo))
        code = code_only(name, path.read_text(encoding="utf-8", errors="replace"))
        for part in (name, code):
            digest.update(len(part).to_bytes(8, "little") + part.encode())
    return digest.hexdigest()[:KEY_DIGITS]
