# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, sections 4 and 6, the save routine: see README.md."""

from __future__ import annotations

from typing import Any

from lab.bench.flushes import Flushes
from lab.bench.stop_go import ONE_WRITE_BACK_MAX
from lab.experiment.processors import cache_bytes
from lab.experiment.run import Context, Report
from lab.experiment.sources import SAVE_BEGIN, save_path
from lab.experiment.stops import measured, worst_ns
from lab.paths import repo_dir

# By profile, the CPUs of one processor.
CPUS = {"wsp-c5528": 4, "wsp-4180": 6, "wsp-x5650": 6, "wsp-d510": 2, "lightpc": 8, "xeon-6330": 28}
# Stops of whole machines: numbers of CPUs, all with these caches.
STOP_CPUS = (1, 2, 4)
STOP_CACHES = "wsp-c5528"
LOADS = ("idle", "fsync")
STOPS = 2
IN_TURN = "flush-in-turn"  # a planted bug: the boot CPU writes back after the others
LINE_BYTES = 64

# What each part is about, by file; and whether the paper's routine does it, too (section 4).
CPUS_TOGETHER, MARKER = "all CPUs together, until they halt", "valid marker"
WIRE, AFTER = "interrupt of the wire", "report, and power that returns"
PAPERS = {
    "stop/power.c": WIRE,
    "x86/wire.c": WIRE,
    "x86/isa.h": "instructions of the processor",
    "stop/core.c": "beginning",
    "stop/fast.c": CPUS_TOGETHER,
    "stop/stop.h": CPUS_TOGETHER,
    "hooks/park_queue.h": CPUS_TOGETHER,
    "x86/context.c": "contexts",
    "x86/context_64.S": "contexts",
    "stop/record.c": MARKER,
    "x86/nvdimm.c": "order to the NVDIMM",
}
OURS = {
    "resume/pci.c": "devices off the bus",
    "x86/apic.c": "interrupt controllers, platform, clock",
    "x86/platform.c": "interrupt controllers, platform, clock",
    "hooks/timekeeping.h": "interrupt controllers, platform, clock",
    "x86/quiet.c": "counters, NMIs and machine checks off",
    "stop/timeline.c": "timeline",
    "stop/budget.c": "whether it may begin",
    "stop/hotplug.c": "whether it may begin",
    "x86/cpu.c": "whether it may begin",
    "resume/decide.c": "whether it may begin",
    "stop/hold.c": "policy of the image",
    "stop/trust.c": "authentication of the image",
    "x86/reset.c": AFTER,
    "x86/off.c": AFTER,
}
# Of a file of the paper's, what the paper's does not do.
ALSO_OURS = {"rem_power_report_stopped": AFTER, "rem_power_wait": AFTER}


def measure(it: Context) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "flushes": {profile: _flushes(it, profile, most) for profile, most in CPUS.items()},
        "windows_ns": {name: it.model.window_ns(name) for name in it.model.names("supply")},
        "path": [[one.file, one.name, one.code_lines] for one in save_path(repo_dir() / "kernel")],
    }
    if not it.is_ci:
        raw["stops"] = {str(cpus): _stops(it, cpus) for cpus in STOP_CPUS}
        raw["in_turn"] = _stops(it, max(STOP_CPUS), IN_TURN)
    return raw


def _flushes(it: Context, profile: str, most: int) -> dict[str, Any]:
    """By number of CPUs, of one processor with every line dirty."""
    steps = range(1 if it.is_ci else most.bit_length())
    numbers = sorted({most} | {1 << step for step in steps if 1 << step < most})
    alone = _wbinvd(it, profile, 1, cache_bytes(profile, 1))
    return {str(cpus): _flush(it, profile, cpus, alone) for cpus in numbers}


def _wbinvd(it: Context, profile: str, cpus: int, dirty_bytes: int) -> dict[str, int]:
    answer: dict[str, int] = it.model.ask(
        "flush", profile=profile, cores=cpus, dirty_bytes=dirty_bytes, how="wbinvd"
    )
    return answer


def _flush(it: Context, profile: str, cpus: int, alone: dict[str, int]) -> dict[str, int]:
    """All CPUs at the same time (WSP, section 4), and what each takes where it waits for the one
    before it.

    The first of those has the last level to write; the others walk it, and write their own caches.
    """
    together = _wbinvd(it, profile, cpus, cache_bytes(profile, cpus))
    own_lines = (together["lines"] - alone["lines"]) // max(1, cpus - 1)
    other = _wbinvd(it, profile, 1, own_lines * LINE_BYTES)
    return {
        "lines": together["lines"],
        "write_ns": together["write_ns"],
        "together_ns": together["time_ns"],
        "first_ns": alone["time_ns"],
        "other_ns": other["time_ns"],
    }


def _stops(it: Context, cpus: int, planted: str | None = None) -> list[dict[str, Any]]:
    """Of a whole machine whose caches the model has (`rem bench stop-go --caches`)."""
    samples = measured(
        it, cpus, LOADS, ("fast",), STOPS, caches=STOP_CACHES, planted=planted
    )["fast"]  # fmt: skip
    return [{key: one[key] for key in ("load", "stop_ns", "flushes")} for one in samples]


def _in_turn_ns(one: dict[str, int], cpus: str) -> int:
    return one["first_ns"] + (int(cpus) - 1) * one["other_ns"]


def _vs_one(one: dict[str, int]) -> float:
    """All together, over one write-back or all lines through the memory, whichever is longer."""
    return one["together_ns"] / max(one["first_ns"], one["write_ns"])


