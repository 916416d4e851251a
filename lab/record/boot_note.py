# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The loader's boot note, decoded. The bytes are defined in format/."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lab import format as fmt


@dataclass(frozen=True)
class DescEntry:
    """One line of a machine description."""

    type: str
    index: int
    key: int
    value: tuple[int, ...]


@dataclass(frozen=True)
class BootNote:
    """The loader's decision and, if machines differ, the first difference."""

    reason: str  # RESUME, HOLD, or COLD_xxx
    sequence: int
    slot: int
    expected: DescEntry | None  # in the image
    found: DescEntry | None  # in the machine
    entry_tsc: int
    ready_tsc: int
    leave_tsc: int
    charge: int
    held: str | None  # the difference because of which the loader held the image

    @property
    def is_held(self) -> bool:
        """No decision yet: the loader waits for what is missing, or for an answer."""
        return self.reason == str(fmt.BootReason.HOLD.name)

    @property
    def resumed(self) -> bool:
        return self.reason == str(fmt.BootReason.RESUME.name)


def _name_of(enum: Any, number: int) -> str:
    try:
        return str(enum(number).name)
    except ValueError:
        return f"UNKNOWN_{number}"


def _entry(view: Any) -> DescEntry | None:
    if view.type == 0:
        return None
    kind = _name_of(fmt.DescType, int(view.type))
    return DescEntry(kind, int(view.index), int(view.key), tuple(int(v) for v in view.value))


def read_boot_note(raw: bytes) -> BootNote | None:
    """None if the bytes are no valid note: the loader has not run on this NVRAM."""
    try:
        view = fmt.parse_boot_note(raw)
    except fmt.FormatError:
        return None
    return BootNote(
        reason=_name_of(fmt.BootReason, int(view.reason)),
        sequence=int(view.sequence),
        slot=int(view.slot),
        expected=_entry(view.expected),
        found=_entry(view.found),
        entry_tsc=int(view.entry_tsc),
        ready_tsc=int(view.ready_tsc),
        leave_tsc=int(view.leave_tsc),
        charge=int(view.charge),
        held=_name_of(fmt.BootReason, int(view.held)) if view.held else None,
    )
