# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The steps of `rem campaign`."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.campaign import boots, chain, figures, mixed, mutants, persist, runner, shrink, workload
from lab.campaign import engine as program
from lab.campaign.page import page
from lab.campaign.record import PROFILE, Recorded, free_enough, record
from lab.campaign.store import Store
from lab.campaign.workload import Workload
from lab.errors import UsageError
from lab.isa import IsaName
from lab.messages import info
from lab.paths import state_dir
from lab.result import Result
from lab.setup.campaign import Campaign
from lab.setup.products import need
from lab.testbed.machines import FirmwareName
from lab.turns import head, rotation

# Each kind of violation at each place is shrunk once, and at most so many in all.
SHRUNK_MAX = 10
ROTATION = 5
BOOTS = 60  # of one run
SOAK_WHOLE = 2  # of a cycle
RATIO_BOOTS_MIN = 30
COMPLETE = "complete"  # in a recording's directory


@dataclass(frozen=True)
class Plan:
    """The command line, checked. Without recordings: the model's, or a machine's, recorded now."""

    recordings: tuple[Path, ...]
    model: bool
    images: int
    seed: int
    results: Path | None
    scheduler: str | None
    page: Path | None
    limit_s: float | None
    boots: int | None  # None: the tier's number
    whole: int | None  # of the boots, to the end
    mutants: str
    load: Workload | None = None  # None: the standard one
    profile: str = PROFILE
    claimed: bool = False
    mixed: bool = False
    persist: bool = False  # fsync ends in memory
    flushes: bool = False  # and the disk's flushes do
    isa: IsaName = "x86_64"
    firmware: FirmwareName = "direct"
    soak: bool = False  # a chain of cycles instead of one

    @property
    def name(self) -> str:
        """The name of the recording; short, as it is also the name of a machine."""
        words = [self.load.name] if self.load else ["run"]
        words += [self.isa] if self.isa != "x86_64" else []
        words += [self.firmware] if self.firmware != "direct" else []
        words += [self.profile] if self.profile != PROFILE else []
        words += ["claimed"] if self.claimed else []
        words += ["mixed"] if self.mixed else []
        words += ["persist"] if self.persist else []
        words += ["flushes"] if self.flushes else []
        return "-".join(words)

    @property
    def soak_name(self) -> str:
        """The name of a chain, whose machines have many workloads."""
        return "soak" if self.firmware == "direct" else f"soak-{self.firmware}"


def run(plan: Plan) -> Result:
    engine = need(Campaign())
    folder = state_dir() / "campaign"
    recordings, name = plan.recordings, "given"
    if plan.model:
        name = "model"
        recordings = tuple(program.synth(engine, folder / f"model-{plan.seed}", plan.seed))
    elif not recordings:
        name = plan.soak_name if plan.soak else plan.name
        if not plan.soak:
            recordings = (_recorded(plan, folder / f"{name}-{plan.seed}"),)
    store = Store(plan.results or folder / f"{name}-{plan.seed}.sqlite")
    try:
        booted = _soak(plan, engine, folder / name, store) if plan.soak else []
        if recordings:
            booted = _check(plan, engine, recordings, store)
        result = count(store, _planted(plan, engine, folder), booted)
        if plan.persist:
            result.add("lost_fsynced", persist.lost(booted), "images", "counted")
        if not plan.model and not plan.recordings:  # these need not have every place
            count_mix(store, result)
        broken = small(engine, store)
        target = plan.page or store.path.with_suffix(".html")
        target.write_text(page(store, result, broken), encoding="utf-8")
        info(f"campaign: results in {store.path}, report in {target}")
        return result
    finally:
        store.close()


def _planted(plan: Plan, engine: Path, folder: Path) -> list[mutants.Found]:
    """What is found of planted bugs, after a run without any."""
    names = chosen_mutants(plan)
    if plan.persist:
        return persist.run_mutants(engine, folder, names, plan.seed, flushes=plan.flushes)
    if plan.mixed:
        return mixed.run_mutants(names, plan.seed)
    found = mutants.run_model(engine, plan.seed)
    board = mutants.Board(plan.profile, plan.isa, plan.firmware)
    return found + mutants.run_machine(engine, folder, names, plan.seed, board)


