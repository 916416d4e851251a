# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A soak: a chain of power cycles, each recorded, judged and forgotten.

One run has only from three hundred to two thousand distinct images that can be entered (the loader
has hardly written yet; Stop has just flushed), so a million of which a fifth is resumed need many.
Here a machine resumes, works and stops again and again; each of these cycles begins with what the
one before left on media, and is a recording of its own. After some cycles another machine with
another workload takes its turn. While a cycle is judged and some of it booted, the next is
recorded.

A cycle's recording is removed once its results are in the file, unless something is wrong in it. A
soak that was killed goes on with the number after the last cycle whose results are whole, and is
refused where kernel, loader, plugin or engine are others by now.
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
from lab.messages import info
from lab.setup import products
from lab.setup.progress import Progress

if TYPE_CHECKING:
    from distributed import Client

# Of a round. Further rounds bring hardly any image that is entered, so a cycle ends when no more
# than a fifth of all images are, and some, since the last round brings many that are not.
CUTS = 1_500
ENTERED_SHARE = 0.22
ROUNDS_MIN, ROUNDS_MAX = 2, 12
# Where the loader's events overwrite those of an older image fewer words differ: a machine's first
# two cycles have six times as many images that are entered as its third.
CYCLES_OF_A_MACHINE = 2
WAIT_S = 1.0


def loads() -> list[Workload]:
    """What the machines of a soak do, in turn."""
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
    """What is asked for."""

    engine: Path
    folder: Path
    images: int
    seed: int
    limit_s: float
    boots: int | None  # of a cycle; None: of each class, and a share of what is resumed
    whole: int  # of those, to the end
    scheduler: str | None = None
    profile: str = PROFILE


class Recorder:
    """A thread that records cycles, one ahead of the judge."""

    def __init__(self, soak: Soak, first: int) -> None:
        self._soak = soak
        self._next = first
        self._cycles: Queue[Path | RemError] = Queue(maxsize=1)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rem-soak", daemon=True)
        self._thread.start()

    def cycles(self) -> Iterator[Path]:
        """Recordings as they come; an error of the recorder is one here."""
        while True:
            item = self._cycles.get()
            if isinstance(item, RemError):
                raise item
            yield item

    def end(self) -> None:
        """No further cycle; returns when the machine is gone."""
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
        """One machine, from its cold boot through so many cycles."""
        turn = self._next // CYCLES_OF_A_MACHINE
        load = loads()[turn % len(loads())]
        asked = Recorded(
            self._soak.folder,
            f"campaign-soak-{self._soak.seed}",
            load=load,
            profile=self._soak.profile,
        )
        with fresh(machine_config(asked)) as machine:
            first_stop(machine, load)
            while not self._ends.is_set():
                directory = self._soak.folder / f"cycle-{self._next}"
                shutil.rmtree(directory, ignore_errors=True)
                record_cycle(machine, replace(asked, directory=directory))
                self._cycles.put(directory)
                self._next += 1
                if self._next % CYCLES_OF_A_MACHINE == 0:
                    return


def made_of(soak: Soak) -> dict[str, str]:
    """What the cycles are of: figures of two builds in one file would be those of neither."""
    progress = Progress()
    parts = (
        products.ensure_kernel(progress).bz_image,
        products.ensure_loader(progress),
        products.ensure_plugin(progress),
        soak.engine,
    )
    build = " ".join(part.parent.name for part in parts)
    return {"caches": soak.profile, "build": build}


def run(soak: Soak, store: Store) -> list[Booted]:
    """Until there are enough images, or the time is over."""
    store.describe({"seed": str(soak.seed), "recordings": "chain", **made_of(soak)})
    first = int(runner.facts_of(store).get("cycles", 0))
    ends_at = time.monotonic() + soak.limit_s
    booted: list[Booted] = []
    if store.images() >= soak.images:
        return booted
    recorder = Recorder(soak, first)
    try:
        with runner.cluster(soak.scheduler) as client:
            for number, recording in enumerate(recorder.cycles(), first):
                booted.append(_judged(soak, client, store, recording))
                store.replace_fact("cycles", str(number + 1))
                images = store.images()
                info(f"campaign: {number + 1} cycles, {images:,} of {soak.images:,} images")
                if images >= soak.images or time.monotonic() > ends_at:
                    return booted
    finally:
        recorder.end()
        _sweep(soak, int(runner.facts_of(store).get("cycles", 0)))
    return booted


def _sweep(soak: Soak, done: int) -> None:
    """Cycles that nobody judged; the next call records them anew."""
    for path in soak.folder.glob("cycle-*"):
        if int(path.name.removeprefix("cycle-")) >= done:
            shutil.rmtree(path)


def _judged(soak: Soak, client: Client, store: Store, recording: Path) -> Booted:
    store.forget(str(recording))  # what a soak that was killed had judged of another run
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
