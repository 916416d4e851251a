# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem status`: the status of a machine."""

from __future__ import annotations

import json

import typer

from lab.command_line.options import DEFAULT_NAME, JsonOption, NameOption
from lab.machine.client import existing
from lab.machine.control import has_supervisor, request
from lab.machine.status import status_from_files, status_lines


def register(app: typer.Typer) -> None:
    @app.command("status")
    def status_command(name: NameOption = DEFAULT_NAME, as_json: JsonOption = False) -> int:
        """Show a machine: its state, the loader's last decision and its reason, the last cut.

        While it runs, also the kernel's files below /sys/kernel/remanence.
        """
        files = existing(name)
        status = request(files, "status") if has_supervisor(files) else status_from_files(files)
        print(json.dumps(status) if as_json else "\n".join(status_lines(status)))
        return 0
