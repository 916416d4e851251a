# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What Debian's checker says of packages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab.errors import InfraError
from lab.run import run

ERROR, WARNING = "E: ", "W: "
RAN = (0, 2)  # 2: there are errors


def said_by_lintian(packages: Sequence[Path]) -> list[str]:
    """Lines of errors and warnings. That lintian itself fails is an error of its own."""
    options = ("--allow-root", "--no-cfg", "--tag-display-limit", "0", "--fail-on", "error")
    done = run(["lintian", *options, *packages], check=False)
    if done.returncode not in RAN:
        why = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise InfraError(f"lintian failed: {' '.join(why)}")
    return [line for line in done.stdout.splitlines() if line.startswith((ERROR, WARNING))]


def errors_of(lines: Sequence[str]) -> list[str]:
    """Those lines that are errors."""
    return [line for line in lines if line.startswith(ERROR)]
