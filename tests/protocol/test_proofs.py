# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: for any bytes in a record block, the loader's decision reads nothing outside of it and
ends, and what a cold boot closes is never entered after it (invariants 1 to 3).

Method: CBMC looks at all values of all inputs (`make -C loader prove`, loader/prove/), with tables
of two entries. Each planted bug makes a proof fail.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lab import run
from lab.paths import repo_dir
from lab.setup.debian_root import DebianRoot
from lab.setup.products import Group, Packages, need_all

LIMIT_S = 1800
# CBMC 6, which Debian 12 does not have.
PROVER = DebianRoot("apt", ("cadical", "cbmc", "libc6-dev", "make"), "trixie")
PROOFS = 3
# In loader/core/record.c: a text and what replaces it, and the assertion that must fail. An image
# that is entered though it is consumed is entered again the next time: CBMC stops at either.
PLANTED = {
    "damaged-slots-stay": (
        "decision->clear |= 1u << n;",
        "decision->clear |= 0;",
        ("next.reason != REM_BOOT_RESUME",),
    ),
    "next-image-stays": (
        "closes > consumed && closes > decision->consume",
        "closes > consumed + 1 && closes > decision->consume",
        ("next.reason != REM_BOOT_RESUME",),
    ),
    "consumed-is-entered": (
        "slot[newest].sequence <= consumed",
        "slot[newest].sequence < consumed",
        ("decision->sequence > consumed", "next.reason != REM_BOOT_RESUME"),
    ),
}


def prove(folder: Path, what: str) -> run.Done:
    """Run proofs of the loader in *folder*, in a Debian that has CBMC; nothing of that changes."""
    root = need_all([PROVER, Packages((Group.MACHINE,))])[PROVER]
    argv: list[str | Path] = ["bwrap", "--ro-bind", root, "/", "--bind", folder, "/mnt"]
    argv += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--setenv", "PATH", "/usr/bin"]
    argv += ["make", "-C", "/mnt/loader", "OUT=/mnt/out", what]
    return run.run(argv, check=False, timeout_s=LIMIT_S)


@pytest.fixture
def loader(tmp_path: Path) -> Path:
    for name in ("loader", "format"):
        shutil.copytree(repo_dir() / name, tmp_path / name)
    return tmp_path


@pytest.mark.soak
@pytest.mark.timeout(LIMIT_S)
def test_loader_is_right_for_all_bytes(loader: Path) -> None:
    done = prove(loader, "prove")
    assert done.ok, done.stdout + done.stderr
    assert done.stdout.count(" 0 of ") == PROOFS


@pytest.mark.soak
@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("name", PLANTED)
def test_planted_bug_makes_the_proof_fail(loader: Path, name: str) -> None:
    right, wrong, assertions = PLANTED[name]
    record = loader / "loader" / "core" / "record.c"
    text = record.read_text(encoding="utf-8")
    assert text.count(right) == 1
    record.write_text(text.replace(right, wrong), encoding="utf-8")
    done = prove(loader, "prove-close")
    assert not done.ok
    said = (loader / "out" / "prove" / "close.log").read_text(encoding="utf-8")
    assert any(f"assertion {assertion}" in said for assertion in assertions)
