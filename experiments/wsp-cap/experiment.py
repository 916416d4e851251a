# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, the cost of capacitance: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report

MACHINE = "wsp-intel-c5528"
KIND = "supercapacitor"
CYCLES = 100_000
# Until all is parked, and the share of Stops that takes longer: given, for the shape of the trade.
PARKS_NS = (
    0,
    2_000_000,
    10_000_000,
    50_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
)
LONGER_SHARE = (1.0, 0.5, 0.2, 0.05, 0.01, 0.002, 0.0005, 0.0)


def measure(it: Context) -> dict[str, Any]:
    bound = _budget(it, {})
    parks = PARKS_NS[:: 3 if it.is_ci else 1]
    return {
        "bound": bound,
        "save": _budget(it, {"park_ns": 0}),
        "sweep": [
            {
                "park_ns": park_ns,
                "longer_share": LONGER_SHARE[PARKS_NS.index(park_ns)],
                **_budget(it, {"park_ns": park_ns}),
            }
            for park_ns in parks
        ],
        "half_farad": it.model.ask("capacitor", name=KIND, capacitance_uf=500_000),
    }


def _budget(it: Context, given: dict[str, int]) -> Any:
    answer = it.model.ask("budget", machine=MACHINE, load="busy", margin_permille=1000,
                          capacitor=KIND, capacitor_cycles=CYCLES, given=given)  # fmt: skip
    del answer["supplies"]
    return answer


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    half = raw["half_farad"]
    for name in ("save", "bound"):
        report.add(f"{name}_energy_pj", raw[name]["energy_pj"], "pJ")
        report.add(f"{name}_capacitance_uf", raw[name]["capacitance_uf"], "uF")
    report.add("half_farad_pj", half["energy_pj"], "pJ")
    report.add("half_farad_parts_uusd", half["cost"]["by_parts_uusd"], "uUSD")
    needed_f = raw["bound"]["capacitance_uf"] / 1e6
    report.expect(f"0.5 F feeds the Stop ({needed_f:.3f} F are needed)",
                  needed_f <= paper["capacitance_f"])  # fmt: skip
    report.expect("one part of 0.5 F costs no more than 2 $",
                  half["cost"]["by_parts_uusd"] <= paper["price_usd"] * 10**6)  # fmt: skip
    recovery_s = paper["memory_gb"] / paper["back_end_gb_per_s"]
    report.add("recovery_ns", round(recovery_s * 1e9), "ns")
    report.expect("recovery from the back end takes more than 8 min",
                  recovery_s > paper["recovery_min"] * 60)  # fmt: skip
    sizes = [case["capacitance_uf"] for case in raw["sweep"]]
    report.expect("a longer Stop needs more capacitance", sizes == sorted(sizes))


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    size, trade = figure.subplots(1, 2)
    sweep = raw["sweep"]
    farads = [case["capacitance_uf"] / 1e6 for case in sweep]
    size.plot([case["park_ns"] / 1e6 for case in sweep], farads, marker="o")
    size.axhline(paper["capacitance_f"], color="black", linewidth=0.8, linestyle=":",
                 label="paper: 0.5 F, less than 2 $")  # fmt: skip
    size.set(xlabel="ms until all is parked", ylabel="F needed", xscale="symlog", xlim=(0, 3000))
    size.legend(frameon=False, fontsize=8)
    recovery_s = paper["memory_gb"] / paper["back_end_gb_per_s"]
    prices = [case["cost"]["by_parts_uusd"] / 1e6 for case in sweep]
    expected_s = [max(case["longer_share"] * recovery_s, 0.01) for case in sweep]
    trade.plot(prices, expected_s, marker="o")
    trade.set(xlabel="$ in parts of 0.5 F", ylabel="s of recovery to expect for an outage",
              yscale="log", title="share of longer Stops: given, see README")  # fmt: skip
