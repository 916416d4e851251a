# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem cut`: take the power away from a running machine."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from lab.errors import Exit, UsageError
from lab.machine.client import supervised
from lab.machine.control import request
from lab.machine.cut_points import STOP_PHASES
from lab.machine.options import DEFAULT_NAME, JsonOption, NameOption
from lab.machine.status import cut_line
from lab.say import say


def _judge_loss(record: dict[str, Any]) -> int:
    """Flushes had no effect: that must be seen, by the lines that media lacks."""
    from lab.machine.caches import is_lost

    told = record["caches"]
    if not is_lost(told):
        say("rem: nothing was lost, or nobody noticed: the proof has failed")
        return Exit.BROKEN
    say(
        f"rem: {told['lost_lines']} lines that a flush should have written are not on media; "
        f"their digest is {told['digest_media']:016x} there and was {told['digest_due']:016x}"
    )
    return Exit.PASS


def register(app: typer.Typer) -> None:
    @app.command("cut")
    def cut_command(
        name: NameOption = DEFAULT_NAME,
        hold_up: Annotated[
            str | None,
            typer.Option(
                "--hold-up",
                help="From PWR_OK dropping to the loss of power: guest time, 17ms, or a supply.",
                metavar="TIME|SUPPLY",
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
        at_store: Annotated[
            int | None,
            typer.Option(
                "--at-store",
                help="The hold-up ends right after this store to NVRAM. Needs --caches.",
                metavar="K",
            ),
        ] = None,
        no_flush: Annotated[
            str | None,
            typer.Option(
                "--no-flush",
                help="Which flushes of Stop have no effect: data (all but the record's), all, "
                "others (WBINVD of all CPUs but the first), invd (WBINVD drops). Needs --caches.",
                metavar="WHICH",
            ),
        ] = None,
        as_json: JsonOption = False,
    ) -> int:
        """Cut the power: PWR_OK drops, the hold-up runs, then QEMU is killed with SIGKILL.

        The exit code is 1 if the machine was given a hold-up and did not commit within it, or if
        the place to cut at was not reached. With --no-flush it is 0 exactly if lines were lost and
        that was noticed.
        """
        if at_store is not None and (immediate or at is not None):
            raise UsageError("--at-store says where the power goes: give no --at, no --immediate")
        if no_flush is not None and immediate:
            raise UsageError("--no-flush is about Stop, which --immediate leaves out")
        from lab.power.hold_up import hold_up_ns as parse_hold_up
        from lab.power.hold_up import is_time

        if at is not None and (immediate or hold_up is not None):
            raise UsageError("--at says when the hold-up ends: give no --hold-up, no --immediate")
        hold_up_ns = None if hold_up is None else parse_hold_up(hold_up, "--hold-up")
        record = request(
            supervised(name),
            "cut",
            hold_up_ns=hold_up_ns,
            immediate=immediate,
            at=at,
            no_flush=no_flush,
            at_store=at_store,
            supply=None if hold_up is None or is_time(hold_up) else hold_up,
        )
        say(f"rem: {cut_line(record)}")
        if as_json:
            print(json.dumps(record))
        if no_flush is not None:
            return _judge_loss(record)
        has_place = at is not None or at_store is not None
        as_asked = record["place"] is not None if has_place else record["stopped"]
        return Exit.PASS if as_asked or immediate else Exit.BROKEN
