# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem cut`: take the power away from a running machine."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from lab.errors import Exit, UsageError
from lab.machine.client import supervised
from lab.machine.control import request
from lab.machine.cut_points import STOP_PHASES
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
        at: Annotated[
            str | None,
            typer.Option(
                "--at",
                help="Where in Stop the hold-up ends, in instructions after a phase begins: "
                f"{', '.join(STOP_PHASES)}. For machines with --cut-points or --icount.",
                metavar="PHASE+N",
            ),
        ] = None,
        as_json: JsonOption = False,
    ) -> int:
        """Cut the power: PWR_OK drops, the hold-up runs, then QEMU is killed with SIGKILL.

        The exit code is 1 if the machine was given a hold-up and did not commit within it, or if
        the place to cut at was not reached.
        """
        if at is not None and (immediate or hold_up is not None):
            raise UsageError("--at says when the hold-up ends: give no --hold-up, no --immediate")
        hold_up_ns = None if hold_up is None else parse_ns(hold_up, "--hold-up")
        record = request(supervised(name), "cut", hold_up_ns=hold_up_ns, immediate=immediate, at=at)
        say(f"rem: {cut_line(record)}")
        if as_json:
            print(json.dumps(record))
        as_asked = record["place"] is not None if at is not None else record["stopped"]
        return Exit.PASS if as_asked or immediate else Exit.BROKEN
