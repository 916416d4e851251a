# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem completion`: the script with which a shell completes the words of `rem`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from lab.command_line.completion import SCRIPTS
from lab.command_line.options import takes
from lab.errors import UsageError


@dataclass(frozen=True)
class CompletionWords:
    """The command line as typed."""

    context: typer.Context
    shell: Annotated[str, typer.Argument(help=f"{', '.join(SCRIPTS)}.")]


@takes(CompletionWords)
def completion_command(words: CompletionWords) -> int:
    """Print the script that completes commands and options of `rem` in a shell.

    For bash: `source <(./rem completion bash)`. For zsh: put it as `_rem` into a folder of $fpath.
    For fish: `rem completion fish > ~/.config/fish/completions/rem.fish`.
    """
    if words.shell not in SCRIPTS:
        raise UsageError(f"rem completion {words.shell}: choose {', '.join(SCRIPTS)}")
    print(SCRIPTS[words.shell](words.context.find_root().command), end="")
    return 0


def register(app: typer.Typer) -> None:
    app.command("completion")(completion_command)
