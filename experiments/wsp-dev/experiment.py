# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, sections 4 and 7, device restart: see README.md."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.errors import RemError
from lab.experiment.run import Context, Report
from lab.experiment.sources import code_of, functions_below, reached, save_path
from lab.experiment.stops import measured, worst_ns
from lab.machine.machine import Machine
from lab.paths import repo_dir
from lab.testbed.machines import make_config

# Ways to restart a device after Go; the last is the kernel's own, with drivers in Stop, too.
CONFIG, RINGS = "configuration written back", "rings re-seated"
RECOVERY, KEPT, DPM = (
    "recovered by its driver",
    "nothing, or its registers",
    "suspended by its driver",
)
WAYS = (KEPT, CONFIG, RINGS, RECOVERY, DPM)
# What runs in Go, and the portable path.
GO_BEGINS = ("rem_go", "rem_restart_thread")
DPM_BEGIN = "rem_stop_dpm"
# Linux's device power management.
SUSPEND = re.compile(r"dpm_\w+|freeze_\w+|syscore_suspend")
# Registers that are copied ahead, or at Stop, by the name of their list.
SHADOWED = {
    "model specific": ("resume/decide.c", "rem_msrs"),
    "local APIC": ("x86/apic.c", "rem_apic_regs"),
    "PM1": ("x86/platform.c", "rem_pm1_bits"),
}
# Machines: disk, network device, and whether each has a restart on the bounded path.
MACHINES: dict[str, tuple[Any, Any, bool]] = {
    "virtio": ("virtio-blk", "virtio-net", True),
    "nvme, e1000e": ("nvme", "e1000e", True),
    "e1000": ("virtio-blk", "e1000", True),
    "rtl8139": ("virtio-blk", "rtl8139", False),
}
STOP_CPUS, STOPS, LOADS = 4, 5, ("idle", "fsync")  # those of wsp-f9
LIMIT_S = 240.0
OFF_S = 3.0  # more than in_guest.py takes for a failure, by a clock of seconds
SCRIPT = Path(__file__).with_name("in_guest.py")
PROGRAM, FILE, END, FOUND = "/root/in_guest.py", "/root/blocks", "/run/end", "/run/found"
BUSY_S = 2.0  # of writing before the failure, and after Go
# Bus, class and driver of each device that has one.
DEVICES = """for device in /sys/bus/{pci,virtio,platform,pnp}/devices/*; do
    [ -e $device/driver ] || continue
    bus=${device#/sys/bus/}
    class=$(cat $device/class 2>/dev/null || echo none)
    echo ${bus%%/*} $class $(basename $(readlink $device/driver))
done"""
BRIDGE_CLASS = "0x0604"


def measure(it: Context) -> dict[str, Any]:
    raw: dict[str, Any] = {"tree": _tree(repo_dir() / "kernel")}
    if not it.is_ci:
        raw["machines"] = {
            name: _machine(number, *parts[:2])
            for number, (name, parts) in enumerate(MACHINES.items())
        }
        stops = measured(it, STOP_CPUS, LOADS, ("fast", "dpm"), STOPS)
        raw["stops"] = {mode: worst_ns(samples) for mode, samples in stops.items()}
    return raw


# What the tree has.


def _found(pattern: str, text: str) -> str:
    """What is in a pattern's parentheses; ValueError where the sources have it no more."""
    found = re.search(pattern, text, re.M | re.S)
    if found is None:
        raise ValueError(f"the sources have no {pattern}")
    return found[1]


def _list_in(text: str, name: str) -> list[str]:
    """Elements of an array's initializer; of structures, each as it is written."""
    items = _found(rf"\b{name}\[[^\]]*\] = {{(.*?)}};", code_of(text))
    return [one.strip() for one in re.findall(r"{[^}]*}|[^,{}\s][^,{}]*", items)]


def _hooked(kernel: Path) -> dict[str, list[str]]:
    """Files of Linux that include each of the hooks, by the hooks' file."""
    found = {}
    for path in sorted((kernel / "hooks").glob("*.h")):
        head = re.search(r"Included by ([^:.]+\.c(?: and [^:]+\.c)?)", path.read_text("utf-8"))
        if head is not None:
            found[f"hooks/{path.name}"] = head[1].split(" and ")
    return found


