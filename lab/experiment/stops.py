# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Stops of a whole machine, measured in guest time for experiments.

The machine is that of `rem bench stop-go`. Results are kept under the key of the kernel; with
caches also under that of the plugin, which has their model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lab.experiment.kept import kept
from lab.experiment.run import Context
from lab.isa import IsaName
from lab.machine.config import StopModeName
from lab.setup.inputs import Inputs
from lab.setup.kernel import MUTANTS


@dataclass(frozen=True)
class Variant:
    """Another machine than the usual one. *changes*: fields of its configuration."""

    isa: IsaName = "x86_64"
    changes: Mapping[str, Any] = field(default_factory=dict)


USUAL = Variant()
# LightPC's parts of a Stop, by the event that ends them; what follows is the third.
PARTS = {"STOP_FREEZE": "process", "STOP_DEVICES": "device"}
OFFLINE = "offline"


def measured(
    it: Context,
    cpus: int,
    loads: tuple[str, ...],
    modes: tuple[StopModeName, ...],
    stops: int,
    *,
    caches: str | None = None,
    planted: str | None = None,
    of: Variant = USUAL,
) -> dict[StopModeName, list[dict[str, Any]]]:
    """Samples by stop mode.

    Times are of the clock flat-1ns, without a flush of caches; with a profile of *caches* they
    are the model's, and a flush is in them. *planted* is a bug of kernel/mutants, of x86-64.
    """
    from lab.bench.stop_go import Parts, Plan, measure
    from lab.setup.products import Kernel, need
    from lab.testbed.machines import fast_dir, parts_of

    wanted = Kernel(MUTANTS) if planted else parts_of(of.isa).kernel
    parts = Parts.ready(wanted, of.isa)
    plan = Plan(
        cpus=cpus,
        stops=stops,
        loads=loads,
        modes=modes,
        parts=parts,
        seed=it.seed,
        nvram_dir=fast_dir(),
        caches=caches,
        cmdline=f"remanence.mutant={planted}" if planted else "",
        changes=of.changes,
    )
    about = f"{cpus}-{'-'.join(loads)}-{stops}-{it.seed}"
    if caches is not None:
        about += f"-{caches}-{parts.plugin.parent.name}"
    if planted is not None:
        about += f"-{planted}"
    if of.changes:
        about += f"-{Inputs('changes').add('changes', repr(sorted(of.changes.items()))).key()}"
    files = {
        mode: it.out.parent / f"stops-{need(wanted).key}-{mode}-{about}.json" for mode in modes
    }

    def measure_missing(
        missing: list[StopModeName],
    ) -> Iterator[tuple[StopModeName, list[dict[str, Any]]]]:
        """Without the thousands of addresses of each Stop."""
        for mode in missing:
            samples = [asdict(sample) for sample in measure(plan, mode)]
            yield mode, [{k: v for k, v in one.items() if k != "turns"} for one in samples]

    return kept(files, measure_missing)


def worst(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """The sample with the longest Stop."""
    return max(samples, key=lambda one: int(one["stop_ns"]))


def worst_ns(samples: list[dict[str, Any]]) -> int:
    return int(worst(samples)["stop_ns"])


def lightpc_parts(timeline: list[Any]) -> dict[str, float]:
    """Percent of each of LightPC's parts of a Stop (Figure 8), by the instructions of all CPUs."""
    ends = {PARTS[event]: at for at, event, _ in timeline if event in PARTS}
    total = max(at for at, _, _ in timeline)
    marks = [0, *(ends[part] for part in PARTS.values()), total]
    return {
        part: (end - begin) / total * 100
        for part, begin, end in zip((*PARTS.values(), OFFLINE), marks, marks[1:], strict=False)
    }


def with_waits(time_ns: int, halted_ns: int, percents: tuple[int, ...]) -> dict[int, int]:
    """What takes *time_ns* if of the time in which all CPUs wait only so many percent count.

    QEMU's clock makes that time longer than it is.
    """
    return {percent: time_ns - halted_ns * (100 - percent) // 100 for percent in percents}