def _judge_model(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for profile, by_cpus in raw["flushes"].items():
        key = profile.replace("-", "_")
        for cpus, one in by_cpus.items():
            report.expect(
                f"{profile}, {cpus} CPUs: together they take one write-back",
                _vs_one(one) <= ONE_WRITE_BACK_MAX,
            )
        cpus = max(by_cpus, key=int)
        one, in_turn_ns = by_cpus[cpus], _in_turn_ns(by_cpus[cpus], cpus)
        report.count(f"{key}_cpus", int(cpus), "CPUs")
        report.add(f"{key}_together_ns", one["together_ns"], "ns")
        report.add(f"{key}_in_turn_ns", in_turn_ns, "ns")
        report.add(f"{key}_in_turn", round(in_turn_ns / one["together_ns"], 2), "x")
        if profile in paper["testbeds"]:
            window_ns = raw["windows_ns"][paper["supplies"][profile]]
            report.add(f"{key}_together_percent_of_window",
                       round(one["together_ns"] / window_ns * 100, 1), "%")  # fmt: skip
            report.add(f"{key}_in_turn_percent_of_window",
                       round(in_turn_ns / window_ns * 100, 1), "%")  # fmt: skip
            report.expect(
                f"{profile}: {cpus} CPUs in turn take nearly {cpus} times as long",
                in_turn_ns * ONE_WRITE_BACK_MAX >= int(cpus) * one["together_ns"],
            )


def _subject(file: str, name: str) -> tuple[str, bool] | None:
    """What a function is about, and whether the paper's routine does that."""
    if name in ALSO_OURS:
        return ALSO_OURS[name], False
    if file in PAPERS:
        return PAPERS[file], True
    return (OURS[file], False) if file in OURS else None


def _lines(raw: dict[str, Any]) -> dict[tuple[str, bool], int]:
    """Lines of the save path by subject, of functions that have one; first those of what the
    paper's routine does (WSP, section 4; section 6 has its length)."""
    found: dict[tuple[str, bool], int] = {}
    for file, name, code_lines in raw["path"]:
        subject = _subject(file, name)
        if subject is not None:
            found[subject] = found.get(subject, 0) + code_lines
    return dict(sorted(found.items(), key=lambda row: (not row[0][1], -row[1])))


def _judge_lines(raw: dict[str, Any], report: Report) -> None:
    lines = _lines(raw)
    report.count("save_functions", len(raw["path"]), "functions")
    report.count("save_lines", sum(row[2] for row in raw["path"]), "lines")
    papers = sum(count for (_, is_papers), count in lines.items() if is_papers)
    report.count("save_lines, what the paper's does", papers, "lines")
    for (subject, _), count in lines.items():
        report.count(f"save_lines, {subject}", count, "lines")
    unknown = [name for file, name, _ in raw["path"] if _subject(file, name) is None]
    report.expect(
        f"each function of the save path has a subject {' '.join(unknown)}".rstrip(), not unknown
    )
    names = {name for _, name, _ in raw["path"]}
    report.expect(
        "the path leads from the interrupt to the commit",
        {SAVE_BEGIN, "rem_park_halt", "rem_record_commit", "rem_word_store"} <= names,
    )


def _judge_stops(raw: dict[str, Any], report: Report) -> None:
    """Of whole machines: the kernel's own flush, and that of one with the planted bug."""

    def vs_one(samples: list[dict[str, Any]]) -> float:
        return max(Flushes(**one["flushes"]).vs_one for one in samples)

    for cpus, samples in raw["stops"].items():
        report.add(f"stop_{cpus}_max_ns", worst_ns(samples), "ns")
        flush_ns = max(one["flushes"]["taken_ns"] for one in samples)
        report.add(f"stop_{cpus}_flush_max_ns", flush_ns, "ns")
        report.add(f"stop_{cpus}_vs_one", round(vs_one(samples), 3), "x")
        report.expect(
            f"a Stop of {cpus} CPUs has the time of one write-back in it",
            vs_one(samples) <= ONE_WRITE_BACK_MAX,
        )
    report.add("stop_in_turn_max_ns", worst_ns(raw["in_turn"]), "ns")
    report.add("stop_in_turn_vs_one", round(vs_one(raw["in_turn"]), 3), "x")
    report.expect(
        "a kernel whose boot CPU writes back after the others is found: it takes two",
        vs_one(raw["in_turn"]) >= 2 / ONE_WRITE_BACK_MAX,
    )


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    _judge_model(raw, paper, report)
    _judge_lines(raw, report)
    if "stops" in raw:
        _judge_stops(raw, report)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    times, lines = figure.subplots(1, 2, width_ratios=(3, 2))
    for number, (profile, by_cpus) in enumerate(raw["flushes"].items()):
        cpus = [int(one) for one in by_cpus]
        together = [one["together_ns"] / 1e6 for one in by_cpus.values()]
        in_turn = [_in_turn_ns(one, at) / 1e6 for at, one in by_cpus.items()]
        times.plot(cpus, together, "-o", color=f"C{number}", markersize=3, label=profile)
        times.plot(cpus, in_turn, ":", color=f"C{number}")
    for limit in ("save_ms_max", "testbed_ms_max"):
        times.axhline(paper[limit], color="black", linewidth=0.8, linestyle="--")
    times.set_xscale("log", base=2)
    times.set(xlabel="CPUs of one processor (dotted: one after another)", yscale="log",
              ylabel="ms, every line dirty (dashed: paper)")  # fmt: skip
    times.legend(frameon=False, fontsize=7)
    for name, bar in (("paper, at most", {("", True): paper["save_lines_below"] - 1}),
                      ("ours", _lines(raw))):  # fmt: skip
        below = 0
        for (_, is_papers), count in bar.items():
            colour = "#0072B2" if is_papers else "#D55E00"
            lines.bar(name, count, bottom=below, color=colour, edgecolor="white")
            below += count
    lines.set(ylabel="lines of the save routine; orange: ours alone")
