# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Each file names its licence in the first line that can hold it, and no path of one machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lab.tidy.finding import Finding

ANY_OF_TWO = "Apache-2.0 OR MIT"
# The first folder that matches decides.
LICENCES = (
    ("format/", "GPL-2.0-only OR Apache-2.0 OR MIT"),
    ("machine/plugin/", "GPL-2.0-or-later"),
    ("kernel/", "GPL-2.0-only"),
    ("pm/kernel/", "GPL-2.0-only"),
    ("off2f/kernel/", "GPL-2.0-only"),
    ("keep/kernel/", "GPL-2.0-only"),
    ("pm/init/", "GPL-2.0-only"),
    ("", ANY_OF_TWO),
)
# Files that name their licence in another way, or that no person writes.
NO_SPDX = re.compile(
    r"(^LICENSES/|/corpus/|\.(md|patch|bin|png|svg|lock|txt|json|jsonl|rec|gz|zst)$|^\.clang-format$)"
)
# Paths that exist on one machine only.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|farm|root/\.|root/kw|home/\w+)(?:/|\b)")


def licence_of(name: str) -> str:
    return next(licence for folder, licence in LICENCES if name.startswith(folder))


def check_licence(name: str, lines: list[str]) -> Iterator[Finding]:
    if NO_SPDX.search(name) or not lines:
        return
    number = 1 if lines[0].startswith("#!") and len(lines) > 1 else 0
    match = re.search(r"SPDX-License-Identifier: (.*?)\s*(?:\*/|-->|$)", lines[number])
    wanted = licence_of(name)
    if match is None:
        yield Finding(name, number + 1, f"no SPDX-License-Identifier: {wanted}")
    elif match[1] != wanted:
        yield Finding(name, number + 1, f"licence {match[1]}, files here are {wanted}")


def check_machine_paths(name: str, lines: list[str]) -> Iterator[Finding]:
    for number, line in enumerate(lines, 1):
        match = MACHINE_PATH.search(line)
        if match:
            yield Finding(name, number, f"a path of one machine: {match[0]}")
