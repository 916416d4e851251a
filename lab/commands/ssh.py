# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem ssh`: a command or a shell in the guest."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from lab import run
from lab.command_line.options import DEFAULT_NAME, NameOption, takes
from lab.machine.guest_access import reach, ssh_command


@dataclass(frozen=True)
class SshWords:
    """The command line as typed."""

    command: Annotated[
        list[str] | None,
        typer.Argument(help="The command, for the guest's shell; without one, a shell."),
    ] = None
    name: NameOption = DEFAULT_NAME
    terminal: Annotated[
        bool | None,
        typer.Option(
            "--terminal/--no-terminal",
            "-t/-T",
            help="Give the command a terminal; by default where input and output are one.",
            show_default=False,
        ),
    ] = None


@takes(SshWords)
def run_ssh(words: SshWords) -> int:
    """Run a command in the guest, or a shell. It has this command's input and output.

    The exit code is the command's, or 255 where the connection failed. On a tap network the
    connection lives through a cut: the command continues when the machine resumes.
    """
    files = reach(words.name)
    terminal = words.terminal
    if terminal is None:
        terminal = sys.stdin.isatty() and sys.stdout.isatty()
    # The shell waits for the command's end, so that a signal becomes an exit code, too.
    text = " ".join(words.command) + "\nexit $?" if words.command else None
    run.replace_by(ssh_command(files, text, terminal))


def register(app: typer.Typer) -> None:
    # Options behind the first word of the command are the command's.
    settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}
    app.command("ssh", context_settings=settings)(run_ssh)
