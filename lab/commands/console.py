# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem console`: the terminal as the console of a machine that runs detached."""

from __future__ import annotations

import typer

from lab.command_line.options import DEFAULT_NAME, NameOption
from lab.machine.attach import attach_console
from lab.machine.client import supervised


def register(app: typer.Typer) -> None:
    @app.command("console")
    def console_command(name: NameOption = DEFAULT_NAME) -> int:
        """Attach this terminal to a machine's console; Ctrl-] detaches it."""
        attach_console(supervised(name))
        return 0
