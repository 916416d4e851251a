# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem campaign`: judge cuts at any place of a run, by the thousand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.errors import Exit, UsageError
from lab.machine.options import JsonOption
from lab.result import Result
from lab.say import say

IMAGES = {"full": 2_000, "soak": 1_000_000}
SOAK_MIN = 90.0  # of power cycles; planted bugs take the rest of two hours
DISK_CACHES = ("volatile", "claimed")
OF_PM = ("pm", "seed", "mutants", "as_json")
OF_HEAP = ("heap", "mutants", "as_json")
MUTANTS = {"full": "five", "soak": "all"}

MinutesOption = Annotated[
    float | None,
    typer.Option(help="End after so long; 90 in tier soak. The same command goes on.", min=1),
]
WorkloadOption = Annotated[
    str | None,
    typer.Option(
        help="A program of yours, with its arguments, to be at work in the guest; each line"
        " it prints is a promise.",
        metavar="COMMAND",
    ),
]
CheckOption = Annotated[
    str | None,
    typer.Option(
        help="The program that judges a guest after a boot; it reads the promises.",
        metavar="COMMAND",
    ),
]
CachesOption = Annotated[
    str, typer.Option(help="Profile of the recorded machine's caches.", metavar="PROFILE")
]
DiskCacheOption = Annotated[
    str,
    typer.Option(
        help="The disk's write cache: volatile, or claimed (volatile, and the machine is"
        " told that it survives: a proof that the loss is found)."
    ),
]
MutantsOption = Annotated[
    str | None,
    typer.Option(
        help="Planted bugs of kernel and loader: all, five (by commit), none, or names."
        " Not said: five, or all in tier soak; none with --model or --recording.",
        metavar="NAMES",
    ),
]
PmOption = Annotated[
    bool,
    typer.Option(
        "--pm",
        help="Judge persistent memory (pm/) instead: a guest in which segments and blocks are"
        " worked with, and its planted bugs.",
    ),
]
HeapOption = Annotated[
    bool,
    typer.Option(
        "--heap",
        help="Judge a persistent heap (heap/) instead: a guest whose heap lies in persistent"
        " memory, without Stop, and its planted bugs.",
    ),
]
BootsOption = Annotated[
    int | None,
    typer.Option(
        help="Images of a run that are booted; if not said 60. In tier soak one of each class,"
        " up to 1,000, and of those that are resumed one in a hundred.",
        min=0,
    ),
]
WholeOption = Annotated[
    int | None,
    typer.Option(
        help="Of those, to the end: guest, promises and file system; the others end when the"
        " loader has decided. If not said all, in tier soak 2 of each.",
        min=0,
    ),
]


def checked_recordings(recordings: list[Path]) -> tuple[Path, ...]:
    for recording in recordings:
        for name in ("recording.bin", "base.media"):
            if not (recording / name).is_file():
                raise UsageError(f"{recording}: no {name} there; name a recording's directory")
    return tuple(recording.absolute() for recording in recordings)


def only_with(context: typer.Context, option: str, known: tuple[str, ...], words: str) -> None:
    """Options that --pm and --heap have no use for are refused, not passed over."""
    said = []
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in known and source is not None and source.name == "COMMANDLINE":
            said.append(f"--{name.replace('_', '-')}")
    if said:
        raise UsageError(f"{option} goes with {words} only, not with {', '.join(said)}")


def register(app: typer.Typer) -> None:
    @app.command("campaign")
    def campaign_command(  # noqa: PLR0917 - the options of a command, given by name
        context: typer.Context,
        recording: Annotated[
            list[Path] | None,
            typer.Option(help="A recorded run to judge; may be given again.", metavar="DIR"),
        ] = None,
        model: Annotated[
            bool, typer.Option("--model", help="Judge the model of the protocol, not a machine.")
        ] = False,
        tier: Annotated[
            str,
            typer.Option(
                help="full: 2,000 images of one run; soak: 1,000,000 of many, or what 2 h reach."
            ),
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
        boots: BootsOption = None,
        whole: WholeOption = None,
        mutants: MutantsOption = None,
        minutes: MinutesOption = None,
        workload: WorkloadOption = None,
        check: CheckOption = None,
        caches: CachesOption = "wsp-d510",
        disk_cache: DiskCacheOption = "volatile",
        pm: PmOption = False,
        heap: HeapOption = False,
        as_json: JsonOption = False,
    ) -> int:
        """Cut the power at thousands of places of one run, and judge what each cut leaves.

        A machine with volatile caches resumes, works and stops; that run is recorded, unless
        --recording or --model says what to judge instead.

        No image is booted for that: the loader's own code decides, and an image that would be
        entered is compared with what was committed, line by line. Exit 0 only if no cut broke an
        invariant and every planted bug was found.
        """
        if pm:
            only_with(context, "--pm", OF_PM, "--seed and --mutants")
            return _told(_of_pm(seed, mutants or "all"), as_json)
        if heap:
            only_with(context, "--heap", OF_HEAP, "--mutants")
            return _told(_of_heap(mutants or "all"), as_json)
        if tier not in IMAGES:
            raise UsageError(f"--tier {tier}: choose full or soak")
        given = checked_recordings(recording or [])
        limit_min = minutes or (SOAK_MIN if tier == "soak" else None)
        if given and model:
            raise UsageError("--recording and --model: choose one")
        if (workload is None) != (check is None):
            raise UsageError("--workload and --check go together")
        if disk_cache not in DISK_CACHES:
            raise UsageError(f"--disk-cache {disk_cache}: choose {' or '.join(DISK_CACHES)}")
        from lab.campaign.command import Asked, run
        from lab.campaign.workload import Workload
        from lab.machine.caches import check_profile

        profile = check_profile(caches)
        if profile is None:
            raise UsageError("--caches off: a campaign is of a machine with volatile caches")
        asked = Asked(
            recordings=given,
            model=model,
            images=images or IMAGES[tier],
            seed=seed,
            results=results,
            scheduler=scheduler,
            page=page,
            limit_s=limit_min * 60 if limit_min else None,
            boots=boots,
            whole=whole,
            mutants=mutants or ("none" if given or model or workload else MUTANTS[tier]),
            load=Workload.of(workload, check) if workload and check else None,
            profile=profile,
            claimed=disk_cache == "claimed",
            soak=tier == "soak" and not (given or model or workload),
        )
        return _told(run(asked), as_json)


def _of_pm(seed: int, mutants: str) -> Result:
    from lab.campaign import pm
    from lab.paths import state_dir

    folder = state_dir() / "campaign" / f"pm-{seed}"
    asked = pm.Asked(folder, f"campaign-pm-{seed}", seed, mutants=pm.chosen(mutants))
    return pm.figures(pm.campaign(asked))


def _of_heap(mutants: str) -> Result:
    from lab.campaign import heap
    from lab.paths import state_dir

    folder = state_dir() / "campaign" / "heap"
    return heap.campaign(heap.Asked(folder, "campaign-heap", heap.rows(mutants)))


def _told(result: Result, as_json: bool) -> int:
    for name, figure in result.figures.items():
        value = f"{figure.value:,}" if isinstance(figure.value, int) else figure.value
        say(f"{name:24} {value:>14} {figure.unit:9} {figure.kind}")
    if as_json:
        result.emit()
    return Exit.PASS if result.ok else Exit.BROKEN
