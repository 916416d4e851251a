# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Proofs of the small parts of the RTL, by yosys and what solves for it.

Each is a module of models/memory/rtl/formal that drives one part with any inputs. The leveler's
begins in any consistent state and looks far enough ahead to hold for ever; the queue's begins after
a reset and is bounded to some cycles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lab.errors import RemError
from lab.paths import repo_dir
from lab.run import run
from lab.setup.psm_bench import RTL

LIMIT_S = 1200.0


@dataclass(frozen=True)
class Proof:
    """One part; *cycles* are looked at. By `smt` (z3) or by `bits` (abc)."""

    name: str
    cycles: int
    by: str


PROOFS = (Proof("leveler", 20, "smt"), Proof("queue", 10, "bits"))
_PREPARE = "prep -top {name}_proof -flatten; memory_map; async2sync; opt -full; dffunmap;"
_PREPARE += " setundef -undriven -anyseq; opt_clean;"
_GATES = " simplemap; dffunmap; techmap; dffunmap; abc -g AND -fast; opt_clean; dffunmap;"


def prove(proof: Proof, folder: Path, change: tuple[str, str] | None = None) -> str:
    """Return `proved`, or what was found. *change* replaces a text of the part: a bug."""
    rtl = repo_dir() / RTL
    source = (rtl / f"psm_{proof.name}.sv").read_text(encoding="utf-8")
    if change is not None:
        if source.count(change[0]) != 1:
            raise RemError(f"psm_{proof.name}.sv has no single {change[0]!r}")
        source = source.replace(*change)
    part, goal = folder / "part.sv", rtl / "formal" / f"{proof.name}.sv"
    part.write_text(source, encoding="utf-8")
    read = f"read_verilog -sv -formal {part} {goal}; {_PREPARE.format(name=proof.name)}"
    if proof.by == "smt":
        model = folder / "part.smt2"
        run(["yosys", "-q", "-p", f"{read} write_smt2 -wires {model}"], what="yosys")
        argv = ["yosys-smtbmc", "-s", "z3", "-t", str(proof.cycles), str(model)]
        done = run(argv, check=False, timeout_s=LIMIT_S, what="z3")
        failed = re.search(r"Assert failed in .*", done.stdout)
        passed = "Status: PASSED" in done.stdout
    else:
        model = folder / "part.aig"
        run(["yosys", "-q", "-p", f"{read}{_GATES} write_aiger -B -zinit {model}"], what="yosys")
        words = f"read_aiger {model}; fold; strash; bmc3 -F {proof.cycles}; print_status"
        done = run(["yosys-abc", "-c", words], check=False, timeout_s=LIMIT_S, what="abc")
        failed = re.search(r"Output \d+ .* was asserted in frame \d+", done.stdout)
        passed = "No output asserted" in done.stdout
    if passed and not failed:
        return "proved"
    if failed:
        return failed[0]
    raise RemError(f"{proof.name}: no verdict: {done.stdout[-200:]}{done.stderr[-200:]}")
