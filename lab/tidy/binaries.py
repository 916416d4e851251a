# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Binary files are kept only where tests read them; everything else can be built."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch

from lab.tidy.files import is_binary
from lab.tidy.finding import Finding

RULE = "binary"
# Bytes of the formats, inputs of fuzzers, and what another program wrote and a test reads.
ALLOWED = ("format/golden/*.bin", "*/corpus/*", "tests/unit/*.bin")


def check_binary(name: str, data: bytes) -> Iterator[Finding]:
    """*data* is the whole file: a NUL byte or an ELF header anywhere else is refused."""
    if is_binary(data) and not any(fnmatch(name, pattern) for pattern in ALLOWED):
        places = ", ".join(ALLOWED)
        yield Finding(name, 1, f"a binary file of {len(data)} bytes: only {places} may be", RULE)