def _tree(kernel: Path) -> dict[str, Any]:
    """Ways of restart, as the sources have them, and whether drivers are on the save path (WSP,
    section 5.3)."""
    decide = (kernel / "resume/decide.c").read_text("utf-8")
    kinds = _found(r"^bool rem_virtio_kept\((.*?)^}", decide)
    functions = functions_below(kernel)
    hooked = _hooked(kernel)
    drivers = [file for file, places in hooked.items() if places[0].startswith("drivers/")]
    runs = {"stop": save_path(kernel), "go": reached(functions, GO_BEGINS, {})}
    dpm = reached(functions, [DPM_BEGIN], {})
    return {
        "kept": [re.findall(r'"(.*?)"', one) for one in _list_in(decide, "rem_drivers")],
        "virtio": re.findall(r"case VIRTIO_ID_(\w+):", kinds),
        "hooked": hooked,
        "driver_functions": {
            name: sorted(one.name for one in path if one.file in drivers)
            for name, path in runs.items()
        },
        "suspends": {
            name: sorted({n for one in path for n in one.names if SUSPEND.fullmatch(n)})
            for name, path in (("fast", runs["stop"]), ("dpm", dpm))
        },
        "shadowed": {
            what: len(_list_in((kernel / file).read_text("utf-8"), name))
            for what, (file, name) in SHADOWED.items()
        },
        "config_words": int(
            _found(
                r"#define REM_CONFIG_WORDS (\d+)", (kernel / "resume/resume.h").read_text("utf-8")
            )
        ),
    }


# What machines do.


def _machine(number: int, disk: Any, nic: Any) -> dict[str, Any]:
    """Writers in a machine with these devices, through one power failure: what becomes of I/O that
    was in flight (WSP, section 4)."""
    config = replace(make_config(f"dev-{number}", stop_mode="fast"), disk=disk, nic=nic)
    with Machine.create(config, destroy_on_exit=True) as machine:
        machine.boot()
        machine.wait_up(LIMIT_S)
        lines = machine.run_in_guest(f"bash -c '{DEVICES}'", limit_s=LIMIT_S).stdout.splitlines()
        mode = machine.run_in_guest("cat /sys/kernel/remanence/stop_mode").stdout.strip()
        machine.guest.put(SCRIPT, PROGRAM)
        words = f"setsid python3 {PROGRAM} {FILE} {END} >{FOUND} 2>&1 </dev/null &"
        begun = f"until test -e {END}.begun; do sleep 0.1; done; sleep {BUSY_S}"
        machine.run_in_guest(f"{words} {begun}", limit_s=LIMIT_S)
        machine.guest.close()
        stopped = machine.cut().stopped
        time.sleep(OFF_S)
        machine.resume()
        note = machine.wait_resumed(LIMIT_S)
        machine.wait_go_done(note.sequence, LIMIT_S)
        ended = f"sleep {BUSY_S}; touch {END}; until grep -q . {FOUND}; do sleep 0.1; done"
        found = machine.run_in_guest(f"{ended}; cat {FOUND}", limit_s=LIMIT_S).stdout
    try:
        calls = json.loads(found)
    except ValueError as error:
        raise RemError(f"{SCRIPT.name} in the guest ended with {found[-200:]!r}") from error
    return {
        "devices": [line.split(maxsplit=2) for line in lines],
        "mode": mode,
        "resumed": stopped and note.resumed,
        "calls": calls,
    }


def _way(kept: list[list[str]], mode: str, device: list[str]) -> str | None:
    """As rem_pci_kind() and rem_other_kept() of the kernel decide; None if it is not kept."""
    bus, class_, driver = device
    if not mode.startswith("fast"):
        return DPM
    if bus in ("platform", "pnp"):
        return KEPT if [bus, driver] in kept else None
    if bus == "virtio":
        return RINGS
    if class_.startswith(BRIDGE_CLASS):
        return CONFIG
    return RINGS if driver == "virtio-pci" else RECOVERY


def _ways(raw: dict[str, Any]) -> dict[str, dict[str, str | None]]:
    """By machine, the way of each driver with its bus."""
    return {
        name: {
            f"{device[2]} ({device[0]})": _way(raw["tree"]["kept"], one["mode"], device)
            for device in one["devices"]
        }
        for name, one in raw["machines"].items()
    }


