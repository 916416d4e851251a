# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Stops of a whole machine, measured in guest time for experiments.

The machine is that of `rem bench stop-go`. Results are kept beside the reports under the key of
the kernel, so that experiments with the same needs measure once.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lab.experiment.run import Context
from lab.machine.config import StopModeName


def measured(
    it: Context, cpus: int, loads: tuple[str, ...], modes: tuple[StopModeName, ...], stops: int
) -> dict[str, list[dict[str, Any]]]:
    """Samples by stop mode; times are of the clock flat-1ns, without a flush of caches."""
    from lab.bench.stop_go import Plan, measure
    from lab.setup import products
    from lab.testbed.machines import fast_dir

    progress = products.Progress()
    kernel = products.ensure_kernel(progress)
    plan = Plan(
        cpus=cpus,
        stops=stops,
        loads=loads,
        modes=modes,
        kernel=kernel.bz_image,
        system_map=kernel.bz_image.parent / "System.map",
        loader=products.ensure_loader(progress),
        root=products.ensure_root(progress),
        plugin=products.ensure_plugin(progress),
        seed=it.seed,
        nvram_dir=fast_dir(),
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for mode in modes:
        name = f"stops-{kernel.key}-{mode}-{cpus}-{'-'.join(loads)}-{stops}-{it.seed}.json"
        kept = it.out.parent / name
        if not kept.exists():
            samples = [_kept(asdict(sample)) for sample in measure(plan, mode)]
            _write(kept, samples)
        found[mode] = json.loads(kept.read_text(encoding="utf-8"))
    return found


def _kept(sample: dict[str, Any]) -> dict[str, Any]:
    """Without the thousands of addresses."""
    return {key: value for key, value in sample.items() if key != "turns"}


def _write(path: Path, samples: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(samples), encoding="utf-8")
    new.replace(path)


def worst_ns(samples: list[dict[str, Any]]) -> int:
    return max(int(sample["stop_ns"]) for sample in samples)
