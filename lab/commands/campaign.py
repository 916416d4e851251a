# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem campaign`: check cuts at any place of a run, by the thousand."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from lab.command_line.options import JsonOption, takes
from lab.errors import Exit, UsageError
from lab.isa import ISA_NAMES, IsaName
from lab.messages import info
from lab.result import Result

if TYPE_CHECKING:
    from lab.campaign.command import Plan
    from lab.testbed.machines import FirmwareName

IMAGES = {"full": 2_000, "soak": 1_000_000}
SOAK_MINUTES = 90.0  # of power cycles; planted bugs take the rest of two hours
DISK_CACHES = ("volatile", "claimed")
FIRMWARES = ("direct", "uefi")
MEMTYPES = ("nvram", "mixed")
PERSIST = ("disk", "memory", "flushes")
OF_PM = ("pm", "seed", "mutants", "as_json")
OF_HEAP = ("heap", "mutants", "as_json")
MUTANTS = {"full": "five", "soak": "all"}


@dataclass(frozen=True)
class SourceWords:
    """What is checked."""

    recording: Annotated[
        list[Path] | None,
        typer.Option(help="A recorded run to check; may be repeated.", metavar="DIR"),
    ] = None
    model: Annotated[
        bool, typer.Option("--model", help="Check the model of the protocol, not a machine.")
    ] = False
    pm: Annotated[
        bool,
        typer.Option(
            "--pm",
            help="Check persistent memory (pm/) instead: a guest that works with segments and"
            " blocks, and its planted bugs.",
        ),
    ] = False
    heap: Annotated[
        bool,
        typer.Option(
            "--heap",
            help="Check a persistent heap (heap/) instead: a guest whose heap is in persistent"
            " memory, without Stop, and its planted bugs.",
        ),
    ] = False


@dataclass(frozen=True)
class MachineWords:
    """The machine that is recorded, and its work."""

    workload: Annotated[
        str | None,
        typer.Option(
            help="Your own program, with its arguments, to run in the guest; each line it prints"
            " is a promise.",
            metavar="COMMAND",
        ),
    ] = None
    check: Annotated[
        str | None,
        typer.Option(
            help="The program that checks a guest after a boot; it reads the promises.",
            metavar="COMMAND",
        ),
    ] = None
    caches: Annotated[
        str | None,
        typer.Option(
            help="Profile of the caches of the machine that is recorded; default wsp-d510. On"
            " wsp-x5650-none the memory controller's queue is lost with the power.",
            metavar="PROFILE",
        ),
    ] = None
    disk_cache: Annotated[
        str,
        typer.Option(
            help="The disk's write cache: volatile, or claimed (volatile, but described to the"
            " machine as protected: a negative proof)."
        ),
    ] = "volatile"
    arch: Annotated[str, typer.Option(help=f"{' or '.join(ISA_NAMES)}.", metavar="ISA")] = "x86_64"
    firmware: Annotated[
        str,
        typer.Option(
            help="What starts the loader of the machine that is recorded, and of those that are"
            " booted: direct (QEMU itself) or uefi."
        ),
    ] = "direct"
    memtype: Annotated[
        str,
        typer.Option(
            help="nvram, or mixed: DRAM caches NVRAM, and the workload is one that knows what each"
            " page of its memory and of a file has to hold, and planted bugs are those of this"
            " part."
        ),
    ] = "nvram"
    persist: Annotated[
        str,
        typer.Option(
            help="Where fsync ends: disk, or memory: then the workload is one that remembers each"
            " fsync that has ended, and planted bugs are those of this part. flushes: those of the"
            " disk end in memory, too, and the workload makes new files."
        ),
    ] = "disk"


@dataclass(frozen=True)
class AmountWords:
    """How much is checked, and by whom."""

    tier: Annotated[
        str,
        typer.Option(
            help="full: 2,000 images of one run; soak: 1,000,000 of many, or as many as 90 min"
            " allow."
        ),
    ] = "full"
    images: Annotated[
        int | None, typer.Option(help="Distinct images, instead of the tier's.", min=1)
    ] = None
    seed: Annotated[int, typer.Option(help="Chooses the cuts.")] = 1
    boots: Annotated[
        int | None,
        typer.Option(
            help="Images of a run that are booted; default 60. In tier soak one of each class,"
            " up to 1,000, and one in a hundred of those that are resumed.",
            min=0,
        ),
    ] = None
    whole: Annotated[
        int | None,
        typer.Option(
            help="Of those, boots to the end: guest, promises and file system; the others end when"
            " the loader has decided. Default all, in tier soak 2 of each cycle.",
            min=0,
        ),
    ] = None
    mutants: Annotated[
        str | None,
        typer.Option(
            help="Planted bugs of kernel and loader: all, five (by commit), none, or names."
            " Default five, or all in tier soak, with --memtype mixed and where fsync ends in"
            " memory; none with --model or --recording, and where caches survive.",
            metavar="NAMES",
        ),
    ] = None
    minutes: Annotated[
        float | None,
        typer.Option(help="End after so long; 90 in tier soak. The same command continues.", min=1),
    ] = None
    scheduler: Annotated[
        str | None, typer.Option(help="Workers of this Dask scheduler.", metavar="ADDRESS")
    ] = None


