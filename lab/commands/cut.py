# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem cut`: take the power away from a running machine."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from lab.errors import Exit
from lab.machine.client import supervised
from lab.machine.control import request
from lab.machine.options import DEFAULT_NAME, JsonOption, NameOption, parse_ns
from lab.machine.status import cut_line
from lab.say import say


def register(app: typer.Typer) -> None:
    @app.command("cut")
    def cut_command(
        name: NameOption = DEFAULT_NAME,
        hold_up: Annotated[
            str | None,
            typer.Option(
                "--hold-up",
                help="Guest time from the drop of PWR_OK to the loss of power, as 17ms.",
                metavar="TIME",
            ),
        ] = None,
        immediate: Annotated[
            bool, typer.Option("--immediate", help="No announcement and no hold-up.")
        ] = False,
        as_json: JsonOption = False,
    ) -> int:
        """Cut the power: PWR_OK drops, the hold-up runs, then QEMU is killed with SIGKILL.

        The exit code is 1 if the machine was given a hold-up and did not commit within it.
        """
        hold_up_ns = None if hold_up is None else parse_ns(hold_up, "--hold-up")
        record = request(supervised(name), "cut", hold_up_ns=hold_up_ns, immediate=immediate)
        say(f"rem: {cut_line(record)}")
        if as_json:
            print(json.dumps(record))
        return Exit.PASS if record["stopped"] or immediate else Exit.BROKEN
