# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A hold-up as people write it: a time, or a supply whose window it is."""

from __future__ import annotations

from lab.errors import UsageError
from lab.power.model import PowerModel
from lab.quantities import parse_ns


def is_time(text: str) -> bool:
    return text[:1].isdigit() or text[:1] in "-+."


def hold_up_ns(text: str, what: str) -> int:
    """`17ms`, or `wsp-intel-750w`: its window with a busy machine, which is the shorter one."""
    if is_time(text):
        return parse_ns(text, what)
    try:
        return PowerModel.ready().window_ns(text)
    except UsageError as error:
        raise UsageError(
            f"{what}: neither a time as 17ms, nor a supply: {error.message}"
        ) from error