@dataclass(frozen=True)
class CampaignWords:
    """The command line as typed."""

    context: typer.Context
    source: SourceWords = field(default_factory=SourceWords)
    amount: AmountWords = field(default_factory=AmountWords)
    machine: MachineWords = field(default_factory=MachineWords)
    results: Annotated[
        Path | None,
        typer.Option(help="SQLite file of results; an existing one is continued.", metavar="FILE"),
    ] = None
    page: Annotated[
        Path | None, typer.Option(help="Where to write the report.", metavar="FILE")
    ] = None
    as_json: JsonOption = False


def check(words: CampaignWords) -> Plan:
    """A campaign of a machine or of the model, checked; or UsageError."""
    source, amount, machine = words.source, words.amount, words.machine
    if amount.tier not in IMAGES:
        raise UsageError(f"--tier {amount.tier}: choose full or soak")
    recordings = checked_recordings(source.recording or [])
    if recordings and source.model:
        raise UsageError("--recording and --model: choose one")
    if (machine.workload is None) != (machine.check is None):
        raise UsageError("--workload and --check go together")
    if machine.disk_cache not in DISK_CACHES:
        raise UsageError(f"--disk-cache {machine.disk_cache}: choose {' or '.join(DISK_CACHES)}")
    if machine.memtype not in MEMTYPES:
        raise UsageError(f"--memtype {machine.memtype}: choose {' or '.join(MEMTYPES)}")
    if machine.arch not in ISA_NAMES:
        raise UsageError(f"--arch {machine.arch}: choose {' or '.join(ISA_NAMES)}")
    if machine.persist not in PERSIST:
        raise UsageError(f"--persist {machine.persist}: choose {' or '.join(PERSIST)}")
    check_firmware(words)
    mixed, persist = machine.memtype == "mixed", machine.persist != "disk"
    keeps = f"--persist {machine.persist}"
    if (mixed or persist) and (recordings or source.model or amount.tier == "soak"):
        option = "--memtype mixed" if mixed else keeps
        raise UsageError(f"{option}: only where one machine is recorded now")
    if mixed and persist:
        raise UsageError(f"--memtype mixed and {keeps}: choose one, each has a workload")
    if persist and machine.workload:
        raise UsageError(f"{keeps} has a workload of its own: leave --workload out")
    other = machine.arch != "x86_64"
    if other and (mixed or persist or recordings or source.model or amount.tier == "soak"):
        raise UsageError(f"--arch {machine.arch}: only where one machine is recorded now")
    if machine.caches and (recordings or source.model):
        given = "--model" if source.model else "--recording"
        raise UsageError(
            f"--caches is of a machine that is recorded now: leave it out with {given}"
        )
    from lab.campaign.command import Plan
    from lab.campaign.workload import Workload

    profile, without_bugs = checked_caches(machine.caches, amount.mutants)
    soak = amount.tier == "soak"
    one_source = bool(recordings or source.model or machine.workload or mixed or persist)
    minutes = amount.minutes or (SOAK_MINUTES if soak else None)
    usual = "none" if one_source or without_bugs else MUTANTS[amount.tier]
    usual = "all" if mixed or persist else usual
    load = None
    if machine.workload and machine.check:
        load = Workload.of(machine.workload, machine.check)
    return Plan(
        recordings=recordings,
        model=source.model,
        images=amount.images or IMAGES[amount.tier],
        seed=amount.seed,
        results=words.results,
        scheduler=amount.scheduler,
        page=words.page,
        limit_s=minutes * 60 if minutes else None,
        boots=amount.boots,
        whole=amount.whole,
        mutants=amount.mutants or usual,
        load=load,
        profile=profile,
        claimed=machine.disk_cache == "claimed",
        mixed=mixed,
        persist=persist,
        flushes=machine.persist == "flushes",
        isa=cast(IsaName, machine.arch),
        firmware=cast("FirmwareName", machine.firmware),
        soak=soak and not one_source,
    )


