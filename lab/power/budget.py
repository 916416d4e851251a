# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem budget`: what a Stop takes of a supply, and the capacitor that is needed: text, figures."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from lab.errors import UsageError
from lab.messages import info
from lab.power.model import PowerModel
from lab.result import Result

LOADS = ("busy", "idle")
PERMILLE = 1000


@dataclass(frozen=True)
class Plan:
    """What to compute, checked as far as possible without the model."""

    machine: str
    load: str
    margin_permille: int
    supply: str | None
    capacitor: str
    power_cycles: int
    capacitor_cycles: int
    given: dict[str, int]
    nvram_bytes: int | None
    nvdimm: str


def parse_margin(text: str) -> int:
    """`1.5`, or `150%`: how many times what is needed, in thousandths."""
    try:
        value = Decimal(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or not 1 <= value <= 100 or value * PERMILLE % 1:
        raise UsageError(f"--margin {text}: give 1 to 100 times, as 1.5 or 150%")
    return int(value * PERMILLE)


def compute(model: PowerModel, plan: Plan) -> dict[str, Any]:
    """The model's answer; with a size of NVRAM also what saving an NVDIMM takes."""
    answer: dict[str, Any] = model.ask(
        "budget",
        machine=plan.machine,
        load=plan.load,
        margin_permille=plan.margin_permille,
        supply=plan.supply,
        supply_cycles=plan.power_cycles,
        capacitor=plan.capacitor,
        capacitor_cycles=plan.capacitor_cycles,
        given=plan.given,
    )
    if plan.nvram_bytes is not None:
        answer["nvdimm"] = model.ask("nvdimm", name=plan.nvdimm, bytes=plan.nvram_bytes)
    return answer


def to_result(plan: Plan, answer: dict[str, Any]) -> Result:
    """The figures of `--json`. Not ok if a supply was named and it does not last."""
    result = Result("budget")
    result.add("stop_ns", answer["stop_ns"], "ns", "modelled")
    result.add("energy_pj", answer["energy_pj"], "pJ", "modelled")
    for phase in answer["phases"]:
        result.add(f"{phase['name']}_ns", phase["time_ns"], "ns", "modelled")
        result.add(f"{phase['name']}_pj", phase["energy_pj"], "pJ", "modelled")
    result.add("capacitance_uf", answer["capacitance_uf"], "uF", "modelled")
    for price, value in answer["cost"].items():
        unit = "uUSD" if price.endswith("_uusd") else "parts"
        result.add(f"cost_{price}", value, unit, "modelled")
    for name, verdict in answer["supplies"].items():
        key = name.replace("-", "_")
        result.add(f"{key}_fits", bool(verdict["fits"]), "", "modelled")
        result.add(f"{key}_margin_ns", verdict["margin_ns"], "ns", "modelled")
        result.add(f"{key}_left_pj", verdict["left_pj"], "pJ", "modelled")
    nvdimm = answer.get("nvdimm", {})
    for field, unit in (("save_ns", "ns"), ("save_pj", "pJ"), ("retention_ns", "ns")):
        if field in nvdimm:
            result.add(f"nvdimm_{field}", nvdimm[field], unit, "modelled")
    result.ok = plan.supply is None or bool(answer["supplies"][plan.supply]["fits"])
    return result


def print_budget(plan: Plan, answer: dict[str, Any]) -> None:
    """For people, on stderr."""
    margin = plan.margin_permille / PERMILLE
    info(
        f"machine {plan.machine}, {plan.load}: {answer['busy_mw'] / 1e3:g} W when all cores run, "
        f"{answer['idle_mw'] / 1e3:g} W when all are parked; margin {margin:g}"
    )
    for phase in answer["phases"]:
        info(
            f"  {phase['name']:8}{phase['time_ns'] / 1e6:10.3f} ms"
            f"{phase['energy_pj'] / 1e9:12.3f} mJ   {phase['running']} cores, "
            f"{phase['lines']} lines written"
        )
    info(
        f"a Stop with its margin: {answer['stop_ns'] / 1e6:.3f} ms, "
        f"{answer['energy_pj'] / 1e9:.3f} mJ"
    )
    cost = answer["cost"]
    info(
        f"a {plan.capacitor} of {answer['capacitance_uf'] / 1e3:.3f} mF holds that: "
        f"{cost['by_energy_uusd'] / 1e6:.4f} $ by the joule, "
        f"{cost['by_capacitance_uusd'] / 1e6:.4f} $ by the farad, "
        f"{cost['by_parts_uusd'] / 1e6:.2f} $ in parts one can buy ({cost['parts']})"
    )
    for name, verdict in answer["supplies"].items():
        _print_supply(name, verdict)
    if "nvdimm" in answer:
        _print_nvdimm(plan, answer["nvdimm"])


def _print_supply(name: str, verdict: dict[str, Any]) -> None:
    if verdict["dry_at_ns"] is not None:
        text = f"runs dry after {verdict['dry_at_ns'] / 1e6:.3f} ms"
    else:
        text = (
            f"{verdict['margin_ns'] / 1e6:.3f} ms and {verdict['left_pj'] / 1e9:.1f} mJ are left"
            + ("" if verdict["fits"] else ", less than the margin")
        )
    info(f"  {'fits' if verdict['fits'] else 'DOES NOT FIT':14}{name:18}{text}")


def _print_nvdimm(plan: Plan, nvdimm: dict[str, Any]) -> None:
    if nvdimm["kind"] == "nvdimm-n":
        info(
            f"NVDIMM {plan.nvdimm}: a save takes {nvdimm['save_ns'] / 1e9:.2f} s and "
            f"{nvdimm['save_pj'] / 1e12:.1f} J of its own {nvdimm['full_pj'] / 1e12:.1f} J "
            f"({nvdimm['capacitance_uf'] / 1e6:g} F)"
        )
    elif nvdimm["kind"] == "battery":
        info(f"NVDIMM {plan.nvdimm}: its battery holds for {nvdimm['retention_ns'] / 3.6e12:.1f} h")
    else:
        info(f"NVDIMM {plan.nvdimm}: keeps its content without energy")
