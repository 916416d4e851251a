# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: programs in guest/objects have the same results on plain memory, on libpmemobj's objects
and on its transactions, and find a wrong one themselves.

Method: the three builds do the same operations on the host, and check all results at their end.
Negative proof: in a copy of each source one line is wrong, and the same check is red.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.paths import repo_dir
from lab.setup.objects import LINE, SOURCE, ObjectPrograms
from lab.setup.products import need
from lab.testbed.guest_job import numbers_in
from lab.verdict import BrokenError

pytestmark = pytest.mark.full

KIB = 1024
OPERATIONS = 3000
WORK = 100  # instructions of each operation besides
LIMIT_S = 120.0
# Of each work a line that is right, and what makes it wrong.
BUGS = {
    "paths": ("node->distance + node->length[i]", "node->distance + 2 * node->length[i]"),
    "solver": ("sum / block->matrix[row][0]", "sum / block->matrix[row][1]"),
    "stencil": ("PART * (left +", "PART * (2 * left +"),
    "table": ("table->count--;", ""),
    "tree": ("count(index, UINT64_MAX);", ""),
    "words": ("node->count++;", ""),
}


@pytest.fixture(scope="module")
def programs() -> Path:
    return need(ObjectPrograms())


def digest_of(program: Path, folder: Path) -> int:
    """What it says of all its results; BrokenError if they are wrong."""
    pool = folder / "pool"
    pool.unlink(missing_ok=True)
    done = subprocess.run(
        [program, pool, str(KIB)],
        input=f"{OPERATIONS} 0\nsettle\n{OPERATIONS} {WORK}\n",
        env=os.environ | {"PMEM_IS_PMEM_FORCE": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    last = done.stdout.splitlines()[-1] if done.stdout else done.stderr
    if not last.startswith("OK "):
        raise BrokenError("wrong-result", last)
    return numbers_in(last)["digest"]


def test_each_source_has_a_planted_bug() -> None:
    works = (repo_dir() / SOURCE / "works").glob("*.c")
    assert {path.stem for path in works} == set(BUGS)


@pytest.mark.parametrize("work", BUGS)
def test_three_builds_have_the_same_results(work: str, programs: Path, tmp_path: Path) -> None:
    digests = {
        build: digest_of(programs / f"{work}-{build}", tmp_path)
        for build in ("plain", "object", "trans")
    }
    assert len(set(digests.values())) == 1, digests


@pytest.mark.parametrize("work", BUGS)
def test_a_wrong_line_is_found(work: str, tmp_path: Path) -> None:
    copy = tmp_path / "objects"
    shutil.copytree(repo_dir() / SOURCE, copy)
    (tmp_path / "works").mkdir()
    shutil.copy(repo_dir() / LINE, tmp_path / "works")
    source, (right, wrong) = copy / "works" / f"{work}.c", BUGS[work]
    text = source.read_text(encoding="utf-8")
    assert right in text
    source.write_text(text.replace(right, wrong), encoding="utf-8")
    argv = ["make", "-s", "-C", str(copy), f"OUT={tmp_path}", str(tmp_path / f"{work}-plain")]
    subprocess.run(argv, check=True, timeout=LIMIT_S)
    with pytest.raises(BrokenError):
        digest_of(tmp_path / f"{work}-plain", tmp_path)