def check_firmware(words: CampaignWords) -> None:
    """Raise UsageError unless that machine can be made."""
    machine = words.machine
    if machine.firmware not in FIRMWARES:
        raise UsageError(f"--firmware {machine.firmware}: choose {' or '.join(FIRMWARES)}")
    if machine.firmware == "direct":
        return
    others = {
        "--model": words.source.model,
        "--recording, which has its own": bool(words.source.recording),
        f"--arch {machine.arch}": machine.arch != "x86_64",
        "--memtype mixed": machine.memtype == "mixed",
        f"--persist {machine.persist}": machine.persist != "disk",
    }
    for what, given in others.items():
        if given:
            raise UsageError(f"--firmware {machine.firmware}: not with {what}")


def checked_caches(caches: str | None, mutants: str | None) -> tuple[str, bool]:
    """The profile, and whether the caches survive: then nothing needs a flush, and planted bugs of
    flushes are none."""
    from lab.campaign.record import PROFILE
    from lab.machine.caches import caches_survive, check_profile

    profile = check_profile(caches or PROFILE)
    if profile is None:
        raise UsageError("--caches off: a campaign needs a machine with volatile caches")
    survive = caches_survive(profile)
    if survive and mutants not in {None, "none"}:
        raise UsageError(
            f"--caches {profile}: caches that survive hide planted bugs: choose --mutants none"
        )
    return profile, survive


def checked_recordings(recordings: list[Path]) -> tuple[Path, ...]:
    for recording in recordings:
        for name in ("recording.bin", "base.media"):
            if not (recording / name).is_file():
                raise UsageError(f"{recording} has no {name}: name a recording's directory")
    return tuple(recording.absolute() for recording in recordings)


def only_with(context: typer.Context, option: str, known: tuple[str, ...], words: str) -> None:
    """Refuse options that have no effect with --pm or --heap, instead of ignoring them."""
    given = []
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in known and source is not None and source.name == "COMMANDLINE":
            given.append(f"--{name.replace('_', '-')}")
    if given:
        raise UsageError(f"{option} goes with {words} only, not with {', '.join(given)}")


def _pm_campaign(seed: int, mutants: str) -> Result:
    from lab.campaign import pm
    from lab.paths import state_dir

    folder = state_dir() / "campaign" / f"pm-{seed}"
    plan = pm.Asked(folder, f"campaign-pm-{seed}", seed, mutants=pm.chosen(mutants))
    return pm.figures(pm.campaign(plan))


def _heap_campaign(mutants: str) -> Result:
    from lab.campaign import heap
    from lab.paths import state_dir

    folder = state_dir() / "campaign" / "heap"
    return heap.campaign(heap.Asked(folder, "campaign-heap", heap.rows(mutants)))


def print_result(result: Result, as_json: bool) -> int:
    """Print the figures, and return the exit status."""
    for name, figure in result.figures.items():
        value = f"{figure.value:,}" if isinstance(figure.value, int) else figure.value
        info(f"{name:24} {value:>14} {figure.unit:9} {figure.kind}")
    if as_json:
        result.emit()
    return Exit.PASS if result.ok else Exit.BROKEN


@takes(CampaignWords)
def campaign_command(words: CampaignWords) -> int:
    """Cut the power at thousands of places of one run, and check what each cut leaves.

    A machine with volatile caches resumes, works and stops; that run is recorded, unless
    --recording or --model names what to check instead.

    No image is booted for that: the loader's own code decides, and an image that would be
    entered is compared with what was committed, line by line. Exit 0 only if no cut broke an
    invariant and every planted bug was found.
    """
    mutants = words.amount.mutants
    if words.source.pm:
        only_with(words.context, "--pm", OF_PM, "--seed and --mutants")
        return print_result(_pm_campaign(words.amount.seed, mutants or "all"), words.as_json)
    if words.source.heap:
        only_with(words.context, "--heap", OF_HEAP, "--mutants")
        return print_result(_heap_campaign(mutants or "all"), words.as_json)
    from lab.campaign.command import run

    plan = check(words)
    result = run(plan)
    # Of a soak no recording is left; the model's are none of a machine.
    if not plan.model and not plan.soak:
        from lab.paths import state_dir
        from lab.protocol.check import add_traces

        made = state_dir() / "campaign" / f"{plan.name}-{plan.seed}"
        add_traces(result, plan.recordings or (made,))
    return print_result(result, words.as_json)


def register(app: typer.Typer) -> None:
    app.command("campaign")(campaign_command)
