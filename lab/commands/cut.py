# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem cut`: cut the power of a running machine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from lab.command_line.options import DEFAULT_NAME, JsonOption, NameOption, takes
from lab.errors import Exit, UsageError
from lab.machine.client import supervised
from lab.machine.control import request
from lab.machine.cut_plan import CutPlan
from lab.machine.places import STOP_PHASES, Place
from lab.machine.status import cut_line
from lab.messages import info


@dataclass(frozen=True)
class CutWords:
    """The command line as typed."""

    name: NameOption = DEFAULT_NAME
    hold_up: Annotated[
        str | None,
        typer.Option(
            "--hold-up",
            help="From PWR_OK dropping to the loss of power: guest time such as 17ms, or a supply;"
            " default 60s.",
            metavar="TIME|SUPPLY",
        ),
    ] = None
    immediate: Annotated[
        bool, typer.Option("--immediate", help="No announcement and no hold-up.")
    ] = False
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            help="Where in Stop the hold-up ends, in instructions after a phase begins: "
            f"{', '.join(STOP_PHASES)}. For machines with --cut-points or --icount.",
            metavar="PHASE+N",
        ),
    ] = None
    at_store: Annotated[
        int | None,
        typer.Option(
            "--at-store",
            help="The hold-up ends right after this store to NVRAM. Needs --caches.",
            metavar="K",
        ),
    ] = None
    no_flush: Annotated[
        str | None,
        typer.Option(
            "--no-flush",
            help="Which flushes of Stop have no effect: data (all but the record's), all, "
            "others (WBINVD of all CPUs but the first), invd (WBINVD drops). Needs --caches.",
            metavar="WHICH",
        ),
    ] = None
    as_json: JsonOption = False


def check(words: CutWords) -> CutPlan:
    """A plan that a machine can follow, or UsageError."""
    if words.at_store is not None and (words.immediate or words.at is not None):
        raise UsageError("--at-store cannot be combined with --at or --immediate")
    if words.no_flush is not None and words.immediate:
        raise UsageError("--no-flush cannot be combined with --immediate, which has no Stop")
    if words.at is not None and (words.immediate or words.hold_up is not None):
        raise UsageError("--at cannot be combined with --hold-up or --immediate")
    if words.immediate:
        return CutPlan(announced=False)
    from lab.power.hold_up import hold_up_ns, is_time

    supply = words.hold_up if words.hold_up and not is_time(words.hold_up) else None
    return CutPlan(
        hold_up_ns=None if words.hold_up is None else hold_up_ns(words.hold_up, "--hold-up"),
        place=None if words.at is None else Place.parse(words.at, STOP_PHASES, "--at"),
        at_store=words.at_store,
        no_flush=words.no_flush,
        supply=supply,
    )


def _loss_exit(record: dict[str, Any]) -> Exit:
    """With flushes that have no effect: PASS if lines were lost and both checks found it."""
    from lab.machine.caches import is_lost

    caches = record["caches"]
    if not is_lost(caches):
        info("rem: nothing was lost, or the loss was not detected: the proof has failed")
        return Exit.BROKEN
    info(
        f"rem: {caches['lost_lines']} lines that a flush should have written are not on media; "
        f"their digest is {caches['digest_media']:016x} there and was {caches['digest_due']:016x}"
    )
    return Exit.PASS


@takes(CutWords)
def cut_command(words: CutWords) -> int:
    """Cut the power: PWR_OK drops, the hold-up runs, then QEMU is killed with SIGKILL.

    The exit code is 1 if the machine was given a hold-up and did not commit within it, or if
    the place to cut at was not reached. With --no-flush it is 0 only if lines were lost and the
    loss was detected.
    """
    plan = check(words)
    record = request(supervised(words.name), "cut", **plan.to_message())
    info(f"rem: {cut_line(record)}")
    if words.as_json:
        print(json.dumps(record))
    if plan.no_flush is not None:
        return _loss_exit(record)
    as_planned = record["stopped"] if plan.ends_at is None else record["place"] is not None
    return Exit.PASS if as_planned or not plan.announced else Exit.BROKEN


def register(app: typer.Typer) -> None:
    app.command("cut")(cut_command)
