# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Messages for people: always on stderr, so that stdout stays free for results."""

from __future__ import annotations

import sys


def info(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def is_terminal() -> bool:
    return sys.stderr.isatty()
