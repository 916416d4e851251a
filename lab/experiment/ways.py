# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One power failure survived in each way of `rem bench persist`, for experiments.

Results are kept beside the reports under the keys of what was measured, so that experiments with
the same needs measure once.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from lab.experiment.run import Context, Report
from lab.messages import info

CI_STEPS = 640_000  # 2.6 s of guest time
# The paper's runs have about 37 G cycles at 1.6 GHz (60 G of SysPC, which is 1.6 times LightPC).
FULL_STEPS = 5_760_000


def measured(it: Context, ways: tuple[str, ...], steps: int) -> dict[str, Any]:
    """Outcomes by way and run, as dictionaries; {"failed": why} for a way that did not come back.

    `ours` has a run more, `plain`. Times of a run are from the program's begin to its end, without
    the time in which the power was off.
    """
    from lab.bench.persist import PARTS, Plan, measure_ways
    from lab.setup.persist import PersistPrograms
    from lab.setup.products import Kernel, Plugin, need_all

    built = need_all(list(PARTS))
    kernel, plugin, programs = built[Kernel("server")], built[Plugin()], built[PersistPrograms()]
    keys = f"{kernel.key}-{plugin.parent.name}-{programs.name}"
    kept = it.out.parent / "ways"
    kept.mkdir(parents=True, exist_ok=True)
    files = {way: kept / f"{way}-{steps}-{it.seed}-{keys}.json" for way in ("ours", *ways)}
    missing = tuple(way for way, path in files.items() if not path.exists())
    found, failed = measure_ways(Plan(missing, steps=steps, seed=it.seed), info)
    if "ours" in failed:
        raise failed["ours"]
    for way, outcomes in found.items():
        new = files[way].with_suffix(".new")
        new.write_text(json.dumps({name: asdict(one) for name, one in outcomes.items()}))
        new.replace(files[way])
    return {
        way: {"failed": failed[way].message}
        if way in failed
        else json.loads(path.read_text(encoding="utf-8"))
        for way, path in files.items()
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
