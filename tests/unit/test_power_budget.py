# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem budget`: its figures, a verdict that can fail, and one line for each bad input.

The model itself is tested in models/power (cargo); these tests are of the Python part.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from lab import cli
from lab.errors import Exit, UsageError
from lab.paths import repo_dir
from lab.power.budget import parse_margin
from lab.power.hold_up import hold_up_ns
from lab.power.model import PowerModel


@pytest.fixture(scope="module")
def model() -> PowerModel:
    return PowerModel.ready()


def budget(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = cli.main(["budget", *words, "--json"])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


def test_figures_keep_the_contract(capsys: pytest.CaptureFixture[str], model: PowerModel) -> None:
    code, printed = budget(capsys, "--machine", "wsp-intel-c5528", "--margin", "1", "--nvram", "8G")
    figures = printed["figures"]
    assert code == Exit.PASS
    assert printed["ok"] is True
    assert {figure["kind"] for figure in figures.values()} == {"modelled"}
    phases = sum(figures[f"{name}_ns"]["value"] for name in ("park", "flush", "commit"))
    assert figures["stop_ns"]["value"] == phases
    assert figures["wsp_intel_750w_fits"]["value"] is True
    assert 0 < figures["nvdimm_save_ns"]["value"] < 10_000_000_000
    answer = model.ask("names", kind="supply")
    assert len(answer) == sum(name.endswith("_fits") for name in figures)


def test_supply_that_does_not_last_is_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--machine", "wsp-intel-c5528", "--supply", "wsp-intel-750w", "--margin", "1")
    assert budget(capsys, *words)[0] == Exit.PASS
    code, printed = budget(capsys, *words, "--park", "20ms")
    assert code == Exit.BROKEN
    assert printed["ok"] is False
    assert printed["figures"]["wsp_intel_750w_left_pj"]["value"] == 0


def test_larger_margin_and_an_older_capacitor_need_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def capacitance_uf(*words: str) -> int:
        return int(budget(capsys, *words)[1]["figures"]["capacitance_uf"]["value"])

    new = capacitance_uf("--margin", "1", "--capacitor-cycles", "0")
    assert capacitance_uf("--margin", "200%", "--capacitor-cycles", "0") in (2 * new - 1, 2 * new)
    assert capacitance_uf("--margin", "1", "--capacitor-cycles", "500000") > new


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--machine", "pdp-11"], "pdp-11"),
        (["--supply", "atx-23"], "choose one of atx-22"),
        (["--capacitor", "jar"], "jar"),
        (["--load", "lazy"], "busy or idle"),
        (["--margin", "0.5"], "0.5"),
        (["--margin", "nan"], "nan"),
        (["--margin", "much"], "much"),
        (["--dirty", "1T"], "1T"),
        (["--dirty", "1G"], "caches"),
        (["--dirty", "-1"], "negative"),
        (["--park", "-1ms"], "negative"),
        (["--park", "5"], "'5'"),
        (["--nvram", "0"], "NVDIMM"),
        (["--nvram", "8G", "--nvdimm", "tape"], "tape"),
        (["--power-cycles", "-1"], "not negative"),
        (["--capacitor-cycles", "100000000"], "nothing is left"),
        (["--picture", "budget.gif"], "svg"),
        (["--profiles", "no-such-file.toml"], "no-such-file.toml"),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    capsys: pytest.CaptureFixture[str], words: list[str], names: str
) -> None:
    assert cli.main(["budget", *words]) == Exit.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert names in err


def test_damaged_profile_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = (repo_dir() / "models" / "parts" / "power.toml").read_text(encoding="utf-8")
    for damage in (text[: len(text) // 2], "", text.replace("[supply.atx-22]", "[supply.atx-22")):
        file = tmp_path / "power.toml"
        file.write_text(damage, encoding="utf-8")
        assert cli.main(["budget", "--profiles", str(file)]) == Exit.USAGE
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert "profiles" in err


def test_margins_are_exact() -> None:
    assert parse_margin("1") == 1000
    assert parse_margin("1.5") == 1500
    assert parse_margin("250%") == 2500
    for text in ("", "%", "0.999", "101", "1.0001", "inf"):
        with pytest.raises(UsageError):
            parse_margin(text)


def test_steps_of_the_stop_are_the_kernels() -> None:
    """power.toml repeats numbers of kernel/stop/budget.c; here they are compared."""
    source = (repo_dir() / "kernel" / "stop" / "budget.c").read_text(encoding="utf-8")
    table = tomllib.loads(
        (repo_dir() / "models" / "parts" / "power.toml").read_text(encoding="utf-8")
    )
    steps = table["stop"]["fast"]
    for field in ("fixed_ns", "cpu_ns", "device_ns", "entry_ns"):
        found = re.search(rf"#define REM_STEP_{field.upper()} (\d+)", source)
        assert found and int(found[1]) == steps[field]["value"], field
    preempt = re.search(r"rem_preempt_off_us = (\d+);", source)
    assert preempt and int(preempt[1]) * 1000 == steps["preempt_off_ns"]["value"]


def test_hold_up_is_a_time_or_a_supply(model: PowerModel) -> None:
    assert hold_up_ns("17ms", "--hold-up") == 17_000_000
    assert hold_up_ns("wsp-amd-525w", "--hold-up") == 22_000_000
    for text in ("17", "-1ms", "atx-23", "", "ms"):
        with pytest.raises(UsageError, match="--hold-up"):
            hold_up_ns(text, "--hold-up")


def test_picture_is_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "budget.svg"
    assert cli.main(["budget", "--picture", str(picture)]) == Exit.PASS
    assert "<svg" in picture.read_text(encoding="utf-8")
    assert str(picture) in capsys.readouterr().err
