# SPDX-License-Identifier: Apache-2.0 OR MIT
"""No kernel is built with Stop and Go and with what Go cannot restore: Kconfig refuses a
configuration of both, and set-up names what was refused.

Method: the kernel's own Kconfig, over Debian's source with our patches, as set-up has left them. It
does not ask the compiler which flags it knows, but takes all for known: so each option can be had.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.errors import InfraError
from lab.paths import repo_dir
from lab.run import run
from lab.setup.kernel import (
    base_dir,
    kernel_source_version,
    make_overlay,
    recipe_of,
    tree_dir,
)
from lab.setup.kernel_config import DEBIANS as DEBIANS_FILE
from lab.setup.kernel_config import config_lacks, merge_fragments

REPO = repo_dir()
OURS = "".join(
    (REPO / "kernel" / "config" / name).read_text("utf-8")
    for name in ("remanence.config", "x86.config")
)
DEBIANS = "".join(
    (REPO / "kernel" / "config" / name).read_text("utf-8")
    for name in ("debian.config", "debian-off.config")
)
STOP_AND_GO = "CONFIG_REMANENCE=y"
MACROS = "scripts/Kconfig.include"
ASKS_THE_COMPILER = re.compile(r"^(cc-option|ld-option|as-instr) = .*$", re.MULTILINE)
PROGRAMS = {"CC": "gcc", "LD": "ld", "AR": "ar", "NM": "nm", "OBJCOPY": "objcopy"}
ABSENT = dict.fromkeys(("RUSTC", "BINDGEN", "PAHOLE"), "none")
GRAPH_TRACER = ("FTRACE", "FUNCTION_TRACER", "DYNAMIC_FTRACE", "FUNCTION_GRAPH_TRACER")

pytestmark = pytest.mark.full  # the quick tier builds no kernel

Configure = Callable[..., list[str]]


def source() -> tuple[Path, Path]:
    """Debian's source, and the program that the build has made of it. Skips without a build."""
    try:
        version = kernel_source_version()
    except InfraError as error:
        pytest.skip(error.message)
    base = base_dir(version)
    program = tree_dir(version, recipe_of("", None)) / "scripts" / "kconfig" / "conf"
    if not base.is_dir() or not program.is_file():
        pytest.skip(f"no kernel was built in {base.parent}")
    return base, program


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Configure:
    """What Kconfig refuses of our configuration with other lines: the kernel's `allnoconfig`."""
    base, program = source()
    ours, work = tmp_path_factory.mktemp("patched"), tmp_path_factory.mktemp("kconfig")
    make_overlay(REPO, base, ours)
    asks, known = ASKS_THE_COMPILER.subn(r"\1 = y", (base / MACROS).read_text("utf-8"))
    assert known == 3
    (ours / MACROS).parent.mkdir()
    (ours / MACROS).write_text(asks, "utf-8")
    env = {
        "srctree": str(base),  # of files that are not in the working directory
        "ARCH": "x86",
        "SRCARCH": "x86",
        **PROGRAMS,
        **ABSENT,
        "KCONFIG_ALLCONFIG": str(work / "wanted"),
        "KCONFIG_CONFIG": str(work / "got"),
    }

    def configure(lines: str, whole: str = "") -> list[str]:
        wanted = merge_fragments([OURS if not whole else DEBIANS, lines])
        (work / "wanted").write_text(wanted, "utf-8")
        (work / "got").write_text(merge_fragments([whole, wanted]), "utf-8")
        way = "--olddefconfig" if whole else "--allnoconfig"
        run([program, "-s", way, "Kconfig"], cwd=ours, env=env, what="Kconfig")
        return config_lacks(wanted, (work / "got").read_text("utf-8"))

    return configure


@pytest.fixture(scope="module")
def debians() -> str:
    """Debian's own configuration, of any version of that source."""
    return lzma.decompress(DEBIANS_FILE.read_bytes()).decode()


def test_our_configuration_is_accepted(refused: Configure) -> None:
    assert refused("") == []


def test_our_lines_on_debians_configuration_are_accepted(refused: Configure, debians: str) -> None:
    assert refused("", debians) == []


def test_debians_own_lines_exclude_stop_and_go(refused: Configure, debians: str) -> None:
    """One of those that ours switch off is enough."""
    assert STOP_AND_GO in refused("CONFIG_X86_5LEVEL=y\n", debians)


@pytest.mark.parametrize(
    "lines",
    [
        "CONFIG_X86_5LEVEL=y",
        "CONFIG_X86_KERNEL_IBT=y",
        "CONFIG_X86_USER_SHADOW_STACK=y",
        "".join(f"CONFIG_{name}=y\n" for name in GRAPH_TRACER),
        "CONFIG_VIRTUALIZATION=y\nCONFIG_KVM=m\nCONFIG_KVM_INTEL=m",
        "CONFIG_AMD_IOMMU=y",
    ],
    ids=lambda lines: lines.rsplit("CONFIG_", 1)[-1].strip(),
)
def test_what_go_cannot_restore_excludes_stop_and_go(refused: Configure, lines: str) -> None:
    """Options that depend on Stop and Go are refused with it."""
    missing = refused(lines)
    assert STOP_AND_GO in missing
    assert not set(lines.splitlines()) & set(missing), "it would exclude nothing"
