# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The rules of the repository that no other linter knows, as a program with tests of its own.

`rem tidy` prints one line per finding, `FILE:LINE: what`; `rem test` runs it in every tier.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.run import run

FILE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 70
SHELL_LINES_MAX = 30  # of code: what is longer belongs into Python
GUEST_INITS = ("guest/rem-init", "tests/shim/init")  # where there is no Python

ANY_OF_TWO = "Apache-2.0 OR MIT"
# The first folder that matches decides.
LICENCES = (
    ("format/", "GPL-2.0-only OR Apache-2.0 OR MIT"),
    ("machine/plugin/", "GPL-2.0-or-later"),
    ("kernel/", "GPL-2.0-only"),
    ("pm/kernel/", "GPL-2.0-only"),
    ("off2f/kernel/", "GPL-2.0-only"),
    ("pm/init/", "GPL-2.0-only"),
    ("", ANY_OF_TWO),
)
# Files that say their licence otherwise, or that no person writes.
NO_SPDX = re.compile(
    r"(^LICENSES/|/corpus/|\.(md|patch|bin|png|svg|lock|txt|json|jsonl|rec|gz|zst)$|^\.clang-format$)"
)
# Paths that exist on one machine only, and have no business in the project.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|farm|root/\.|root/kw|home/\w+)(?:/|\b)")

SECTIONS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Formats")


@dataclass(frozen=True)
class Finding:
    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


def project_files(repo: Path) -> list[Path]:
    """Files that are in the repository or would be with the next `git add`, sorted."""
    words = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = run(["git", *words], cwd=repo).stdout.split("\0")
    return sorted(repo / name for name in set(names) if name and (repo / name).is_file())


def tidy(repo: Path) -> list[Finding]:
    """All findings of all rules."""
    found: list[Finding] = []
    for path in project_files(repo):
        text = _text(path)
        if text is not None:
            found += check_file(str(path.relative_to(repo)), text)
    changelog = repo / "CHANGELOG.md"
    if changelog.exists():
        found += check_changelog(changelog.read_text(encoding="utf-8"))
    else:
        found.append(Finding("CHANGELOG.md", 1, "missing: Keep a Changelog, with [Unreleased]"))
    return found


def check_file(name: str, text: str) -> list[Finding]:
    """The rules that need one file only."""
    lines = text.splitlines()
    found = [*_spdx(name, lines), *_machine_paths(name, lines)]
    if len(lines) > FILE_LINES_MAX and not NO_SPDX.search(name):
        found.append(Finding(name, FILE_LINES_MAX, f"longer than {FILE_LINES_MAX} lines"))
    if name.endswith(".py"):
        found += _python_functions(name, text)
    elif name.endswith((".c", ".h")):
        found += _c_functions(name, lines)
    elif is_shell(lines) and name not in GUEST_INITS:
        code = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if len(code) > SHELL_LINES_MAX:
            found.append(Finding(name, 1, f"a shell script of over {SHELL_LINES_MAX} lines"))
    return found


def is_shell(lines: list[str]) -> bool:
    return bool(lines) and re.match(r"#!.*\b(sh|bash)\b", lines[0]) is not None


def licence_of(name: str) -> str:
    return next(licence for folder, licence in LICENCES if name.startswith(folder))


def check_changelog(text: str) -> list[Finding]:
    """Keep a Changelog: a title, [Unreleased] first, known sections, entries as lists."""
    lines = text.splitlines()
    releases = [(n, line) for n, line in enumerate(lines, 1) if line.startswith("## ")]
    found = []
    if not lines or lines[0] != "# Changelog":
        found.append(Finding("CHANGELOG.md", 1, "begins with `# Changelog`"))
    if not releases or releases[0][1] != "## [Unreleased]":
        found.append(Finding("CHANGELOG.md", 1, "its first release is `## [Unreleased]`"))
    for number, line in releases[1:]:
        if not re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", line):
            found.append(Finding("CHANGELOG.md", number, "wants `## [1.2.3] - 2026-12-31`"))
    for number, line in enumerate(lines, 1):
        if line.startswith("### ") and line[4:] not in SECTIONS:
            found.append(Finding("CHANGELOG.md", number, f"section not of {', '.join(SECTIONS)}"))
    return found


def _text(path: Path) -> str | None:
    data = path.read_bytes()
    if b"\0" in data[:8000]:
        return None
    return data.decode("utf-8", errors="replace")


def _spdx(name: str, lines: list[str]) -> Iterator[Finding]:
    if NO_SPDX.search(name) or not lines:
        return
    number = 1 if lines[0].startswith("#!") and len(lines) > 1 else 0
    match = re.search(r"SPDX-License-Identifier: (.*?)\s*(?:\*/|-->|$)", lines[number])
    wanted = licence_of(name)
    if match is None:
        yield Finding(name, number + 1, f"no SPDX-License-Identifier: {wanted}")
    elif match[1] != wanted:
        yield Finding(name, number + 1, f"licence {match[1]}, files here are {wanted}")


def _machine_paths(name: str, lines: list[str]) -> Iterator[Finding]:
    for number, line in enumerate(lines, 1):
        match = MACHINE_PATH.search(line)
        if match and "tidy: a path" not in line:
            yield Finding(name, number, f"a path of one machine: {match[0]}")


def _python_functions(name: str, text: str) -> Iterator[Finding]:
    """Bodies only: the signature of a command is the table of its options. A function within
    another is counted by itself.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _FUNCTION):
            inner = [n for n in node.body if isinstance(n, _FUNCTION)]
            own = _lines(node) - sum(_lines(n) for n in inner)
            yield from _too_long(name, node.name, node.lineno, own)


_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.body[0].lineno + 1


def _c_functions(name: str, lines: list[str]) -> Iterator[Finding]:
    """In kernel style a function's braces stand alone in the first column."""
    begin = 0
    for number, line in enumerate(lines, 1):
        if line == "{":
            begin = number
        elif line.startswith("}") and begin:
            yield from _too_long(name, lines[begin - 2].strip(), begin, number - begin + 1)
            begin = 0


def _too_long(name: str, function: str, first: int, count: int) -> Iterator[Finding]:
    if count > FUNCTION_LINES_MAX:
        yield Finding(name, first, f"{count} lines in {function}, at most {FUNCTION_LINES_MAX}")
