# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Stops of a whole machine, measured in guest time for the experiments that need them.

The machine is that of `rem bench stop-go`. What was measured is kept beside the reports under the
key of the kernel, so that experiments that ask for the same measure once.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from lab import format as fmt
from lab.errors import RemError
from lab.experiment.run import Context
from lab.machine.config import StopModeName
from lab.say import say

BOOT_LIMIT_S = 900.0  # of 64 CPUs that take turns on a crowded host
PLUGIN_CPUS_MAX = int(fmt.CONST["REM_PLUGIN_CPUS_MAX"])


def measured(
    it: Context, cpus: int, loads: tuple[str, ...], modes: tuple[StopModeName, ...], stops: int
) -> dict[str, list[dict[str, Any]]]:
    """Samples by way of stopping; times are of the clock flat-1ns, without a flush of caches."""
    from lab.bench.stop_go import Plan, measure
    from lab.commands.demo import fast_dir
    from lab.setup import products

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
    """Without the addresses, which are thousands."""
    return {key: value for key, value in sample.items() if key != "turns"}


def _write(path: Path, samples: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(samples), encoding="utf-8")
    new.replace(path)


def worst_ns(samples: list[dict[str, Any]]) -> int:
    return max(int(sample["stop_ns"]) for sample in samples)


def bounded_ns(it: Context, cpus: int, mode: StopModeName) -> int:
    """More CPUs than the plugin counts: one planned Stop, by the kernel's own stamps.

    Under icount the time stamp counter is the sum of the instructions of all CPUs, which take
    turns: between two stamps it is at least what any one CPU needed, so an upper bound.
    """
    from lab.commands.demo import make_config
    from lab.machine.machine import Machine
    from lab.record import decode, read_block

    config = make_config(f"stops-{mode}-{cpus}", cpus, mode, None, None)
    config = replace(config, icount=True, seed=it.seed)
    with Machine.create(config, destroy_on_exit=True) as machine:
        say(f"stop={mode}, {cpus} CPUs, without the plugin: booting")
        machine.boot()
        machine.wait_ready(BOOT_LIMIT_S)
        machine.guest.wait_ssh(BOOT_LIMIT_S)
        ask = "sleep 1; echo now > /sys/kernel/remanence/stop"
        quiet = "> /dev/null 2>&1 < /dev/null &"
        machine.run_in_guest(f"setsid sh -c '{ask}' {quiet}", limit_s=BOOT_LIMIT_S)
        machine.guest.close()
        state = machine.wait_off(BOOT_LIMIT_S)
        slots = decode(read_block(machine.files.nvram(config))).slots
    stamps = [event.tsc for slot in slots for event in slot.timeline if event.part == "stop"]
    if state != "stopped" or len(stamps) < 2:
        raise RemError(f"{cpus} CPUs did not stop: the machine is {state}")
    say(f"  at most {max(stamps) - min(stamps):,} ns")
    return max(stamps) - min(stamps)
