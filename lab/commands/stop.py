# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem stop`: a planned Stop, requested from the guest."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.command_line.options import DEFAULT_NAME, NameOption
from lab.errors import Exit
from lab.machine.client import supervised
from lab.machine.control import request
from lab.machine.machine import MachineState
from lab.messages import info


def register(app: typer.Typer) -> None:
    @app.command("stop")
    def stop_command(
        name: NameOption = DEFAULT_NAME,
        power_off: Annotated[
            bool, typer.Option("--power-off", help="Shut the guest down; nothing to resume.")
        ] = False,
    ) -> int:
        """Stop a machine as planned, without a hold-up; `rem resume` resumes it."""
        state = request(supervised(name), "stop", power_off=power_off)["state"]
        wanted = MachineState.OFF if power_off else MachineState.STOPPED
        info(f"rem: machine {name!r} is {state}" + ("" if state == wanted else f", not {wanted}"))
        return Exit.PASS if state == wanted else Exit.BROKEN
