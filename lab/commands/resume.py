# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem resume`: give a machine its power back."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from lab.command_line.options import DEFAULT_NAME, JsonOption, NameOption
from lab.errors import Exit, UsageError
from lab.machine.attach import run_in_foreground, start_detached
from lab.machine.client import existing
from lab.machine.control import has_supervisor, request
from lab.machine.files import MachineFiles
from lab.machine.machine import Machine, MachineState
from lab.machine.places import GO_PHASES
from lab.machine.status import decision_line
from lab.messages import info
from lab.quantities import parse_span_s


def register(app: typer.Typer) -> None:
    @app.command("resume")
    def resume_command(
        name: NameOption = DEFAULT_NAME,
        off_for: Annotated[
            str,
            typer.Option(
                "--off-for",
                help="Simulate that the power was off for so much longer, as 7d.",
                metavar="SPAN",
            ),
        ] = "0s",
        cold: Annotated[
            bool, typer.Option("--cold", help="Ask the loader for a cold boot.")
        ] = False,
        cut_at: Annotated[
            str | None,
            typer.Option(
                "--cut-at",
                help="Cut the power again, unannounced, so many instructions after a phase "
                f"of Go begins: {', '.join(GO_PHASES)}. For a machine with cut points.",
                metavar="PHASE+N",
            ),
        ] = None,
        detach: Annotated[
            bool, typer.Option("--detach", "-d", help="Run without this terminal.")
        ] = False,
        as_json: JsonOption = False,
    ) -> int:
        """Give a machine its power back: a new QEMU process on the same NVRAM and disk.

        If another process runs the machine (`rem run` elsewhere, or --detach), that process does
        it; else this terminal becomes the console. The exit code is 1 if the loader decided on a
        cold boot without --cold, or if the image was entered and its kernel crashed; 3 if it hangs.
        """
        files = existing(name)
        rtc_offset_s = parse_span_s(off_for, "--off-for")
        if cut_at is not None:
            return _resume_and_cut(files, cut_at, rtc_offset_s)
        if not has_supervisor(files) and not detach:
            info(f"rem: machine {name!r}; Ctrl-] ends it")
            return run_in_foreground(Machine.open(name), cold, rtc_offset_s)
        if has_supervisor(files):
            result = request(files, "resume", rtc_offset_s=rtc_offset_s, cold=cold)
        else:
            start_detached(files, cold, rtc_offset_s)
            result = request(files, "decided")
        return _print_decision(result["boot_note"], cold, as_json)


def _resume_and_cut(files: MachineFiles, cut_at: str, rtc_offset_s: int) -> int:
    if not has_supervisor(files):
        raise UsageError("--cut-at needs a machine with a supervisor: `rem run -d`, `rem cut`")
    state = request(files, "resume", rtc_offset_s=rtc_offset_s, cut_at=cut_at)["state"]
    if state != MachineState.CUT:
        info(f"rem: {cut_at} was not reached: machine {files.name!r} is {state}")
        return Exit.BROKEN
    info(f"rem: power cut at {cut_at} of Go")
    return Exit.PASS


def _print_decision(note: dict[str, Any] | None, cold: bool, as_json: bool) -> int:
    info(f"rem: {decision_line(note)}")
    if as_json:
        print(json.dumps({"boot_note": note}))
    resumed = note is not None and note["reason"] == "RESUME"
    return Exit.PASS if resumed != cold else Exit.BROKEN
