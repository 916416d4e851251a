# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem ssh`: a command in the guest."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from lab.command_line.options import DEFAULT_NAME, NameOption
from lab.machine.client import supervised
from lab.machine.control import request


def register(app: typer.Typer) -> None:
    @app.command("ssh", context_settings={"ignore_unknown_options": True})
    def ssh_command(
        command: Annotated[list[str], typer.Argument(help="The command, for the guest's shell.")],
        name: NameOption = DEFAULT_NAME,
    ) -> int:
        """Run a command in the guest to its end; its output and exit code are passed on."""
        result = request(supervised(name), "guest", command=" ".join(command))
        sys.stdout.write(result["stdout"])
        sys.stderr.write(result["stderr"])
        return int(result["returncode"])
