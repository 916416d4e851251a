# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, Figure 8: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report

CORES = {"wsp-c5528": 4, "wsp-4180": 6, "wsp-x5650": 6, "wsp-d510": 2}
HOWS = ("wbinvd", "clflushopt")


def measure(it: Context) -> dict[str, Any]:
    steps = range(7, 25, 6 if it.is_ci else 1)
    sizes = [1 << step for step in steps]
    curves = [
        {
            "profile": profile,
            "how": how,
            "dirty_bytes": size,
            **it.model.ask("flush", profile=profile, cores=cores, dirty_bytes=size, how=how),
        }
        for profile, cores in CORES.items()
        for how in HOWS
        for size in sizes
    ]
    windows = {name: it.model.window_ns(name) for name in it.model.names("supply")}
    return {"curves": curves, "windows_ns": windows}


def _times_ns(raw: dict[str, Any], profile: str, how: str = "wbinvd") -> list[int]:
    return [
        case["time_ns"]
        for case in raw["curves"]
        if (case["profile"], case["how"]) == (profile, how)
    ]


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for profile in CORES:
        times_ns = _times_ns(raw, profile)
        key = profile.replace("-", "_")
        report.add(f"{key}_max_ns", max(times_ns), "ns")
        report.add(f"{key}_min_ns", min(times_ns), "ns")
        report.expect(f"{profile}: under 5 ms", max(times_ns) < paper["save_ms_max"] * 10**6)
    for profile in paper["testbeds"]:
        times_ns = _times_ns(raw, profile)
        worst = max(times_ns)
        report.expect(f"{profile}: under 3 ms", worst < paper["testbed_ms_max"] * 10**6)
        report.expect(
            f"{profile}: little dependence on dirty bytes",
            (worst - min(times_ns)) * 1000 <= paper["spread_permille_max"] * worst,
        )
        for supply in paper["supplies"][profile]:
            share = worst * 1000 // raw["windows_ns"][supply]
            report.add(f"{supply.replace('-', '_')}_share_permille", share, "")
            most = paper["window_share_permille"][1]
            report.expect(f"{profile} on {supply}: {share / 10} % of the window", share <= most)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    for number, profile in enumerate(CORES):
        for how, style in zip(HOWS, ("-o", ":"), strict=True):
            points = [
                (case["dirty_bytes"], case["time_ns"] / 1e6)
                for case in raw["curves"]
                if (case["profile"], case["how"]) == (profile, how)
            ]
            axes.plot(*zip(*points, strict=True), style, color=f"C{number}", markersize=3,
                      label=f"{profile}, {how}")  # fmt: skip
    for limit in ("save_ms_max", "testbed_ms_max"):
        axes.axhline(paper[limit], color="black", linewidth=0.8, linestyle="--")
    axes.set_xscale("log", base=2)
    axes.set(xlabel="dirty bytes", ylabel="ms (dashed: the paper's bounds)", ylim=(0, 5.5))
    axes.legend(frameon=False, fontsize=7, ncol=2)
