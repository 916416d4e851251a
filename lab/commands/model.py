# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem model`: the protocol of Stop and Go as a model, and recordings of machines beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.command_line.options import JsonOption, takes

if TYPE_CHECKING:
    from lab.protocol.check import Plan

BOOTS_MAX = 6


@dataclass(frozen=True)
class ModelWords:
    """The command line as typed."""

    boots: Annotated[
        int, typer.Option(help="Power-ons and resets of a machine.", min=1, max=BOOTS_MAX)
    ] = 4
    mutants: Annotated[bool, typer.Option(help="Check also that each planted bug is found.")] = True
    recording: Annotated[
        list[Path] | None,
        typer.Option(
            help="A recorded run, which must be a behaviour of the model; may be repeated."
            " Default: those of campaigns that are kept.",
            metavar="DIR",
        ),
    ] = None
    as_json: JsonOption = False


def check(words: ModelWords) -> Plan:
    """The plan, or UsageError."""
    from lab.commands.campaign import checked_recordings
    from lab.protocol.check import Plan

    given = checked_recordings(words.recording) if words.recording else kept_recordings()
    return Plan(boots=words.boots, mutants=words.mutants, recordings=given)


def kept_recordings() -> tuple[Path, ...]:
    """Complete recordings of machines that `rem campaign` has made and kept."""
    from lab.campaign.command import COMPLETE
    from lab.paths import state_dir

    return tuple(sorted(path.parent for path in (state_dir() / "campaign").glob(f"*/{COMPLETE}")))


@takes(ModelWords)
def model_command(words: ModelWords) -> int:
    """Look at every state of the protocol, over every cut.

    The model is of machines whose power fails at any step: with volatile caches or a volatile
    memory controller, with an NVDIMM, with power that flaps, with media that fails, with parts
    that are exchanged. Exit 0 only if no promise is broken, each planted bug breaks the one that
    it names, and each recording is a behaviour of the model.
    """
    from lab.commands.campaign import print_result
    from lab.protocol.check import run_plan

    return print_result(run_plan(check(words)), words.as_json)


def register(app: typer.Typer) -> None:
    app.command("model")(model_command)
