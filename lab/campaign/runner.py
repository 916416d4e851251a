# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Rounds of cuts until there are enough distinct images, on the workers of a Dask cluster.

Threads of one process cannot run on another machine, and each slice costs a pass over the
recording, at some hundred thousand events a second and core: so a slice is thousands of cuts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.campaign import figures
from lab.campaign.engine import Judged, Work, judge
from lab.campaign.store import Store
from lab.errors import InfraError
from lab.messages import info
from lab.progress import step

if TYPE_CHECKING:
    from distributed import Client

WORKERS = os.cpu_count() or 2
# Of one slice. More delay the first result, fewer cost more passes over events.
CUTS_OF_A_SLICE = 800
SLICES_MAX = 40
ROUNDS_MAX = 200
# A round that brings fewer new images than this share of its cuts is the last.
NEW_SHARE_MIN = 0.01
# If there are enough images but too few of some kinds, rounds of these kinds alone follow, up to so
# many rounds in all: whole rounds would bring more of the others.
MIX_ROUNDS = 8
# Cuts of such a round: a fifth of a whole one's.
MIX_CUTS_OF_A_SLICE = CUTS_OF_A_SLICE // 5


@dataclass(frozen=True)
class Plan:
    """What to check."""

    engine: Path
    recordings: tuple[Path, ...]
    images: int
    seed: int
    scheduler: str | None = None
    limit_s: float | None = None


@contextmanager
def cluster(address: str | None) -> Iterator[Client]:
    """Workers: those of *address*, or child processes of this one."""
    import logging

    import dask
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.ERROR)
    with ExitStack() as stack:
        # No dashboard; and a worker that is busy checking is not lost.
        stack.enter_context(dask.config.set({"distributed.comm.timeouts.connect": "20s"}))
        if address is None:
            local = LocalCluster(
                n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None
            )
            stack.enter_context(local)
            yield stack.enter_context(Client(local))
            return
        try:
            client = Client(address, timeout="20s")
        except (OSError, ValueError) as error:
            raise InfraError(
                f"no Dask scheduler at {address} ({error}): start one with `dask scheduler`"
            ) from error
        yield stack.enter_context(client)


def run(plan: Plan, store: Store) -> None:
    """Check until there are enough images, or no new ones come."""
    store.describe(
        {
            "seed": str(plan.seed),
            "recordings": " ".join(str(recording) for recording in plan.recordings),
            "engine": plan.engine.parent.name,  # of its sources, the loader's core among them
        }
    )
    slices = _slices(plan, store)
    ends_at = None if plan.limit_s is None else time.monotonic() + plan.limit_s
    with (
        cluster(plan.scheduler) as client,
        step("campaign: images", plan.images, "images") as shown,
    ):
        for number in range(ROUNDS_MAX):
            before = store.images()
            shown.reach(before)
            only: tuple[str, ...] = ()
            if before >= plan.images:
                only = figures.mix(store).kinds()
                if not only or number >= MIX_ROUNDS:
                    return
            if ends_at is not None and time.monotonic() > ends_at:
                return
            works = list(_round(plan, store, number, slices, only))
            for _ in judge_into(client, store, works):
                shown.reach(store.images())
            made = sum(work.cuts for work in works) // slices
            if works and store.images() - before < NEW_SHARE_MIN * made:
                info(f"campaign: round {number} brought hardly any new image: this is all")
                return


def judge_into(client: Client, store: Store, works: list[Work]) -> Iterator[None]:
    """Check some slices; yield when each is in the file."""
    begun = time.monotonic()
    for judged in _judge_all(client, works):
        store.add(judged)
        store.add_elapsed(time.monotonic() - begun)
        begun = time.monotonic()
        yield


def _slices(plan: Plan, store: Store) -> int:
    """Slices of a round of one recording; fixed when the campaign begins."""
    known = facts_of(store).get("slices")
    wanted = plan.images // len(plan.recordings) // CUTS_OF_A_SLICE
    slices = int(known) if known else max(WORKERS, min(wanted, SLICES_MAX))
    store.describe({"slices": str(slices)})
    return slices


def _round(
    plan: Plan, store: Store, number: int, slices: int, only: tuple[str, ...]
) -> Iterator[Work]:
    cuts = MIX_CUTS_OF_A_SLICE if only else CUTS_OF_A_SLICE
    for recording in plan.recordings:
        done = store.done(str(recording))
        for n in range(slices):
            if (number, n) not in done:
                yield Work(
                    engine=str(plan.engine),
                    recording=str(recording),
                    seed=plan.seed,
                    round=number,
                    cuts=slices * cuts,
                    slice=n,
                    slices=slices,
                    only=only,
                )


def _judge_all(client: Client, works: list[Work]) -> Iterator[Judged]:
    from distributed import as_completed

    futures = client.map(judge, works, pure=False)
    for future in as_completed(futures):
        judged: Judged = future.result()
        future.release()
        yield judged


def facts_of(store: Store) -> dict[str, Any]:
    """The facts that the file records about itself."""
    return dict(store.rows("SELECT name, value FROM campaign"))
