# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The configuration of the packages' kernel: Debian's own, and a list of what differs, with why.

Goal: no line of the list is without a reason, none is there twice, and what goes with it is found.
Method: the list as text, and small configurations.
"""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest

from lab.errors import InfraError
from lab.paths import repo_dir
from lab.setup import kernel_config
from lab.setup.kernel_config import LINE, config_lost, debian_config, merge_fragments, symbol_of
from lab.setup.packages import KERNEL_CONFIG, KERNEL_SOURCE

LIST = "\n".join(
    (repo_dir() / "kernel" / "config" / name).read_text(encoding="utf-8")
    for name in ("debian.config", "debian-off.config")
)
REASON_WORDS_MIN = 3


def without_reason(text: str) -> list[str]:
    """The first lines of paragraphs that set something and do not begin with a sentence."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        lines = paragraph.splitlines()
        remarks = [line for line in lines if not LINE.match(line)]
        is_first = lines[: len(remarks)] == remarks
        words = " ".join(line.lstrip("# ") for line in remarks).split()
        if len(remarks) < len(lines) and not (is_first and len(words) >= REASON_WORDS_MIN):
            found.append(lines[0])
    return found


def test_each_family_has_a_reason() -> None:
    assert without_reason(LIST) == []
    assert LIST.count("\n\n") > 40


@pytest.mark.parametrize(
    "text",
    ["# CONFIG_WLAN is not set\n", "# Radio.\nCONFIG_A=y\n", "CONFIG_A=y\n# It is needed here.\n"],
)
def test_a_family_without_a_reason_is_found(text: str) -> None:
    assert without_reason(f"# Radio: a server has cables.\nCONFIG_B=y\n\n{text}") != []


def test_no_symbol_is_there_twice() -> None:
    symbols = [symbol_of(line) for line in LINE.findall(LIST)]
    assert sorted(set(symbols)) == sorted(symbols)


def test_what_kconfig_excludes_is_off() -> None:
    """Each symbol that kernel/Kconfig names with "!" or "=n", of x86."""
    kconfig = (repo_dir() / "kernel" / "Kconfig").read_text(encoding="utf-8")
    depends = kconfig.split("select", 1)[0]
    names = set(re.findall(r"!(\w+)|(\w+)=n", depends))
    excluded = {one or other for one, other in names} - {"PREEMPT_RT", "RISCV"}
    assert len(excluded) == 6
    off = set(LIST.splitlines())
    assert {name for name in excluded if f"# CONFIG_{name} is not set" not in off} == set()


def test_what_goes_with_our_lines_is_listed() -> None:
    base = (
        "# a remark\nCONFIG_WLAN=y\nCONFIG_ATH9K=m\nCONFIG_HZ=250\nCONFIG_LZ=m\n"
        "# CONFIG_OFF is not set\nCONFIG_SAME=y\nCONFIG_CLEARED=y\n"
    )
    ours = "# why\n# CONFIG_WLAN is not set\n"
    got = "# CONFIG_WLAN is not set\nCONFIG_HZ=1000\nCONFIG_LZ=y\nCONFIG_SAME=y\n"
    got += "# CONFIG_CLEARED is not set\nCONFIG_NEW=y\n"
    assert config_lost(base, ours, got) == [
        "CONFIG_ATH9K=m",
        "CONFIG_HZ=250 is now CONFIG_HZ=1000",
        "CONFIG_LZ=m is now CONFIG_LZ=y",
        "CONFIG_CLEARED=y",
    ]
    assert config_lost(base, ours, merge_fragments([base, ours])) == []


@pytest.mark.parametrize(("have", "says"), [("", "not installed"), ("6.12.1-1", "of version")])
def test_debians_configuration_of_another_version_is_refused(
    monkeypatch: pytest.MonkeyPatch, have: str, says: str
) -> None:
    found = {KERNEL_CONFIG: have} if have else {}
    monkeypatch.setattr(kernel_config, "installed_versions", lambda names: found)
    with pytest.raises(InfraError, match=says) as error:
        debian_config("6.12.2-1")
    assert f"apt install {KERNEL_CONFIG} {KERNEL_SOURCE}" in error.value.message


def test_debians_configuration_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "config.xz"
    file.write_bytes(lzma.compress(b"CONFIG_A=y\n"))
    monkeypatch.setattr(kernel_config, "installed_versions", lambda names: {KERNEL_CONFIG: "1"})
    monkeypatch.setattr(kernel_config, "DEBIANS", file)
    assert debian_config("1") == "CONFIG_A=y\n"
