# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A number whose name contains a quantity ends in its unit: `timeout_s`, `size_bytes`.

Checked are fields of Python dataclasses and parameters of Python functions that are int or float,
public fields of Rust structs, and fields of the structs in format/*.h. `limit` and `rate` are no
quantities by themselves and so not among the words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lab.tidy.finding import Finding

RULE = "unit"
QUANTITIES = frozenset(
    {"time", "latency", "delay", "duration", "timeout", "period", "interval", "age", "frequency"}
    | {"size", "length", "capacity", "bandwidth", "energy", "power", "capacitance"}
)
UNITS = frozenset(
    {"ps", "ns", "us", "ms", "s", "min", "minutes", "h", "days", "ticks", "insns", "cycles"}
    | {"bytes", "kib", "mib", "gib", "bits", "words", "lines", "pages", "sectors", "px"}
    | {"pj", "nj", "uj", "mj", "j", "uw", "mw", "w", "mv", "v", "ma", "a", "uf", "f", "uusd"}
    | {"hz", "khz", "mhz", "ghz", "percent", "permille"}
)
_PYTHON_NUMBER = re.compile(r"(int|float)( \| None)?")
_RUST_FIELD = re.compile(
    r"^\s*pub (\w+):\s*(?:Option<)?(?:[ui](?:8|16|32|64|128|size)|f32|f64)\b", re.M
)
_C_FIELD = re.compile(r"^\s+(?:rem_u\d+|__u\d+|u?int\d+_t|unsigned(?: \w+)?|__le\d+) (\w+)", re.M)


def lacks_unit(name: str) -> bool:
    """Whether a name has a quantity in it and no unit at its end; `size_bytes_max` has one."""
    words = name.strip("_").lower().split("_")
    if words[-1] in {"max", "min"}:
        words.pop()
    return bool(QUANTITIES.intersection(words)) and (not words or words[-1] not in UNITS)


def check_units(name: str, text: str) -> Iterator[Finding]:
    if name.endswith(".py"):
        found = _python_names(text)
    elif name.endswith(".rs"):
        found = _matches(_RUST_FIELD, text)
    elif name.startswith("format/") and name.endswith(".h"):
        found = _matches(_C_FIELD, text)
    else:
        return
    for line, number in found:
        if lacks_unit(number):
            yield Finding(name, line, f"{number} does not end in its unit, as size_bytes", RULE)


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, str]]:
    for match in pattern.finditer(text):
        yield text.count("\n", 0, match.start(1)) + 1, match[1]


def _python_names(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and _is_dataclass(node):
            fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
            for field in fields:
                if isinstance(field.target, ast.Name) and _is_number(field.annotation):
                    yield field.lineno, field.target.id
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for argument in (*node.args.args, *node.args.kwonlyargs):
                if argument.annotation is not None and _is_number(argument.annotation):
                    yield argument.lineno, argument.arg


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def _is_number(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        assert isinstance(annotation.slice, ast.Tuple)
        annotation = annotation.slice.elts[0]
    return _PYTHON_NUMBER.fullmatch(ast.unparse(annotation)) is not None
