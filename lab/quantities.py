# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Quantities as people write them on the command line."""

from __future__ import annotations

import re
from decimal import Decimal

from lab.errors import UsageError

SIZE_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
TIME_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
SPAN_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def _quantity(text: str, units: dict[str, int], what: str) -> int:
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)\s*([A-Za-z]*)", text)
    if not match or match.group(2) not in units:
        names = ", ".join(unit for unit in units if unit)
        raise UsageError(f"{what}: {text!r} is no quantity: give a number with one of {names}")
    value = Decimal(match.group(1)) * units[match.group(2)]
    if value != int(value):
        raise UsageError(f"{what}: {text!r} is finer than the smallest unit")
    return int(value)


def parse_bytes(text: str, what: str) -> int:
    """`64M`, `1G`, or bytes."""
    return _quantity(text, SIZE_BYTES, what)


def parse_ns(text: str, what: str) -> int:
    """`17ms`, `900us`; a unit is needed, because a bare number could be any of them."""
    value_ns = _quantity(text, TIME_NS, what)
    if value_ns < 0:
        raise UsageError(f"{what}: {text!r} is negative")
    return value_ns


def parse_span_s(text: str, what: str) -> int:
    """`7d`, `3s`, `-1h`."""
    return _quantity(text, SPAN_S, what)