def _check(
    plan: Plan, engine: Path, recordings: tuple[Path, ...], store: Store
) -> list[boots.Booted]:
    rounds = runner.Plan(
        engine=engine,
        recordings=recordings,
        images=plan.images,
        seed=plan.seed,
        scheduler=plan.scheduler,
        limit_s=plan.limit_s,
    )
    runner.run(rounds, store)
    count = BOOTS if plan.boots is None else plan.boots
    amount = boots.BootPlan(count, count if plan.whole is None else plan.whole)
    return [
        boots.boot_all(engine, store, recording, f"campaign-boot-{plan.seed}", amount)
        for recording in recordings
        if count and boots.bootable(recording)
    ]


def _soak(plan: Plan, engine: Path, folder: Path, store: Store) -> list[boots.Booted]:
    assert plan.limit_s is not None
    soak = chain.Soak(
        engine=engine,
        folder=folder,
        images=plan.images,
        seed=plan.seed,
        limit_s=plan.limit_s,
        boots=plan.boots,
        whole=SOAK_WHOLE if plan.whole is None else plan.whole,
        scheduler=plan.scheduler,
        profile=plan.profile,
        firmware=plan.firmware,
    )
    return chain.run(soak, store)


def _recorded(plan: Plan, directory: Path) -> Path:
    """Record a run of a machine; a complete recording is used again."""
    load = plan.load or _load(plan)
    if (directory / COMPLETE).exists():
        if (other := Workload.read(directory)) != load:
            raise UsageError(
                f"{directory} is a run of another workload ({shlex.join(other.workload)}, checked"
                f" by {shlex.join(other.check)}): remove it, or take another --seed"
            )
        info(f"campaign: using the run in {directory}; remove it to record another")
        return directory
    shutil.rmtree(directory, ignore_errors=True)
    free_enough(directory)
    record(
        Recorded(
            directory,
            f"campaign-{plan.seed}",
            load=load,
            profile=plan.profile,
            claimed=plan.claimed,
            mixed=plan.mixed,
            persist=plan.persist,
            flushes=plan.flushes,
            isa=plan.isa,
            firmware=plan.firmware,
        )
    )
    (directory / COMPLETE).touch()
    return directory


def _load(plan: Plan) -> workload.Workload:
    if plan.mixed:
        return mixed.load()
    return persist.load(flushes=plan.flushes) if plan.persist else workload.standard()


def _bugs(plan: Plan) -> list[str]:
    """Those that the machine of the plan can have."""
    if plan.mixed:
        return list(mixed.NAMES)
    if plan.persist:
        return list(persist.FLUSH_BUGS if plan.flushes else persist.NAMES)
    return mutants.machine_mutants(plan.isa)


def chosen_mutants(plan: Plan) -> list[str]:
    """The planted bugs of kernel and loader that the plan names."""
    names = _bugs(plan)
    if plan.mutants in {"all", "none"}:
        return names if plan.mutants == "all" else []
    if plan.mutants == "five":
        return rotation(names, head(), ROTATION)
    unknown = [name for name in plan.mutants.split(",") if name not in names]
    if unknown:
        raise UsageError(f"--mutants {unknown[0]}: choose all, five, none or {', '.join(names)}")
    return plan.mutants.split(",")


def count(store: Store, found: list[mutants.Found], booted: list[boots.Booted]) -> Result:
    """The figures, and whether every check passed."""
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
    unseen = figures.unseen_lines(store)
    result.add("unseen_lines", unseen, "lines", "counted")
    rate = figures.images_per_s(store)
    result.add("images_per_s", round(rate, 1), "1/s", "native")
    _count_boots(store, result, booted)
    result.ok = violations == missed == by_other == unseen == 0 and store.disagreements() == 0
    return result


def count_mix(store: Store, result: Result) -> None:
    """Kinds of images that are underrepresented: each is reported, and the campaign fails."""
    missing = figures.mix(store).missing()
    for line in missing:
        info(f"campaign: {line}")
    result.add("mix_missing", len(missing), "shares", "counted")
    result.ok = result.ok and not missing


def _count_boots(store: Store, result: Result, booted: list[boots.Booted]) -> None:
    """Real boots, and the cost of one compared with a check, without the way to the cut.

    Boots are of all sessions; boots to the end and their cost are of this one.
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
    found: dict[tuple[str, str], dict[str, str]] = {}
    for recording, event, eviction, place, broken in figures.violations(store):
        key = (place, broken.split(" ")[0])
        if key in found or len(found) >= SHRUNK_MAX:
            continue
        again = shrink.replayed_small(engine, Path(recording), event, eviction)
        line = shrink.command(Path(recording), event, again["evict"])
        found[key] = {"broken": broken, "place": place, "command": line}
        info(f"campaign: {broken} in {place}: {line}")
    return list(found.values())
