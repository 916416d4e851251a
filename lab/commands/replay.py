# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem replay`: one cut of a recorded run again, printed in full."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.command_line.options import JsonOption, takes
from lab.errors import Exit, UsageError
from lab.messages import info


@dataclass(frozen=True)
class ReplayWords:
    """The command line as typed."""

    recording: Annotated[Path, typer.Argument(help="Directory of the recording.")]
    cut: Annotated[int, typer.Option(help="How many events come before the cut.", min=0)]
    evict: Annotated[
        str,
        typer.Option(
            help="Lines that had been evicted early: none, all, one:N, allbut:N, pair:N:M,"
            " page:N, mask:BITS, random:SEED:OF_256, torn:SEED:OF_256,"
            " older:SEED:OF_256, words:BITS, or offsets in hex. drained:LINES: before any of"
            " them: the memory controller had written so many lines more.",
            metavar="LINES",
        ),
    ] = "none"
    trace: Annotated[int, typer.Option(help="Events to print before and after.", min=0)] = 12
    media: Annotated[Path | None, typer.Option(help="Write what the cut left.", metavar="FILE")] = (
        None
    )
    boot: Annotated[
        bool,
        typer.Option("--boot", help="Boot a machine with it, too, and run the workload's check."),
    ] = False
    as_json: JsonOption = False


@takes(ReplayWords)
def replay_command(words: ReplayWords) -> int:
    """Check one cut of a recording, and print what happened around it.

    The exit code is 1 if the cut breaks an invariant.
    """
    recording = words.recording
    if not (recording / "recording.bin").is_file():
        raise UsageError(f"{recording} has no recording.bin: name a recording's directory")
    from lab.campaign import engine
    from lab.setup.campaign import Campaign
    from lab.setup.products import need

    program = need(Campaign())
    report = engine.replay(program, recording, words.cut, words.evict, words.trace, words.media)
    outcome = report["outcome"]
    broken = engine.broken_text(outcome["verdict"])
    _print_report(report, words.cut, broken)
    if words.boot:
        wrong = _boot(program, recording.absolute(), outcome)
        info(f"rem: booted: {wrong or 'every promise is kept'}")
        broken = broken or wrong
    if words.as_json:
        print(json.dumps(report))
    return Exit.BROKEN if broken else Exit.PASS


def _print_report(report: dict[str, Any], cut: int, broken: str) -> None:
    outcome = report["outcome"]
    for line in report["trace"]:
        info(line)
    info(
        f"rem: cut {cut} in {outcome['place']}, {outcome['evicted']} lines evicted early:"
        f" the loader decides {outcome['reason']}; {broken or outcome['verdict']}"
    )
    for line in report["differs"]:
        info(f"NVRAM + {line['offset']:#x}: media {line['media']}")
        info(f"{'':>{len(hex(line['offset'])) + 8}}  image {line['committed']}")
        if line["last_store"]:
            event, pc = line["last_store"]
            info(f"  last stored to by event {event}, at {pc:#x}")


def _boot(program: Path, recording: Path, outcome: dict[str, Any]) -> str:
    """What is wrong with the machine that boots it; empty if nothing is."""
    from lab.campaign import boots
    from lab.campaign.workload import Workload

    if not boots.bootable(recording):
        raise UsageError(f"{recording} has no disk and no workload, so it cannot be booted")
    names = ("event", "eviction", "reason", "sequence", "class", "place")
    image = boots.Image(str(recording), *(outcome[name] for name in names))
    with boots.boot_machine(recording, f"replay-{os.getpid()}") as machine:
        return boots.boot(program, machine, recording, image, Workload.read(recording))


def register(app: typer.Typer) -> None:
    app.command("replay")(replay_command)
