# SPDX-License-Identifier: Apache-2.0 OR MIT
"""OFF2F, Table II: see README.md."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from lab.experiment.census import EXECUTABLE, WRITABLE, segments
from lab.experiment.run import Context, Report
from lab.paths import repo_dir
from lab.setup.off2f import Off2fTool
from lab.setup.products import need

KIB = (32, 64, 96, 128)
NOP = b"\x90"


def measure(it: Context) -> dict[str, Any]:
    tool = need(Off2fTool())
    found = {}
    for kib in KIB:
        elf, abc = it.out / f"nops-{kib}k", it.out / f"nops-{kib}k.abc"
        generator = repo_dir() / "off2f" / "guest" / "off2f-nops.py"
        subprocess.run([sys.executable, generator, str(kib << 10), elf], check=True)
        subprocess.run([tool, "convert", elf], check=True)
        shown = subprocess.run([tool, "info", abc, "--json"], capture_output=True, check=True)
        info = json.loads(shown.stdout)
        found[str(kib)] = {
            **_segments(elf.read_bytes()),
            "xyz_text_bytes": sum(text["bytes"] for text in info["texts"]),
            "abc_bytes": info["abc_bytes"],
        }
    return found


def _segments(elf: bytes) -> dict[str, int]:
    """NOPs in executable segments, bytes of writable ones."""
    found = {"nops": 0, "text_bytes": 0, "data_bytes": 0}
    for one in segments(elf):
        if one.flags & EXECUTABLE:
            found["nops"] += elf[one.offset : one.offset + one.file_bytes].count(NOP)
            found["text_bytes"] += one.file_bytes
        elif one.flags & WRITABLE:
            found["data_bytes"] += one.file_bytes
    return found


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    for kib, given in paper["nops"].items():
        report.count(f"nops_{kib}k", raw[kib]["nops"], "NOPs")
        report.count(f"data_bytes_{kib}k", raw[kib]["data_bytes"], "bytes")
        report.count(f"abc_bytes_{kib}k", raw[kib]["abc_bytes"], "bytes")
        report.expect(f"{kib} KB of text have {given} NOPs", raw[kib]["nops"] == given)
        report.expect(f"{kib} KB of text are in XYZ", raw[kib]["xyz_text_bytes"] == int(kib) << 10)
        report.expect(f"{kib} KB: 400 bytes of data", raw[kib]["data_bytes"] == paper["data_bytes"])


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    axes = figure.subplots()
    at = [int(kib) for kib in raw]
    axes.plot(at, list(paper["nops"].values()), "o", markersize=10, label="paper")
    axes.plot(at, [row["nops"] for row in raw.values()], "x", label="ours")
    axes.set(xlabel="KB of text", ylabel="NOPs", xticks=at)
    axes.legend(frameon=False)
