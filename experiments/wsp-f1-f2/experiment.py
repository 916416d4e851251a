# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, Figures 1 and 2: see README.md."""

from __future__ import annotations

from typing import Any

from lab.experiment.run import Context, Report

GIB = 1 << 30
KIND = "agiga"


def measure(it: Context) -> dict[str, Any]:
    cycles = list(range(0, 1_000_001, 100_000 if it.is_ci else 25_000))
    ageing = it.model.ask("ageing", name="ultracapacitor", cycles=cycles)["left_permille"]
    modules = {}
    for gib in (1, 2, 4, 8, 16):
        plain = it.model.ask("nvdimm", name=KIND, bytes=gib * GIB)
        at_ns = [plain["save_ns"] * step // 100 for step in range(101)]
        traced = it.model.ask("nvdimm", name=KIND, bytes=gib * GIB, at_ns=at_ns)
        modules[str(gib)] = {**traced, "at_ns": at_ns}
    return {
        "cycles": cycles,
        "left_permille": ageing,
        "modules": modules,
        "outages": [_outages(it, gap_s) for gap_s in range(0, 13, 6 if it.is_ci else 1)],
    }


def _outages(it: Context, gap_s: int) -> dict[str, Any]:
    """Outages with so much power in between, until a save is not whole; at most 20."""
    state: Any = None
    for number in range(1, 21):
        for event in ("save", "erase", {"charge": {"time_ns": gap_s * 10**9}}):
            after = it.model.ask("nvdimm-event", name=KIND, bytes=GIB, state=state, event=event)
            state = after["state"]
            if event == "save" and state["flash"] != "whole":
                return {"gap_s": gap_s, "first_loss": number, "flash": state["flash"]}
    return {"gap_s": gap_s, "first_loss": None, "flash": "whole"}


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    left = dict(zip(raw["cycles"], raw["left_permille"], strict=True))
    report.add("left_after_paper_cycles_permille", left[paper["cycles"]], "")
    report.expect(
        f"at most 10 % is lost after {paper['cycles']} cycles",
        1000 - left[paper["cycles"]] <= paper["loss_permille_max"],
    )
    for gib, module in raw["modules"].items():
        report.add(f"save_{gib}gib_ns", module["save_ns"], "ns")
        if int(gib) > paper["save_gib_max"]:
            continue
        report.expect(
            f"{gib} GiB are saved in under 10 s", module["save_ns"] < paper["save_s_max"] * 10**9
        )
        report.expect(
            f"the capacitor of {gib} GiB lasts twice as long",
            module["full_pj"] >= paper["lasts_times_min"] * module["save_pj"],
        )
        report.expect(
            f"its voltage stays at {paper['empty_v']} V or more",
            min(module["voltage_mv"]) >= paper["empty_v"] * 1000,
        )
    small = {gib: m for gib, m in raw["modules"].items() if int(gib) <= paper["save_gib_max"]}
    lasts = min(module["full_pj"] / module["save_pj"] for module in small.values())
    report.add("supply_over_save_min", round(lasts, 2), "")
    report.add("lowest_mv", min(min(m["voltage_mv"]) for m in small.values()), "mV")
    largest = small[str(paper["save_gib_max"])]
    report.add("8 GiB, supply_pj", largest["full_pj"], "pJ")
    report.add("8 GiB, capacitance_uf", largest["capacitance_uf"], "uF")
    losses = {case["gap_s"]: case["first_loss"] for case in raw["outages"]}
    report.count("first_outage_lost_without_charging", losses[0] or 0, "")
    report.expect("without charging in between the second save is whole, the third is not",
                  losses[0] == 3)  # fmt: skip
    longest = max(losses)
    report.expect(f"with {longest} s of power in between none is lost", losses[longest] is None)


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    ageing, save, losses = figure.subplots(1, 3)
    ageing.plot([n / 1000 for n in raw["cycles"]], [x / 10 for x in raw["left_permille"]])
    ageing.plot([paper["cycles"] / 1000], [90], "kx", label="paper's text")
    ageing.set(xlabel="thousand cycles", ylabel="capacitance left, %", ylim=(0, 105))
    ageing.legend(frameon=False, fontsize=7)
    for gib, module in raw["modules"].items():
        times = [at / 1e9 for at in module["at_ns"]]
        save.plot(times, [mv / 1000 for mv in module["voltage_mv"]], label=f"{gib} GiB")
    save.axhline(paper["empty_v"], color="black", linewidth=0.8, linestyle=":")
    save.axvline(paper["save_s_max"], color="black", linewidth=0.8, linestyle="--")
    save.set(xlabel="s of the save", ylabel="V at the capacitor")
    save.legend(frameon=False, fontsize=7)
    for case in raw["outages"]:
        lost = case["first_loss"]
        losses.bar(case["gap_s"], lost or 20, color="#D55E00" if lost else "#009E73")
    losses.set(xlabel="s of power between outages", ylabel="first save that is not whole",
               yscale="log", title="green: none in 20")  # fmt: skip
