# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem campaign`: judge cuts at any place of a run, by the thousand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.errors import Exit, UsageError
from lab.machine.options import JsonOption
from lab.say import say

IMAGES = {"full": 2_000, "soak": 1_000_000}
SOAK_LIMIT_S = 7200.0
BOOTS = 60
MUTANTS = {"full": "five", "soak": "all"}


def checked_recordings(recordings: list[Path]) -> tuple[Path, ...]:
    for recording in recordings:
        for name in ("recording.bin", "base.media"):
            if not (recording / name).is_file():
                raise UsageError(f"{recording}: no {name} there; name a recording's directory")
    return tuple(recording.absolute() for recording in recordings)


def register(app: typer.Typer) -> None:
    @app.command("campaign")
    def campaign_command(  # noqa: PLR0917 - the options of a command, given by name
        recording: Annotated[
            list[Path] | None,
            typer.Option(help="A recorded run to judge; may be given again.", metavar="DIR"),
        ] = None,
        model: Annotated[
            bool, typer.Option("--model", help="Judge the model of the protocol, not a machine.")
        ] = False,
        tier: Annotated[
            str, typer.Option(help="full: 2,000 images; soak: 1,000,000, or what 2 h reach.")
        ] = "full",
        images: Annotated[
            int | None, typer.Option(help="Distinct images, instead of the tier's.", min=1)
        ] = None,
        seed: Annotated[int, typer.Option(help="Chooses the cuts.")] = 1,
        results: Annotated[
            Path | None,
            typer.Option(help="SQLite file; one that is there is gone on with.", metavar="FILE"),
        ] = None,
        scheduler: Annotated[
            str | None, typer.Option(help="Workers of this Dask scheduler.", metavar="ADDRESS")
        ] = None,
        page: Annotated[
            Path | None, typer.Option(help="Where to write the report.", metavar="FILE")
        ] = None,
        boots: Annotated[
            int | None,
            typer.Option(help="Images of a machine's run that are booted; 60 if not said.", min=0),
        ] = None,
        mutants: Annotated[
            str | None,
            typer.Option(
                help="Planted bugs of kernel and loader: all, five (by commit), none, or names."
                " Not said: five, or all in tier soak; none with --model or --recording.",
                metavar="NAMES",
            ),
        ] = None,
        as_json: JsonOption = False,
    ) -> int:
        """Cut the power at thousands of places of one run, and judge what each cut leaves.

        A machine with volatile caches resumes, works and stops; that run is recorded, unless
        --recording or --model says what to judge instead.

        No image is booted for that: the loader's own code decides, and an image that would be
        entered is compared with what was committed, line by line. Exit 0 only if no cut broke an
        invariant and every planted bug was found.
        """
        if tier not in IMAGES:
            raise UsageError(f"--tier {tier}: choose full or soak")
        given = checked_recordings(recording or [])
        if given and model:
            raise UsageError("--recording and --model: choose one")
        from lab.campaign.command import Asked, run

        asked = Asked(
            recordings=given,
            model=model,
            images=images or IMAGES[tier],
            seed=seed,
            results=results,
            scheduler=scheduler,
            page=page,
            limit_s=SOAK_LIMIT_S if tier == "soak" else None,
            boots=BOOTS if boots is None else boots,
            mutants=mutants or ("none" if given or model else MUTANTS[tier]),
        )
        result = run(asked)
        for name, figure in result.figures.items():
            value = f"{figure.value:,}" if isinstance(figure.value, int) else figure.value
            say(f"{name:24} {value:>14} {figure.unit:9} {figure.kind}")
        if as_json:
            result.emit()
        return Exit.PASS if result.ok else Exit.BROKEN
