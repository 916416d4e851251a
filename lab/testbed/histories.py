# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Questions to `rem-histories`: whether what clients remember is linearizable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.run import run
from lab.setup.histories import Histories
from lab.setup.products import need


def check_history(path: Path) -> dict[str, Any]:
    """Its `operations`, `unknown`, `keys`, and `impossible`: keys that no register explains."""
    done = run([need(Histories()), path], what="checking a history")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
