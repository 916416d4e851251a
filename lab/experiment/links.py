# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Transfers over links that they share, in simulated time.

A transfer goes over all links of its path at once. What a link has left beside other traffic is
shared by max-min fairness: all rates grow together until a link is full, which ends the growth of
the transfers on it (progressive filling; Bertsekas and Gallager, Data Networks, section 6.5). Rates
change only where a transfer begins or ends, or at a time that was asked for, so nothing is stepped
through in between. Times are in seconds, sizes in bytes, rates in bytes each second.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lab.errors import InfraError

DONE_BYTES = 1.0  # less than that is rounding
FULL_SHARE = 1e-9  # a link with less than that of its rate left is full


def fair_rates(free: Mapping[str, float], paths: Sequence[Sequence[str]]) -> list[float]:
    """Max-min fair rates of transfers over these *paths*; *free* is what each link has for them."""
    rates = [0.0] * len(paths)
    left = {link: free[link] for path in paths for link in path}
    growing = set(range(len(paths)))
    while growing:
        users = dict.fromkeys(left, 0)
        for one in growing:
            for link in paths[one]:
                users[link] += 1
        more = min(left[link] / count for link, count in users.items() if count)
        for one in growing:
            rates[one] += more
        for link, count in users.items():
            left[link] -= more * count
        full = {link for link in left if users[link] and left[link] <= FULL_SHARE * free[link]}
        growing = {one for one in growing if full.isdisjoint(paths[one])}
    return rates


@dataclass(eq=False)
class Transfer:
    """*grows*: bytes that are added each second while it is under way, and have to be sent, too."""

    path: tuple[str, ...]
    left_bytes: float
    then: Callable[[], None]
    grows: float = 0.0
    moved_bytes: float = 0.0
    rate: float = 0.0


class Links:
    """Links by name and rate, and the transfers that are under way.

    *others* says what other traffic takes of links; it is asked whenever rates change.
    """

    def __init__(
        self, rates: Mapping[str, float], others: Callable[[], Mapping[str, float]] = dict
    ) -> None:
        self.now_s = 0.0
        self.moved_bytes = dict.fromkeys(rates, 0.0)  # by transfers, over each link
        self._rates = dict(rates)
        self._others = others
        self._under_way: list[Transfer] = []
        self._times: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, when_s: float, then: Callable[[], None]) -> None:
        """Call *then* at this time. What comes at the same time is called in the order of at()."""
        heapq.heappush(self._times, (when_s, next(self._order), then))

    def begin(self, transfer: Transfer) -> None:
        self._under_way.append(transfer)

    def give_up(self, transfer: Transfer) -> None:
        """What it has moved so far stays counted."""
        self._under_way.remove(transfer)

    def run(self) -> None:
        """Until nothing is under way or asked for; InfraError if some transfer would never end."""
        while self._times or self._under_way:
            self._share()
            step_s = self._step_s()
            if math.isinf(step_s):
                raise InfraError("a transfer never ends: more is written than its links carry")
            self._advance(step_s)
            ended = [one for one in self._under_way if one.left_bytes < DONE_BYTES]
            self._under_way = [one for one in self._under_way if one not in ended]
            for one in ended:
                one.then()
            while self._times and self._times[0][0] <= self.now_s:
                heapq.heappop(self._times)[2]()

    def _share(self) -> None:
        free = self._rates | {
            link: self._rates[link] - rate for link, rate in self._others().items()
        }
        if min(free.values()) < 0:
            raise InfraError(f"{min(free, key=lambda link: free[link])}: less than others take")
        rates = fair_rates(free, [one.path for one in self._under_way])
        for one, rate in zip(self._under_way, rates, strict=True):
            one.rate = rate

    def _step_s(self) -> float:
        """Until something changes."""
        ends_s = (
            one.left_bytes / (one.rate - one.grows)
            for one in self._under_way
            if one.rate > one.grows
        )
        until_s = self._times[0][0] - self.now_s if self._times else math.inf
        return min(until_s, min(ends_s, default=math.inf))

    def _advance(self, step_s: float) -> None:
        for one in self._under_way:
            one.moved_bytes += one.rate * step_s
            one.left_bytes += (one.grows - one.rate) * step_s
            for link in one.path:
                self.moved_bytes[link] += one.rate * step_s
        is_asked_for = self._times and self._times[0][0] - self.now_s <= step_s
        self.now_s = self._times[0][0] if is_asked_for else self.now_s + step_s
