# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What `rem campaign` does, step by step."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.campaign import boots, chain, figures, mutants, runner, shrink, workload
from lab.campaign import engine as program
from lab.campaign.page import page
from lab.campaign.record import PROFILE, Recorded, free_enough, record
from lab.campaign.store import Store
from lab.campaign.workload import Workload
from lab.errors import UsageError
from lab.paths import repo_dir, state_dir
from lab.result import Result
from lab.run import run as run_program
from lab.say import say
from lab.setup.campaign import ensure_campaign
from lab.setup.progress import Progress

# Each kind of violation at each place is shrunk once, and so many altogether.
SHRUNK_MAX = 10
ROTATION = 5
BOOTS = 60  # of one run
SOAK_WHOLE = 2  # of a cycle
RATIO_BOOTS_MIN = 30
COMPLETE = "complete"  # in a recording's directory


@dataclass(frozen=True)
class Asked:
    """The command line, checked. No recordings: the model's, or a machine's, recorded now."""

    recordings: tuple[Path, ...]
    model: bool
    images: int
    seed: int
    results: Path | None
    scheduler: str | None
    page: Path | None
    limit_s: float | None
    boots: int | None  # None: as the tier has it
    whole: int | None  # of the boots, to the end
    mutants: str
    load: Workload | None = None  # not said: the standard one
    profile: str = PROFILE
    claimed: bool = False
    soak: bool = False  # a chain of cycles instead of one

    @property
    def name(self) -> str:
        """Of what is recorded; short, as it is the name of a machine, too."""
        words = [self.load.name] if self.load else ["run"]
        words += [self.profile] if self.profile != PROFILE else []
        words += ["claimed"] if self.claimed else []
        return "-".join(words)


def run(asked: Asked) -> Result:
    engine = ensure_campaign(Progress())
    folder = state_dir() / "campaign"
    recordings, name = asked.recordings, "given"
    if asked.model:
        name = "model"
        recordings = tuple(program.synth(engine, folder / f"model-{asked.seed}", asked.seed))
    elif not recordings:
        name = "soak" if asked.soak else asked.name
        if not asked.soak:
            recordings = (_recorded(asked, folder / f"{name}-{asked.seed}"),)
    store = Store(asked.results or folder / f"{name}-{asked.seed}.sqlite")
    try:
        booted = _soak(asked, engine, folder / "soak", store) if asked.soak else []
        if recordings:
            booted = _judge(asked, engine, recordings, store)
        found = mutants.run_model(engine, asked.seed)
        found += mutants.run_machine(engine, folder, chosen_mutants(asked), asked.seed)
        result = count(store, found, booted)
        broken = small(engine, store)
        target = asked.page or store.path.with_suffix(".html")
        target.write_text(page(store, result, broken), encoding="utf-8")
        say(f"campaign: results in {store.path}, report in {target}")
        return result
    finally:
        store.close()


def _judge(
    asked: Asked, engine: Path, recordings: tuple[Path, ...], store: Store
) -> list[boots.Booted]:
    plan = runner.Plan(
        engine=engine,
        recordings=recordings,
        images=asked.images,
        seed=asked.seed,
        scheduler=asked.scheduler,
        limit_s=asked.limit_s,
    )
    runner.run(plan, store)
    count = BOOTS if asked.boots is None else asked.boots
    whole = count if asked.whole is None else asked.whole
    return [
        boots.boot_all(engine, store, recording, f"campaign-boot-{asked.seed}", count, whole)
        for recording in recordings
        if count and boots.bootable(recording)
    ]


def _soak(asked: Asked, engine: Path, folder: Path, store: Store) -> list[boots.Booted]:
    assert asked.limit_s is not None
    soak = chain.Soak(
        engine=engine,
        folder=folder,
        images=asked.images,
        seed=asked.seed,
        limit_s=asked.limit_s,
        boots=asked.boots,
        whole=SOAK_WHOLE if asked.whole is None else asked.whole,
        scheduler=asked.scheduler,
        profile=asked.profile,
    )
    return chain.run(soak, store)


