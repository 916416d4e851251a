# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC, section VIII, eADR without a consistent cut: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report
from lab.machine.config import MachineConfig
from lab.machine.cut_plan import ANNOUNCED, UNANNOUNCED
from lab.machine.cut_points import attach_cut_points
from lab.machine.machine import Machine
from lab.testbed.machines import make_config

# Processors whose caches are lost, and are saved by the supply.
ADR, EADR = "xeon-6330", "server-eadr"
CASES = {
    "ADR, no Stop": (ADR, UNANNOUNCED),
    "eADR, no Stop": (EADR, UNANNOUNCED),
    "ADR, Stop": (ADR, ANNOUNCED),
    "eADR, Stop": (EADR, ANNOUNCED),
}
SAFE = ("ADR, Stop", "eADR, Stop")
KEYS = 1000
LIMIT_S = 240.0
# A server without a disk, and a client that goes on changing its data.
SERVE = f"""redis-server --save '' --appendonly no --daemonize yes --dir /run >/dev/null
until redis-cli ping >/dev/null 2>&1; do sleep 0.1; done
redis-cli eval 'for i = 1, {KEYS} do redis.call("set", "kept" .. i, i) end' 0 >/dev/null
redis-benchmark -t incr -l -q >/dev/null 2>&1 </dev/null &
sleep 1"""
COUNT = 'redis-cli eval \'return #redis.call("keys", "kept*")\' 0 2>/dev/null || true'


def measure(it: Context) -> dict[str, Any]:
    return {name: _cut(number, *case) for number, (name, case) in enumerate(CASES.items())}


def _cut(number: int, caches: str, plan: Any) -> dict[str, Any]:
    """One cut under load, and what the next power-on finds."""
    config: MachineConfig = make_config(f"eadr-{number}", caches=caches)
    with Machine.create(config, destroy_on_exit=True) as machine:
        attach_cut_points(machine)
        machine.boot()
        machine.wait_up(LIMIT_S)
        machine.run_in_guest(SERVE, limit_s=LIMIT_S)
        machine.guest.close()
        record = machine.cut(plan)
        assert record.caches is not None
        machine.resume()
        note = machine.wait_boot_note()
        if note.resumed:
            machine.wait_resumed(LIMIT_S)
        else:
            machine.wait_up(LIMIT_S)
        kept = machine.run_in_guest(COUNT, limit_s=LIMIT_S).stdout.strip()
        return {
            "stopped": record.stopped,
            "caches": record.caches,
            "resumed": note.resumed,
            "reason": str(note.reason),
            "keys": int(kept) if kept.isdigit() else 0,
        }


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for name, case in raw.items():
        report.count(f"{name}, lines_lost", case["caches"]["differ_lines"], "lines")
        report.count(f"{name}, resumed", int(case["resumed"]), "")
        report.count(f"{name}, keys_kept", case["keys"], "keys")
        report.result.add(f"{name}, reason", case["reason"], "", "counted")
        if name in SAFE:
            report.expect(f"{name}: the machine resumes", case["resumed"])
            report.expect(f"{name}: no key is lost", case["keys"] == KEYS)
        else:
            report.expect(f"{name}: the machine boots cold", not case["resumed"])
            report.expect(f"{name}: what was only in memory is gone", case["keys"] == 0)
    lost = {name: case["caches"]["differ_lines"] for name, case in raw.items()}
    report.expect("ADR without a Stop loses lines", lost["ADR, no Stop"] > 0)
    report.expect("eADR loses none, with a Stop or without", not any(
        count for name, count in lost.items() if name.startswith("eADR")
    ))  # fmt: skip


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    lines, keys = figure.subplots(1, 2)
    names = list(raw)
    lines.bar(names, [case["caches"]["differ_lines"] for case in raw.values()])
    lines.set(ylabel="lines that memory lacks when power is gone")
    keys.bar(names, [case["keys"] for case in raw.values()])
    keys.set(ylabel=f"of {KEYS} keys, after power-on")
    for axes in (lines, keys):
        axes.tick_params(axis="x", labelsize=7)
