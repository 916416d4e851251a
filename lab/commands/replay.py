# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem replay`: one cut of a recorded run again, told in full."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.command_line.options import JsonOption
from lab.errors import Exit, UsageError
from lab.messages import info


def register(app: typer.Typer) -> None:
    @app.command("replay")
    def replay_command(
        recording: Annotated[Path, typer.Argument(help="Directory of the recording.")],
        cut: Annotated[int, typer.Option(help="How many events come before the cut.", min=0)],
        evict: Annotated[
            str,
            typer.Option(
                help="Lines that had been evicted early: none, all, one:N, allbut:N, pair:N:M,"
                " page:N, mask:BITS, random:SEED:OF_256, torn:SEED:OF_256, words:BITS, or offsets"
                " in hex.",
                metavar="LINES",
            ),
        ] = "none",
        trace: Annotated[int, typer.Option(help="Events told before and after.", min=0)] = 12,
        media: Annotated[
            Path | None, typer.Option(help="Write what the cut left.", metavar="FILE")
        ] = None,
        boot: Annotated[
            bool,
            typer.Option(
                "--boot", help="Boot a machine with it, too, and run the workload's check."
            ),
        ] = False,
        as_json: JsonOption = False,
    ) -> int:
        """Judge one cut of a recording, and tell what happened around it.

        The exit code is 1 if the cut breaks an invariant.
        """
        if not (recording / "recording.bin").is_file():
            raise UsageError(f"{recording}: no recording.bin there; name a recording's directory")
        from lab.campaign import engine
        from lab.setup.campaign import Campaign
        from lab.setup.products import need

        program = need(Campaign())
        told = engine.replay(program, recording, cut, evict, trace, media)
        outcome = told["outcome"]
        for line in told["trace"]:
            info(line)
        broken = engine.broken_text(outcome["verdict"])
        info(
            f"rem: cut {cut} in {outcome['place']}, {outcome['evicted']} lines evicted early:"
            f" the loader decides {outcome['reason']}; {broken or outcome['verdict']}"
        )
        for line in told["differs"]:
            info(f"NVRAM + {line['offset']:#x}: media {line['media']}")
            info(f"{'':>{len(hex(line['offset'])) + 8}}  image {line['committed']}")
            if line["last_store"]:
                event, pc = line["last_store"]
                info(f"  last stored to by event {event}, at {pc:#x}")
        if boot:
            wrong = _boot(program, recording.absolute(), outcome)
            info(f"rem: booted: {wrong or 'every promise is kept'}")
            broken = broken or wrong
        if as_json:
            print(json.dumps(told))
        return Exit.BROKEN if broken else Exit.PASS


def _boot(program: Path, recording: Path, outcome: dict[str, Any]) -> str:
    """What is wrong with the machine that boots it; empty if nothing is."""
    from lab.campaign import boots
    from lab.campaign.workload import Workload

    if not boots.bootable(recording):
        raise UsageError(f"{recording}: no disk and no workload there, so nothing to boot")
    names = ("event", "eviction", "reason", "sequence", "class", "place")
    image = boots.Image(str(recording), *(outcome[name] for name in names))
    with boots.boot_machine(recording, f"replay-{os.getpid()}") as machine:
        return boots.boot(program, machine, recording, image, Workload.read(recording))
