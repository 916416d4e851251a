# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Files, functions and shell scripts are short."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lab.tidy.files import is_shell
from lab.tidy.finding import Finding
from lab.tidy.licences import NO_SPDX

FILE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 70
SHELL_LINES_MAX = 30  # of code; longer programs are written in Python
GUEST_INITS = ("guest/rem-init", "tests/shim/init")  # where there is no Python
GENERATED = ("man/rem.1",)  # by `rem fmt`: as long as the command line has options

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def check_lengths(name: str, text: str) -> Iterator[Finding]:
    lines = text.splitlines()
    if len(lines) > FILE_LINES_MAX and not NO_SPDX.search(name) and name not in GENERATED:
        yield Finding(name, FILE_LINES_MAX, f"longer than {FILE_LINES_MAX} lines")
    if name.endswith(".py"):
        yield from _python_functions(name, text)
    elif name.endswith((".c", ".h")):
        yield from _c_functions(name, lines)
    elif is_shell(lines) and name not in GUEST_INITS:
        code = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if len(code) > SHELL_LINES_MAX:
            yield Finding(name, 1, f"a shell script of over {SHELL_LINES_MAX} lines")


def _python_functions(name: str, text: str) -> Iterator[Finding]:
    """Bodies only; a function within another is counted by itself."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _FUNCTION):
            inner = [n for n in node.body if isinstance(n, _FUNCTION)]
            own = _lines(node) - sum(_lines(n) for n in inner)
            yield from _too_long(name, node.name, node.lineno, own)


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
