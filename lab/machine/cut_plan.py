# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How the power is to go: a checked record, which a command makes and Machine.cut() follows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lab.errors import UsageError
from lab.machine.places import STOP_PHASES, Place


@dataclass(frozen=True)
class CutPlan:
    """Announced: PWR_OK drops, the hold-up runs, the power goes. Else it goes at once."""

    announced: bool = True
    hold_up_ns: int | None = None  # None: the machine's own
    place: Place | None = None  # where in Stop the hold-up ends; needs cut points
    at_store: int | None = None  # the store to NVRAM after which it ends; needs caches
    no_flush: str | None = None  # which flushes have no effect (caches.NO_FLUSH)
    supply: str | None = None  # the one whose window the hold-up is, for the record

    def __post_init__(self) -> None:
        if self.place is not None and self.at_store is not None:
            raise UsageError("one cut ends at one place: an instruction or a store")
        at_a_place = self.place is not None or self.at_store is not None
        if not self.announced and (at_a_place or self.no_flush is not None):
            raise UsageError("an unannounced cut has no Stop: it has no place and no flushes there")

    @property
    def ends_at(self) -> str | None:
        """Where the hold-up ends, if it is to end at a place."""
        if self.at_store is not None:
            return f"store {self.at_store}"
        return None if self.place is None else str(self.place)

    def to_message(self) -> dict[str, Any]:
        """As a request to the machine's supervisor carries it."""
        return {**asdict(self), "place": None if self.place is None else str(self.place)}

    @staticmethod
    def from_message(message: dict[str, Any]) -> CutPlan:
        """Raises TypeError or UsageError for what to_message() does not write."""
        words = {name: message[name] for name in CutPlan.__dataclass_fields__ if name in message}
        if words.get("place") is not None:
            words["place"] = Place.parse(str(words["place"]), STOP_PHASES, "--at")
        return CutPlan(**words)


ANNOUNCED = CutPlan()
UNANNOUNCED = CutPlan(announced=False)
