# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The tool on the programs of this host.

Goal: a round trip of every ELF program is byte-identical or refused with a reason. Method: all of
/usr/bin and /usr/sbin, converted, checked and restored.
"""

from __future__ import annotations

import filecmp
import json
import subprocess
from pathlib import Path

import pytest

from lab.setup.off2f import ensure_off2f_for_debian, ensure_tool
from lab.setup.pm import stock_version
from lab.setup.progress import Progress

pytestmark = pytest.mark.full

FOLDERS = ("/usr/bin", "/usr/sbin")
PROGRAMS_MIN = 100


def programs() -> list[Path]:
    found = []
    for folder in FOLDERS:
        for path in sorted(Path(folder).iterdir()):
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as file:
                    if file.read(4) == b"\x7fELF":
                        found.append(path)
    return found


@pytest.mark.timeout(900)
def test_every_program_is_restored_or_refused_with_a_reason(tmp_path: Path) -> None:
    tool = ensure_tool(Progress())
    abc, xyz, elf = (tmp_path / name for name in ("abc", "xyz", "elf"))
    same = 0
    for path in programs():
        made = subprocess.run(
            [tool, "convert", path, "--abc", abc, "--xyz", xyz],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            assert "is not converted: " in made.stderr, (path, made.stderr)
            continue
        subprocess.run([tool, "restore", abc, elf], check=True)
        assert filecmp.cmp(path, elf, shallow=False), path
        same += 1
    assert same >= PROGRAMS_MIN


def test_scan_counts_and_draws_a_figure(tmp_path: Path) -> None:
    tool = ensure_tool(Progress())
    picture = tmp_path / "picture.svg"
    argv: list[str | Path] = [tool, "scan", "/usr/bin", "--json", "--picture", picture]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout)["figures"]
    assert figures["convert"]["value"] >= PROGRAMS_MIN
    assert figures["dram_saved_pages"]["value"] * 4096 == figures["text_bytes"]["value"]
    assert figures["no_elf"]["value"] > 0  # scripts
    assert picture.read_text(encoding="utf-8").count("<circle") == figures["convert"]["value"]


def test_module_is_built_for_debians_kernel() -> None:
    module = ensure_off2f_for_debian(Progress()).module
    argv = ["modinfo", "-F", "vermagic", str(module)]
    magic = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert magic.startswith(f"{stock_version()}-amd64 "), magic
