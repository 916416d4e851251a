# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What negative proofs share: a planted bug is found only by the verdict that its patch names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lab.errors import RemError
from lab.paths import repo_dir
from lab.setup.kernel import kernel_mutants
from lab.setup.loader import loader_mutants
from lab.setup.patch_series import Patch
from lab.verdict import verdict_of


def planted() -> dict[str, Patch]:
    """All planted bugs of kernel and loader, by name."""
    series = (kernel_mutants(repo_dir()), loader_mutants(repo_dir()))
    return {patch.name: patch for each in series for patch in each.mutants}


@contextmanager
def must_be_found(name: str, what: str = "") -> Iterator[None]:
    """The check in this block must fail, because of the planted bug of that name.

    *what*: a regular expression for what its message has to say, where other faults would have the
    same verdict.
    """
    expected = planted()[name].verdicts
    try:
        yield
    except (RemError, AssertionError) as error:
        verdict = verdict_of(error)
        if verdict not in expected:
            wanted = " or ".join(sorted(expected))
            pytest.fail(f"{name} is found by {verdict}, not by {wanted}: {error}")
        if not re.search(what, str(error)):
            pytest.fail(f"{name} is found by something else than {what}: {error}")
        return
    pytest.fail(f"{name} is missed")
