# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What raw results depend on: it stands above them in raw.json.

tier, seed   as they were asked for
parameters   [values] of paper.toml: the paper's set-up, which experiments take theirs from
code         key of the code that is measured (docs/figures.toml); empty where that has no source
commit       of the checkout, and whether files differed from it
versions     QEMU, and the products of set-up that were used: KIND/KEY, the hash of all inputs
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lab.commit import changed_files, commit_of_checkout
from lab.errors import RemError
from lab.run import find_tool
from lab.setup.host import tool_version

EMULATORS = ("qemu-system-x86_64", "qemu-system-riscv64")
NO_COMMIT = "none"  # a checkout without git


@dataclass(frozen=True)
class Origin:
    """Taken before a measurement begins."""

    code: str
    tier: str
    seed: int
    parameters: dict[str, Any]
    commit: str
    is_changed: bool  # files differ from the commit

    @staticmethod
    def now(code: str, tier: str, seed: int, parameters: dict[str, Any]) -> Origin:
        try:
            commit, is_changed = commit_of_checkout().digest, bool(changed_files())
        except RemError:
            commit, is_changed = NO_COMMIT, False
        return Origin(code, tier, seed, parameters, commit, is_changed)

    def header(self, products: Iterable[str]) -> dict[str, Any]:
        """What raw.json has beside its results."""
        versions: dict[str, Any] = {
            name: tool_version(name) for name in EMULATORS if find_tool(name) is not None
        }
        return {
            "tier": self.tier,
            "seed": self.seed,
            "parameters": self.parameters,
            "code": self.code,
            "commit": {"digest": self.commit, "is_changed": self.is_changed},
            "versions": versions | {"products": sorted(products)},
        }