def _judge_tree(tree: dict[str, Any], report: Report) -> None:
    files = [place for places in tree["hooked"].values() for place in places]
    for what, names in (
        ("kept_drivers", [f"{driver} ({bus})" for bus, driver in tree["kept"]]),
        ("virtio_kinds", [kind.lower() for kind in tree["virtio"]]),
        ("hooked_driver_files", [file for file in files if file.startswith("drivers/")]),
    ):
        report.count(what, len(names), what.rpartition("_")[2])
        report.result.add(f"names, {what}", ", ".join(names), "", "counted")
    for what, count in tree["shadowed"].items():
        report.count(f"shadowed, {what}", count, "registers")
    report.count("shadowed, configuration space of a function", tree["config_words"], "words")
    for name, functions in tree["driver_functions"].items():
        report.count(f"{name}_driver_functions", len(functions), "functions")
    for name, functions in tree["suspends"].items():
        report.count(f"{name}_suspend_functions", len(functions), "functions")
    report.expect("Go runs functions inside drivers", bool(tree["driver_functions"]["go"]))
    report.expect("the bounded Stop suspends nothing", not tree["suspends"]["fast"])
    report.expect("the portable Stop suspends devices by Linux's own power management",
                  "dpm_suspend_start" in tree["suspends"]["dpm"])  # fmt: skip


def _judge_machines(raw: dict[str, Any], report: Report) -> None:
    ways = _ways(raw)
    bounded = {
        driver: way for name in ways if MACHINES[name][2] for driver, way in ways[name].items()
    }
    for way in WAYS[:-1]:
        drivers = [driver for driver, its in bounded.items() if its == way]
        report.count(f"drivers, {way}", len(drivers), "drivers")
        report.result.add(f"names, {way}", ", ".join(sorted(drivers)), "", "counted")
    for name, one in raw["machines"].items():
        report.result.add(f"{name}, mode", one["mode"], "", "counted")
        report.expect(f"{name}: the machine resumes", one["resumed"])
        is_fast = one["mode"].startswith("fast")
        report.expect(f"{name}: {'bounded' if MACHINES[name][2] else 'portable'} path",
                      is_fast == MACHINES[name][2])  # fmt: skip
        unknown = [driver for driver, way in ways[name].items() if way is None]
        report.expect(f"{name}: the tree has a way for each driver {unknown or ''}".rstrip(),
                      not unknown)  # fmt: skip
        calls = one["calls"]
        for key in ("calls", "interrupted", "failed", "wrong"):
            report.count(f"{name}, {key}", calls[key], "calls")
        report.expect(f"{name}: requests were in flight", calls["interrupted"] > 0)
        report.expect(f"{name}: none of them fails", calls["failed"] == 0)
        report.expect(f"{name}: what was written is there", calls["wrong"] == 0)


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    _judge_tree(raw["tree"], report)
    if "machines" not in raw:
        return
    _judge_machines(raw, report)
    for mode, stop_ns in raw["stops"].items():
        report.add(f"{mode}_stop_max_ns", stop_ns, "ns")
    fast_ns, dpm_ns = raw["stops"]["fast"], raw["stops"]["dpm"]
    report.add("dpm_over_fast", round(dpm_ns / fast_ns, 1), "x")
    report.expect("without drivers on the way a Stop fits the shortest window",
                  fast_ns <= min(paper["windows_ms"]) * 10**6)  # fmt: skip


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    code, requests = figure.subplots(1, 2)
    tree = raw["tree"]
    bars = {
        "Stop, fast:\ninside drivers": len(tree["driver_functions"]["stop"]),
        "Go:\ninside drivers": len(tree["driver_functions"]["go"]),
        "Stop, fast:\nsuspend": len(tree["suspends"]["fast"]),
        "Stop, dpm:\nsuspend": len(tree["suspends"]["dpm"]),
    }
    code.bar(list(bars), list(bars.values()))
    code.plot([0], [0], "kv", label="paper: no driver on the save path")
    code.set(ylabel="functions")
    code.legend(frameon=False, fontsize=7)
    for name, one in raw.get("machines", {}).items():
        requests.bar(name, one["calls"]["interrupted"], color="#0072B2")
        requests.bar(name, one["calls"]["failed"], color="#D55E00")
    requests.set(ylabel="calls that the failure interrupted; orange: failed")
    for axes in (code, requests):
        axes.tick_params(axis="x", labelsize=7)
