# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Stops of a whole machine, measured in guest time for experiments.

The machine is that of `rem bench stop-go`. Results are kept under the key of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from lab.experiment.kept import kept
from lab.experiment.run import Context
from lab.machine.config import StopModeName


def measured(
    it: Context, cpus: int, loads: tuple[str, ...], modes: tuple[StopModeName, ...], stops: int
) -> dict[StopModeName, list[dict[str, Any]]]:
    """Samples by stop mode; times are of the clock flat-1ns, without a flush of caches."""
    from lab.bench.stop_go import Plan, measure
    from lab.setup.products import Kernel, Loader, Plugin, Root, need
    from lab.testbed.machines import fast_dir

    kernel, loader, root, plugin = need(Kernel(), Loader(), Root(), Plugin())
    plan = Plan(
        cpus=cpus,
        stops=stops,
        loads=loads,
        modes=modes,
        kernel=kernel.bz_image,
        system_map=kernel.bz_image.parent / "System.map",
        loader=loader,
        root=root,
        plugin=plugin,
        seed=it.seed,
        nvram_dir=fast_dir(),
    )
    about = f"{cpus}-{'-'.join(loads)}-{stops}-{it.seed}"
    files = {mode: it.out.parent / f"stops-{kernel.key}-{mode}-{about}.json" for mode in modes}

    def measure_missing(
        missing: list[StopModeName],
    ) -> Iterator[tuple[StopModeName, list[dict[str, Any]]]]:
        """Without the thousands of addresses of each Stop."""
        for mode in missing:
            samples = [asdict(sample) for sample in measure(plan, mode)]
            yield mode, [{k: v for k, v in one.items() if k != "turns"} for one in samples]

    return kept(files, measure_missing)


def worst_ns(samples: list[dict[str, Any]]) -> int:
    return max(int(sample["stop_ns"]) for sample in samples)
