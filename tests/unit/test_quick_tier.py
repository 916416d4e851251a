# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The quick tier boots no machine: set-up for it makes no kernel."""

from __future__ import annotations

import re
from pathlib import Path

from lab.paths import repo_dir

# What a test needs that boots a machine.
BOOTS = re.compile(r"^from (lab\.(machine|testbed|demo)|tests\.support\.(claims|trials))\b", re.M)
TIERS = re.compile(r"pytest\.mark\.(full|soak)\b|\btier\(")


def untiered(text: str) -> bool:
    return bool(BOOTS.search(text)) and not TIERS.search(text)


def files() -> list[Path]:
    tests = repo_dir() / "tests"
    unit = tests / "unit"
    return [path for path in tests.rglob("test_*.py") if not path.is_relative_to(unit)]


def test_file_that_boots_a_machine_names_its_tier() -> None:
    found = [path for path in files() if BOOTS.search(path.read_text(encoding="utf-8"))]
    assert len(found) > 40
    assert [path for path in found if untiered(path.read_text(encoding="utf-8"))] == []


def test_file_without_a_tier_is_found() -> None:
    boots = "from tests.support.claims import booted\n"
    assert untiered(boots)
    assert not untiered(boots + "pytestmark = [pytest.mark.full]\n")
    assert not untiered("from lab.errors import RemError\n")
