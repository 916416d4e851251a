# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The bench of the RTL as a program: made by Verilator from models/memory/rtl.

With *coverage* it counts the lines that run, and is some times slower. With *mutants* it is made
of a copy of the sources with all planted bugs (models/memory/rtl/mutants); `+bug=NAME` switches
one on.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab import psm_parameters as parameters
from lab.paths import cache_dir, repo_dir
from lab.progress import step
from lab.run import stream
from lab.setup.host import tool_version
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packages import Group
from lab.setup.patch_series import Series, add_series, patched_copy, read_series

RTL = "models/memory/rtl"
MODULES = ("psm", "psm_queue", "psm_seed", "psm_leveler", "psm_channel")
SOURCES = (
    *(f"{RTL}/{name}.sv" for name in MODULES),
    f"{RTL}/psm_xcc.svh",
    f"{RTL}/bench",
    "format/rem_image.h",
    "format/rem_trace.h",
)
BITS = 12  # lines of the benches' memory, as a power of two
PROGRAM = "psm-bench"


def rtl_mutants(repo: Path) -> Series:
    """The planted bugs of the RTL."""
    return read_series(repo / RTL / "mutants")


def journal_lines(bits: int) -> int:
    """Lines of the journal, and as many spare ones: psm.sv has the same rule."""
    return 1 << max(bits - 5, 6)


def all_lines(bits: int) -> int:
    """Lines on the devices: data and the gap, journal, spares."""
    return (1 << bits) + 1 + 2 * journal_lines(bits)


@dataclass(frozen=True)
class PsmBench(Part[Path]):
    """The program."""

    coverage: bool = False
    mutants: bool = False

    groups = (Group.RTL,)

    def make(self, site: Site) -> Path:
        repo = repo_dir()
        inputs = Inputs("psm-bench").add("verilator", tool_version("verilator"))
        inputs.add("parameters", parameters.header()).add("build", repr((self.coverage, BITS)))
        inputs.add_path(Path(__file__), "psm_bench.py")
        for name in SOURCES:
            inputs.add_path(repo / name, name)
        if self.mutants:
            add_series(inputs, rtl_mutants(repo))

        def build(into: Path) -> None:
            with step("the memory controller's RTL"), tempfile.TemporaryDirectory() as folder:
                patches = rtl_mutants(repo).patches if self.mutants else ()
                patched_copy(repo, SOURCES, patches, Path(folder))
                _verilate(Path(folder), into, self.coverage, self.coverage or self.mutants)

        return site.product("psm-bench", inputs.key(), build) / PROGRAM


def _verilate(root: Path, into: Path, coverage: bool, small: bool) -> None:
    # A program for short runs is compiled with less effort.
    rtl, made, objects = root / RTL, root / "made", root / "objects"
    made.mkdir()
    (made / "psm_parameters.svh").write_text(parameters.header(), encoding="ascii")
    number = parameters.numbers()
    defines = {
        "BITS": BITS,
        "CHANNELS": number["CHANNELS"],
        "SUBS": 1 << number["SUB_BITS"],
        "ROW_BITS": BITS - 4,
        "ALL_LINES": all_lines(BITS),
        "READ": number["READ"],
        "PROGRAM": number["PROGRAM"],
    }
    flags = [*(f"-DBENCH_{name}={value}" for name, value in defines.items())]
    flags += ["-std=c++17", f"-I{rtl / 'bench'}", f"-I{root / 'format'}"]
    argv = ["verilator", "--cc", "--exe", "--build", "-j", "2", "-O3", "--top-module", "psm"]
    argv += ["--x-assign", "unique", "--x-initial", "unique", "-Wno-fatal", "-Wno-WIDTH"]
    argv += ["--coverage-line"] if coverage else []
    argv += ["-MAKEFLAGS", f"OPT_FAST={'-O1' if small else '-O2'} OPT_GLOBAL=-O2"]
    argv += [f"-GBITS={BITS}", f"-I{made}", f"-I{rtl}", "--Mdir", str(objects)]
    argv += ["-CFLAGS", " ".join(flags), *(str(rtl / f"{name}.sv") for name in MODULES)]
    argv += [str(rtl / "bench" / "main.cpp"), "-o", PROGRAM]
    stream(argv, log=cache_dir() / "logs" / "psm-bench.log", what="verilator")
    (objects / PROGRAM).rename(into / PROGRAM)
