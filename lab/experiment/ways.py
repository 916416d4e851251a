# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One power failure survived in each way of `rem bench persist`, for experiments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from lab.bench.persist import LONG_STEPS, PARTS, SHORT_STEPS, Plan, measure_ways
from lab.errors import RemError
from lab.experiment.kept import kept
from lab.experiment.run import Context, Report
from lab.machine.memories import ASIC_CORES
from lab.messages import info
from lab.setup.inputs import Inputs

# The paper's runs have about 37 G cycles at 1.6 GHz (60 G of SysPC, which is 1.6 times LightPC).
CI_STEPS, FULL_STEPS = SHORT_STEPS, LONG_STEPS


def measured(
    it: Context, ways: tuple[str, ...], steps: int, caches: str = ASIC_CORES
) -> dict[str, Any]:
    """Outcomes by way and run, as dictionaries; {"failed": why} for a way that did not come back.

    `ours` has a run more, `plain`. Times of a run are from the program's begin to its end, without
    the time in which the power was off. *caches*: and cores, in words of `rem run`.
    """
    from lab.setup.persist import PersistPrograms
    from lab.setup.products import Kernel, Plugin, need_all

    built = need_all(list(PARTS))
    kernel, plugin, programs = built[Kernel("server")], built[Plugin()], built[PersistPrograms()]
    cores = Inputs("caches").add("words", caches).key()
    keys = f"{kernel.key}-{plugin.parent.name}-{programs.name}-{cores}"
    folder = it.out.parent / "ways"
    files = {way: folder / f"{way}-{steps}-{it.seed}-{keys}.json" for way in ("ours", *ways)}
    failed: dict[str, RemError] = {}

    def measure(missing: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        plan = Plan(tuple(missing), steps=steps, seed=it.seed, caches=caches)
        found, not_back = measure_ways(plan, info)
        failed.update(not_back)
        for way, outcomes in found.items():
            yield way, {name: asdict(one) for name, one in outcomes.items()}

    results = kept(files, measure)
    if "ours" in failed:
        raise failed["ours"]
    return {
        way: {"failed": failed[way].message} if way in failed else results[way] for way in files
    }


def came_back(raw: dict[str, Any]) -> list[str]:
    """The ways whose program came back."""
    return [way for way, runs in raw.items() if "failed" not in runs]


def expect_results(raw: dict[str, Any], report: Report) -> None:
    """Each way came back, with the result of the plain run."""
    digest = raw["ours"]["plain"]["digest"]
    back = came_back(raw)
    for way, runs in raw.items():
        equal = way in back and {run["digest"] for run in runs.values()} == {digest}
        report.expect(f"{way} ends with the result of the run without a failure", equal)
