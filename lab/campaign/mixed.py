# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem campaign --memtype mixed`: cuts of a machine whose DRAM caches its NVRAM.

A run of lab/campaign/examples/pages.py is recorded and cut as any other: an image that resumes with
a page that is older than its last change does not continue.

Planted bugs of kernel/mixed are found by the checks that they name (testbed/mixed_*checks.py), on a
machine each that keeps its CPU caches: what a bug does to the memory of other programs stays in it.
One leaves something in these caches, and is for tests/mixed/test_mixed_caches.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.campaign.mutants import Found
from lab.campaign.workload import Workload, example
from lab.errors import RemError
from lab.machine import Machine
from lab.messages import info
from lab.paths import repo_dir
from lab.setup.kernel import kernel_mutants
from lab.setup.products import Kernel, need
from lab.testbed.mixed_checks import (
    CACHE_BYTES,
    Check,
    bound_is_kept,
    cleaned_pages_survive,
    ended_programs_leave_nothing,
    marked_pages_survive,
    moves_lose_nothing,
    short_lives_survive,
    stores_survive,
)
from lab.testbed.mixed_file_checks import (
    changes_are_read,
    copies_survive,
    dropped_pages_are_gone,
    moved_pages_are_read,
)
from lab.testbed.mixed_guest import PROGRAMS, choose_rule, mixed_guest
from lab.testbed.mixed_level_checks import LEVELS, sorted_pages_survive
from lab.testbed.mixed_map_checks import (
    cut_pages_are_gone,
    mapped_changes_are_seen,
    mapped_copies_survive,
)
from lab.testbed.mixed_text_checks import text_follows_patches, text_survives
from lab.testbed.planted import NONE, plant
from lab.verdict import UNNAMED, Broken, broken_of

# So few pages may differ that a program has more, however fast this host copies a page.
BOUND = "remanence.preempt_off_us=2000000 remanence.hold_up_us=2004000"


@dataclass(frozen=True)
class Bug:
    """What finds a planted bug."""

    check: Check
    words: str = ""  # that the kernel's line has to have for that
    policy: str = "heat"  # of dram/policy

    def prepare(self, machine: Machine) -> None:
        """To be called before the bug is planted: then the guest may not answer any more."""
        choose_rule(machine, self.policy)


BUGS = {
    "dram-not-home": Bug(stores_survive),
    "dram-half-home": Bug(stores_survive),
    "dram-not-filled": Bug(stores_survive),
    "dram-clean-early": Bug(cleaned_pages_survive),
    "dram-write-unseen": Bug(cleaned_pages_survive),
    "dram-down-stale": Bug(moves_lose_nothing),
    "dram-home-lost": Bug(ended_programs_leave_nothing),
    "dram-over-budget": Bug(bound_is_kept, BOUND),
    "dram-new-clean": Bug(short_lives_survive),
    "dram-new-stale": Bug(short_lives_survive),
    "dram-file-unfilled": Bug(copies_survive),
    "dram-file-unseen": Bug(changes_are_read),
    "dram-file-kept": Bug(dropped_pages_are_gone),
    "dram-file-moved": Bug(moved_pages_are_read),
    "dram-map-written": Bug(mapped_changes_are_seen),
    "dram-map-kept": Bug(cut_pages_are_gone),
    "dram-map-unfilled": Bug(mapped_copies_survive),
    "dram-text-away": Bug(text_survives),
    "dram-text-unpoked": Bug(text_follows_patches),
    "dram-mark-writable": Bug(marked_pages_survive, policy="numa"),
    "dram-level-stale": Bug(sorted_pages_survive, LEVELS),
    "dram-level-clean": Bug(sorted_pages_survive, LEVELS),
}
NAMES = tuple(BUGS)


def load() -> Workload:
    """What runs: it knows what each page of its memory and of its file has to hold."""
    return example("pages.py")


def run_mutants(names: list[str], seed: int) -> list[Found]:
    """What is found of each bug. If a control finds something, all are missed."""
    verdicts = {patch.name: patch.verdicts for patch in kernel_mutants(repo_dir()).mutants}
    controls: dict[str, list[Bug]] = {}  # on a machine for each line of the kernel
    for bug in dict.fromkeys(BUGS[name] for name in names):
        controls.setdefault(bug.words, []).append(bug)
    for several in controls.values():
        if broken := _found(f"campaign-mixed-{seed}", several, NONE):
            info(f"campaign: without a planted bug: {broken[0]}")
            return [Found(name, frozenset(), ()) for name in names]
    found: list[Found] = []
    for name in names:
        one = Found(name, verdicts[name], _found(f"campaign-{name}", [BUGS[name]], name))
        info(f"campaign: mutant {name}: {one}")
        found.append(one)
    return found


def _found(machine_name: str, bugs: list[Bug], planted: str) -> tuple[Broken, ...]:
    """What the checks of some bugs find, the first that finds something."""
    kernel, words = need(Kernel("mutants")).bz_image, bugs[0].words
    try:
        with mixed_guest(machine_name, CACHE_BYTES, words, kernel, programs=PROGRAMS) as machine:
            for bug in bugs:
                bug.prepare(machine)
                plant(machine, planted)
                bug.check(machine)
    except RemError as error:
        return (broken_of(error),)
    except AssertionError as error:  # the check has shown nothing
        return (Broken(UNNAMED, str(error)),)
    return ()
