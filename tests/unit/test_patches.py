# SPDX-License-Identifier: Apache-2.0 OR MIT
"""All patches are well-formed: patch(1) ignores a hunk behind one that has a line too many, and
says nothing of it; git does not.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.paths import repo_dir
from lab.run import run
from lab.tidy.files import project_files

PATCHES = sorted(path for path in project_files(repo_dir()) if path.suffix == ".patch")
TWO_HUNKS = """--- a/one
+++ b/one
@@ -1,1 +1,2 @@
 first
+new
{more}@@ -9,1 +10,2 @@
 last
+newer
"""


def wrong(patch: Path) -> str:
    """What git says of it; empty if it is well-formed."""
    done = run(["git", "apply", "--numstat", patch], check=False)
    return "" if done.ok else done.stderr.strip()


def test_each_patch_is_well_formed() -> None:
    assert len(PATCHES) > 250
    found = {str(path): wrong(repo_dir() / path) for path in PATCHES}
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(("more", "is_right"), [("", True), (" a line too many\n", False)])
def test_hunk_that_would_be_ignored_is_found(tmp_path: Path, more: str, is_right: bool) -> None:
    patch = tmp_path / "one.patch"
    patch.write_text(TWO_HUNKS.format(more=more), encoding="utf-8")
    assert (wrong(patch) == "") == is_right
