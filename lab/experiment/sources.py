# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Functions of the kernel sources, and which of them run from one of them on.

The sources are in kernel style: the braces of a function stand alone in the first column, and
assembly has SYM_FUNC_START() and its like. A function is used where its name stands, so one that
is given to another as an argument counts as called. Functions of Linux itself are not ours, and
end a way; what they call back is found only if it is named.

Counted are lines of code: neither comments nor blank lines, but whole functions, also where a part
of one runs at another time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# What may be a comment or a string: a string is kept, as it may look like a comment.
_COMMENT = re.compile(r"""//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.S)
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSEMBLY = re.compile(
    r"^SYM_(?:FUNC|CODE)_START(?:_\w+)?\((\w+)\)\n.*?^SYM_(?:FUNC|CODE)_END\(\1\)", re.M | re.S
)
# Of a signature: the name before its first parenthesis.
_SIGNATURE = re.compile(r"(\w+)\s*\(")
FOLDERS = ("stop", "resume", "hooks", "x86")  # of kernel/


@dataclass(frozen=True)
class Function:
    """A function of ours, and the names in it."""

    name: str
    file: str  # below the folder that was read
    code_lines: int
    names: frozenset[str]


def code_of(text: str) -> str:
    """A source without comments and blank lines."""
    bare = _COMMENT.sub(lambda found: found[1] or "", text)
    return "".join(f"{line.rstrip()}\n" for line in bare.splitlines() if line.strip())


def _function(file: str, name: str, text: str) -> Function:
    names = frozenset(_NAME.findall(_STRING.sub("", text))) - {name}
    return Function(name, file, text.count("\n"), names)


def _c_functions(file: str, code: str) -> Iterator[Function]:
    """A signature goes back to the line behind the end of what is before it."""
    lines = code.splitlines()
    begin: int | None = None
    for number, line in enumerate(lines):
        if line == "{":
            begin = number
            while begin > 0 and not re.search(r"[;}]$|^#|^/", lines[begin - 1]):
                begin -= 1
        elif line == "}" and begin is not None:
            name = _SIGNATURE.search(" ".join(lines[begin:number]))
            if name is not None:
                yield _function(file, name[1], "\n".join(lines[begin : number + 1]) + "\n")
            begin = None


def functions_in(file: str, text: str) -> list[Function]:
    """All functions of a source."""
    code = code_of(text)
    if file.endswith(".S"):
        return [_function(file, it[1], it[0] + "\n") for it in _ASSEMBLY.finditer(code)]
    return list(_c_functions(file, code))


def functions_below(folder: Path, parts: Iterable[str] = FOLDERS) -> list[Function]:
    """All functions of C and assembly in these parts of a folder."""
    return [
        function
        for part in parts
        for path in sorted((folder / part).rglob("*.[chS]"))
        for function in functions_in(
            str(path.relative_to(folder)), path.read_text(encoding="utf-8")
        )
    ]


def _by_name(functions: Iterable[Function]) -> dict[str, Function]:
    """Of several with one name, as with an empty one for another configuration, the longest."""
    found: dict[str, Function] = {}
    for one in functions:
        if one.name not in found or found[one.name].code_lines < one.code_lines:
            found[one.name] = one
    return found


def reached(
    functions: Iterable[Function], roots: Iterable[str], ends: Mapping[str, str]
) -> list[Function]:
    """What runs from *roots* on, without *ends*, each with the reason why the way ends there.

    ValueError if a root or an end is no function: then what is counted is no longer what was meant.
    """
    ours = _by_name(functions)
    if missing := sorted({*roots, *ends} - set(ours)):
        raise ValueError(f"no function {', '.join(missing)} in the sources")
    found: dict[str, Function] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found or name in ends or name not in ours:
            continue
        found[name] = ours[name]
        waiting += sorted(ours[name].names)
    return sorted(found.values(), key=lambda one: (one.file, one.name))


# The save routine: from the interrupt of the wire to the last instruction on each CPU.
SAVE_BEGIN = "rem_pwr_interrupt"
SAVE_ENDS = {
    "rem_promise_update": "only if no Stop begins",
    "rem_stop_power_returned": "power is back",
    "rem_thread_wake": "the portable path, or after Go",
    "rem_quiet_end": "Go",
    "rem_go": "Go",
    "rem_go_cpu": "Go",
    "rem_go_cpu_finish": "Go",
}


def save_path(kernel: Path) -> list[Function]:
    """Functions of ours that the bounded path of Stop runs, in the sources of kernel/."""
    return reached(functions_below(kernel), [SAVE_BEGIN], SAVE_ENDS)