def _recorded(asked: Asked, directory: Path) -> Path:
    """A run of a machine; one that was recorded whole is gone on with."""
    load = asked.load or workload.standard()
    if (directory / COMPLETE).exists():
        if (other := Workload.read(directory)) != load:
            raise UsageError(
                f"{directory} is a run of another workload ({shlex.join(other.workload)}, checked"
                f" by {shlex.join(other.check)}): remove it, or take another --seed"
            )
        say(f"campaign: goes on with the run in {directory}; remove it to record another")
        return directory
    shutil.rmtree(directory, ignore_errors=True)
    free_enough(directory)
    record(
        Recorded(
            directory,
            f"campaign-{asked.seed}",
            load=load,
            profile=asked.profile,
            claimed=asked.claimed,
        )
    )
    (directory / COMPLETE).touch()
    return directory


def chosen_mutants(asked: Asked) -> list[str]:
    """Bugs of the machine: none where only the model or an old recording is judged."""
    names = mutants.machine_mutants()
    if asked.mutants in {"all", "none"}:
        return names if asked.mutants == "all" else []
    if asked.mutants == "five":
        done = run_program(["git", "rev-parse", "HEAD"], cwd=repo_dir(), check=False)
        return mutants.rotation(names, done.stdout.strip(), ROTATION)
    unknown = [name for name in asked.mutants.split(",") if name not in names]
    if unknown:
        raise UsageError(f"--mutants {unknown[0]}: choose all, five, none or {', '.join(names)}")
    return asked.mutants.split(",")


def count(store: Store, found: list[mutants.Found], booted: list[boots.Booted]) -> Result:
    """The figures; the mix is told where it is not what an honest campaign has."""
    result = Result("campaign")
    violations = int(store.scalar("SELECT count(*) FROM image WHERE verdict = 'violation'"))
    missed = sum(item.missed for item in found)
    by_other = sum(item.found_by_other for item in found)
    made = int(store.scalar("SELECT coalesce(sum(made), 0) FROM slice"))
    result.add("images", store.images(), "images", "counted")
    result.add("made", made, "images", "counted")
    result.add(
        "classes", int(store.scalar("SELECT count(DISTINCT class) FROM image")), "", "counted"
    )
    result.add("violations", violations, "images", "counted")
    result.add("mutants", len(found), "", "counted")
    result.add("mutants_missed", missed, "", "counted")
    result.add("found_by_other", by_other, "", "counted")
    rate = figures.images_per_s(store)
    result.add("images_per_s", round(rate, 1), "1/s", "native")
    _count_boots(store, result, booted)
    shares = figures.mix(store)
    for line in shares.missing():
        say(f"campaign: {line}")
    result.add("mix_missing", len(shares.missing()), "shares", "counted")
    result.ok = violations == missed == by_other == 0 and store.disagreements() == 0
    return result


def _count_boots(store: Store, result: Result, booted: list[boots.Booted]) -> None:
    """Real boots, and what one costs beside a judgement; the way to the cut would make it more.

    Those of all sessions; those to the end, and what they cost, of this one.
    """
    result.add("booted", store.booted(), "images", "counted")
    whole = sum(item.whole for item in booted)
    result.add("booted_whole", whole, "images", "counted")
    result.add("disagreements", store.disagreements(), "images", "counted")
    unbooted = sum(item.classes_unbooted for item in booted)
    result.add("classes_unbooted", unbooted, "", "counted")
    judged_s = float(store.scalar("SELECT coalesce(sum(cpu_ns), 0) FROM slice")) / 1e9
    if whole >= RATIO_BOOTS_MIN and judged_s:
        boot_s = sum(item.cpu_s for item in booted) / whole
        ratio = boot_s / (judged_s / store.images())
        result.add("vs_reboot_replay", round(ratio, 1), "times", "native")


def small(engine: Path, store: Store) -> list[dict[str, str]]:
    """One command for each kind of violation at each place."""
    told: dict[tuple[str, str], dict[str, str]] = {}
    for recording, event, eviction, place, broken in figures.violations(store):
        key = (place, broken.split(" ")[0])
        if key in told or len(told) >= SHRUNK_MAX:
            continue
        again = shrink.replayed_small(engine, Path(recording), event, eviction)
        line = shrink.command(Path(recording), event, again["evict"])
        told[key] = {"broken": broken, "place": place, "command": line}
        say(f"campaign: {broken} in {place}: {line}")
    return list(told.values())
