# SPDX-License-Identifier: Apache-2.0 OR MIT
"""man/rem.1, made from the parser of the command line: the parser is the only source of its text.

`rem fmt` writes it; a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from lab.cli import HELP, build_app
from lab.errors import Exit

EXIT_MEANINGS = {
    Exit.PASS: "all is well",
    Exit.BROKEN: "an invariant is broken, or a test failed",
    Exit.USAGE: "the command line is wrong",
    Exit.HANG: "a hang, or a budget of time exceeded",
    Exit.INFRASTRUCTURE: "a tool, disk space, the network or a right is missing",
    Exit.INTERRUPTED: "interrupted (Ctrl-C)",
}
ENVIRONMENT = {
    "REM_CACHE": "Folder of all that set-up can make again; else $XDG_CACHE_HOME/remanence, or "
    "~/.cache/remanence.",
    "REM_STATE": "Folder of machines; else $XDG_STATE_HOME/remanence, or ~/.local/state/remanence.",
}


def man_page() -> str:
    """The whole page, in the macros of man(7)."""
    root: Any = typer.main.get_command(build_app())
    lines = [
        '.\\" SPDX-License-Identifier: Apache-2.0 OR MIT',
        ".\\\" Made by `rem fmt` from the command line's parser; not edited by hand.",
        ".TH REM 1",
        ".SH NAME",
        f"rem \\- {_text(HELP[0].lower() + HELP[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        ".B rem",
        "[\\-\\-debug] COMMAND [OPTION]...",
        ".SH COMMANDS",
    ]
    for name in sorted(root.commands):
        lines += _command(name, root.commands[name])
    lines += [".SH EXIT STATUS"]
    for code, meaning in EXIT_MEANINGS.items():
        lines += [".TP", f".B {int(code)}", _text(meaning)]
    lines += [".SH ENVIRONMENT"]
    for name, meaning in ENVIRONMENT.items():
        lines += [".TP", f".B {name}", _text(meaning)]
    return "\n".join(lines) + "\n"


def _command(name: str, command: Any) -> Iterator[str]:
    if command.hidden:
        return
    if hasattr(command, "commands"):
        for inner in sorted(command.commands):
            yield from _command(f"{name} {inner}", command.commands[inner])
        return
    context = typer.Context(command)
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = [piece for p in arguments for piece in p.get_usage_pieces(context)]
    yield f".SS rem {_text(' '.join([name, *usage]))}"
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", command.help or "")]
    yield "\n.PP\n".join(_text(paragraph) for paragraph in paragraphs)
    for record in (p.get_help_record(context) for p in command.params):
        if record is not None:  # else hidden
            yield from (".TP", f".B {_text(record[0])}", _text(" ".join(record[1].split())))


def _text(text: str) -> str:
    """Characters that roff reads are escaped; a line must not begin with a dot or a quote."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + escaped if escaped[:1] in (".", "'") else escaped
