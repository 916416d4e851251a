# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Area and clock of the RTL on an FPGA of 28 nm (Xilinx 7 series, as LightPC's), by yosys.

Each module is synthesized by itself; a controller has one queue, leveler and seed unit, and a
channel for each DIMM. The clock is that of the longest path through cells, without wires, so that
it is an upper bound. What the top module adds (multiplexers between channels) is not counted.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import psm_parameters
from lab.errors import RemError
from lab.paths import cache_dir, repo_dir
from lab.progress import step
from lab.run import run, stream
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group
from lab.setup.psm_bench import RTL

# Modules, how many a controller has of each, and settings that psm.sv gives them.
MODULES = {"psm_queue": "", "psm_seed": "", "psm_leveler": "", "psm_channel": "SLOT_BITS 3"}
# Lines of the memory whose registers are counted: 4 TB, the paper's smallest.
PAPER_LINE_BITS = 36
REGISTERS = ("start", "gap", "epoch", "pointer", "gap_writes", "swap_writes")
SEED_BITS, JOURNAL_BITS = 64, 32  # psm.sv: seed, journal_next
# As `synth_xilinx` begins, without its search for cells that could be shared, which takes hours.
_COARSE = """synth_xilinx -family xc7 -top {top} -noiopad -noclkbuf -run begin:prepare
hierarchy -check -top {top}
proc; flatten; opt_expr; opt_clean; opt -nodffe -nosdff; wreduce; peepopt; opt_clean
alumacc; memory_dff; opt_clean; memory_collect; opt_clean
synth_xilinx -family xc7 -top {top} -noiopad -noclkbuf -run map_memory:check
tee -o {top}.stat stat
tee -o {top}.sta sta
"""


@dataclass(frozen=True)
class Area:
    """Sums over all modules."""

    luts: int
    flip_flops: int
    block_rams: int
    lut_rams: int
    longest_path_ns: float
    register_bytes: int


@dataclass(frozen=True)
class PsmArea(Part[Area]):
    """What yosys finds."""

    groups = (Group.RTL,)

    def make(self, site: Site) -> Area:
        repo = repo_dir()
        inputs = Inputs("psm-area").add("yosys", tool_version("yosys"))
        inputs.add("script", _COARSE + repr(MODULES)).add("parameters", psm_parameters.header())
        for name in (*MODULES, "psm_xcc"):
            file = f"{RTL}/{name}.sv{'h' if name == 'psm_xcc' else ''}"
            inputs.add_path(repo / file, file)
        folder = site.product("psm-area", inputs.key(), _synthesize)
        return Area(**json.loads((folder / "area.json").read_text(encoding="ascii")))


def _synthesize(into: Path) -> None:
    (into / "psm_parameters.svh").write_text(psm_parameters.header(), encoding="ascii")
    rtl = repo_dir() / RTL
    channels = psm_parameters.numbers()["CHANNELS"]
    counts: dict[str, int] = {}
    longest_ps = 0
    for name, setting in MODULES.items():
        script = f"read_verilog -sv -I{into} -I{rtl} {rtl / name}.sv\n"
        script += f"chparam -set {setting} {name}\n" if setting else ""
        (into / "script.ys").write_text(script + _COARSE.format(top=name), encoding="ascii")
        with step(f"synthesis of {name}"):
            argv = ["yosys", "-q", "script.ys"]
            stream(argv, cwd=into, log=cache_dir() / "logs" / "psm-area.log", what="yosys")
        cells, path_ps = _read_reports(into, name)
        longest_ps = max(longest_ps, path_ps)
        for cell, count in cells.items():
            times = channels if name == "psm_channel" else 1
            counts[cell] = counts.get(cell, 0) + times * count
    area = Area(
        luts=sum(count for cell, count in counts.items() if re.fullmatch(r"LUT\d", cell)),
        flip_flops=sum(count for cell, count in counts.items() if re.match(r"FD[RSCP]E", cell)),
        block_rams=sum(count for cell, count in counts.items() if cell.startswith("RAMB")),
        lut_rams=sum(count for cell, count in counts.items() if re.match(r"RAM\d+[MXS]", cell)),
        longest_path_ns=longest_ps / 1000,
        register_bytes=_register_bytes(into, rtl),
    )
    (into / "area.json").write_text(json.dumps(vars(area)), encoding="ascii")


def _read_reports(folder: Path, top: str) -> tuple[dict[str, int], int]:
    """Cells by name, and the longest path in ps."""
    stat = (folder / f"{top}.stat").read_text(encoding="ascii")
    cells = {name: int(count) for name, count in re.findall(r"^\s+([A-Z]\w+)\s+(\d+)$", stat, re.M)}
    found = re.search(r"Latest arrival time in '\w+' is (\d+)", (folder / f"{top}.sta").read_text())
    if found is None or not cells:
        raise RemError(f"yosys says no cells or no path of {top}")
    return cells, int(found[1])


def _register_bytes(folder: Path, rtl: Path) -> int:
    file = folder / "leveler.json"
    words = (
        f"read_verilog -sv {rtl}/psm_leveler.sv; chparam -set BITS {PAPER_LINE_BITS} psm_leveler;"
    )
    words += f" prep -top psm_leveler; write_json {file}"
    run(["yosys", "-q", "-p", words], what="yosys")
    modules: dict[str, Any] = json.loads(file.read_text(encoding="ascii"))["modules"]
    (module,) = (it for name, it in modules.items() if "psm_leveler" in name)
    held = {
        bit
        for cell in module["cells"].values()
        if "dff" in cell["type"]
        for bit in cell["connections"]["Q"]
    }
    bits = sum(bit in held for name in REGISTERS for bit in module["netnames"][name]["bits"])
    return -(-(bits + SEED_BITS + JOURNAL_BITS) // 8)
