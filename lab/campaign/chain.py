# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A soak: a chain of power cycles, each recorded, checked and removed.

One run has only three hundred to two thousand distinct images that can be entered (the loader has
hardly written yet; Stop has just flushed), so a million images of which a fifth is resumed need
many runs. Here a machine resumes, works and stops repeatedly; each of these cycles begins with the
media that the previous one left, and is a recording of its own. After some cycles another machine
with another workload follows. While a cycle is checked and partly booted, the next is recorded.

A cycle's recording is removed once its results are in the file, unless it has an error. A soak that
was killed continues after the last cycle with complete results, and is refused if kernel, loader,
plugin or engine have changed.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING

from lab.campaign import boots, runner
from lab.campaign.boots import Booted
from lab.campaign.engine import Work
from lab.campaign.record import (
    PROFILE,
    Recorded,
    first_stop,
    fresh,
    machine_config,
    record_cycle,
)
from lab.campaign.store import Store
from lab.campaign.workload import Workload, example, standard
from lab.errors import RemError
from lab.progress import step
from lab.setup.products import Kernel, Loader, Plugin, need
from lab.testbed.machines import FirmwareName

if TYPE_CHECKING:
    from distributed import Client

# Of a round. Further rounds bring hardly any image that is entered, so a cycle ends when little
# more than a fifth of all images are, since the last round brings many that are not.
CUTS = 1_500
ENTERED_SHARE = 0.22
ROUNDS_MIN, ROUNDS_MAX = 2, 12
# If the loader's events overwrite those of an older image, fewer words differ: a machine's first
# two cycles have six times as many images that are entered as its third.
CYCLES_OF_A_MACHINE = 2
WAIT_S = 1.0


def loads() -> list[Workload]:
    """The workloads of the machines of a soak, in turn."""
    return [
        standard(),
        example("sqlite.py", "delete"),
        example("files.py"),
        example("direct.py"),
        example("redis.py"),
        example("sqlite.py", "wal"),
    ]


@dataclass(frozen=True)
class Soak:
    """How much to do, and with what."""

    engine: Path
    folder: Path
    images: int
    seed: int
    limit_s: float
    boots: int | None  # per cycle; None: one of each class, and a share of the resumed images
    whole: int  # of them, to the end
    scheduler: str | None = None
    profile: str = PROFILE
    firmware: FirmwareName = "direct"


class Recorder:
    """A thread that records cycles, one ahead of the checks."""

    def __init__(self, soak: Soak, first: int) -> None:
        self._soak = soak
        self._next = first
        self._cycles: Queue[Path | RemError] = Queue(maxsize=1)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rem-soak", daemon=True)
        self._thread.start()

    def cycles(self) -> Iterator[Path]:
        """Yield recordings; raise an error of the recorder."""
        while True:
            item = self._cycles.get()
            if isinstance(item, RemError):
                raise item
            yield item

    def end(self) -> None:
        """Record no further cycle; return when the machine is destroyed."""
        self._ends.set()
        while self._thread.is_alive():
            with suppress(Empty):
                self._cycles.get(timeout=WAIT_S)
            self._thread.join(WAIT_S)

    def _run(self) -> None:
        try:
            while not self._ends.is_set():
                self._machine()
        except RemError as error:
            self._cycles.put(error)

    def _machine(self) -> None:
        """One machine, from its cold boot through its cycles."""
        turn = self._next // CYCLES_OF_A_MACHINE
        load = loads()[turn % len(loads())]
        recorded = Recorded(
            self._soak.folder,
            f"campaign-soak-{self._soak.seed}",
            load=load,
            profile=self._soak.profile,
            firmware=self._soak.firmware,
        )
        with fresh(machine_config(recorded)) as machine:
            first_stop(machine, load)
            while not self._ends.is_set():
                directory = self._soak.folder / f"cycle-{self._next}"
                shutil.rmtree(directory, ignore_errors=True)
                record_cycle(machine, replace(recorded, directory=directory))
                self._cycles.put(directory)
                self._next += 1
                if self._next % CYCLES_OF_A_MACHINE == 0:
                    return


def build_facts(soak: Soak) -> dict[str, str]:
    """The build and caches of the cycles; results of two builds must not be mixed."""
    kernel, loader, plugin = need(Kernel(), Loader(), Plugin())
    parts = (kernel.bz_image, loader, plugin, soak.engine)
    build = " ".join(part.parent.name for part in parts)
    return {"caches": soak.profile, "firmware": soak.firmware, "build": build}


def run(soak: Soak, store: Store) -> list[Booted]:
    """Run until there are enough images, or the time is over."""
    store.describe({"seed": str(soak.seed), "recordings": "chain", **build_facts(soak)})
    first = int(runner.facts_of(store).get("cycles", 0))
    ends_at = time.monotonic() + soak.limit_s
    booted: list[Booted] = []
    if store.images() >= soak.images:
        return booted
    recorder = Recorder(soak, first)
    try:
        with (
            runner.cluster(soak.scheduler) as client,
            step("campaign: images of the soak", soak.images, "images") as shown,
        ):
            for number, recording in enumerate(recorder.cycles(), first):
                booted.append(_checked(soak, client, store, recording))
                store.replace_fact("cycles", str(number + 1))
                images = store.images()
                shown.reach(images)
                if images >= soak.images or time.monotonic() > ends_at:
                    return booted
    finally:
        recorder.end()
        _sweep(soak, int(runner.facts_of(store).get("cycles", 0)))
    return booted


def _sweep(soak: Soak, done: int) -> None:
    """Remove cycles that were not checked; the next call records them again."""
    for path in soak.folder.glob("cycle-*"):
        if int(path.name.removeprefix("cycle-")) >= done:
            shutil.rmtree(path)


def _checked(soak: Soak, client: Client, store: Store, recording: Path) -> Booted:
    store.forget(str(recording))  # incomplete results of a soak that was killed
    for number in range(ROUNDS_MAX):
        works = [
            Work(str(soak.engine), str(recording), soak.seed, number, CUTS, n, runner.WORKERS)
            for n in range(runner.WORKERS)
        ]
        for _ in runner.judge_into(client, store, works):
            pass
        if number + 1 >= ROUNDS_MIN and store.share_entered() < ENTERED_SHARE:
            break
    name = f"campaign-soak-boot-{soak.seed}"
    count, resumes = soak.boots, 0
    if count is None:
        count, resumes = boots.soak_counts(store, str(recording))
    plan = boots.BootPlan(count, soak.whole, resumes, runner.WORKERS)
    done = boots.boot_all(soak.engine, store, recording, name, plan)
    if not done.disagreements and not store.violations_of(str(recording)):
        shutil.rmtree(recording)
    return done
