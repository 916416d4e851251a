# SPDX-License-Identifier: Apache-2.0 OR MIT
"""How long to wait for servers without power before what they keep is copied elsewhere.

The cost of a waiting time is for how long a shard is without a replica, in seconds, as the mean of
the servers that failed. It is judged in two ways: by the worst outage that there could be, beside
what would be best if the outage's length were known beforehand (the competitive ratio of online
algorithms), and by the mean over outages whose lengths have a distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist

from lab.experiment.rack import Outage, Outcome, Rack, simulate

NEVER = math.inf
JUST_LONGER = 1 + 1e-6  # an outage that lasts until just after the wait
_Z = NormalDist()
_Z_FROM, _Z_TO = -4.0, 5.0


@dataclass(frozen=True)
class Lengths:
    """Outages' lengths as a log-normal distribution; *spread* is that of their logarithms."""

    median_s: float
    spread: float

    @staticmethod
    def fitted(share_below: float, below_s: float, mean_s: float, over_s: float) -> Lengths:
        """Of which a share is shorter than *below_s*, and those over *over_s* take *mean_s* in the
        mean. ValueError if there is none."""
        low, high = 1e-3, 10.0
        for _ in range(200):
            spread = (low + high) / 2
            made = Lengths(below_s / math.exp(spread * _Z.inv_cdf(share_below)), spread)
            low, high = (spread, high) if made.mean_over(over_s) < mean_s else (low, spread)
        if not math.isclose(made.mean_over(over_s), mean_s, rel_tol=1e-6):
            raise ValueError(f"no log-normal distribution has a mean of {mean_s} s over {over_s} s")
        return made

    def share_below(self, length_s: float) -> float:
        return _Z.cdf(math.log(length_s / self.median_s) / self.spread)

    def mean_over(self, over_s: float) -> float:
        """Of the lengths that are longer than that; just that if hardly any is."""
        above = _Z.cdf(-math.log(over_s / self.median_s) / self.spread)
        part = _Z.cdf(self.spread - math.log(over_s / self.median_s) / self.spread)
        return self.median_s * math.exp(self.spread**2 / 2) * part / above if above else over_s

    def weighed(self, step: float) -> list[tuple[float, float]]:
        """Lengths and the shares of outages about as long; *step* of the logarithm's spread."""
        count = round((_Z_TO - _Z_FROM) / step)
        middles = [_Z_FROM + (at + 0.5) * step for at in range(count)]
        return [
            (
                self.median_s * math.exp(self.spread * z),
                _Z.cdf(z + step / 2) - _Z.cdf(z - step / 2),
            )
            for z in middles
        ]


@cache
def _simulated(rack: Rack, outage: Outage) -> Outcome:
    return simulate(rack, outage)


def outcome(rack: Rack, outage: Outage) -> Outcome:
    """As simulate(). A wait that the outage does not outlast makes no difference; and one that is
    over ends the outage's part in it, unless the server is taken back."""
    if outage.off_s <= outage.wait_s:
        return _simulated(rack, replace(outage, wait_s=NEVER, takes_back=False))
    if not outage.takes_back:
        return _simulated(rack, replace(outage, off_s=math.inf))
    return _simulated(rack, outage)


def copy_s(rack: Rack, case: Outage) -> float:
    """What a copy elsewhere takes if it begins at once, as the mean of what failed."""
    return outcome(rack, replace(case, off_s=math.inf, wait_s=0.0)).mean_s


def worst_ratio(rack: Rack, case: Outage, wait_s: float, lengths_s: Iterable[float]) -> float:
    """Of the cost of waiting so long to the least cost, over all these outages."""
    at_once_s = copy_s(rack, case)

    def ratio(off_s: float) -> float:
        for_it_s = outcome(rack, replace(case, off_s=off_s, wait_s=NEVER)).mean_s
        cost_s = outcome(rack, replace(case, off_s=off_s, wait_s=wait_s)).mean_s
        return cost_s / min(for_it_s, at_once_s)

    return max(ratio(off_s) for off_s in lengths_s)


@dataclass(frozen=True)
class Mean:
    """Over a distribution of outages: seconds that a replica is missing, and bytes moved."""

    missing_s: float
    moved_bytes: float


def mean(rack: Rack, case: Outage, wait_s: float, lengths: Sequence[tuple[float, float]]) -> Mean:
    """Of waiting so long; *lengths* are outages and their shares."""
    found = [
        (share, outcome(rack, replace(case, off_s=off_s, wait_s=wait_s)))
        for off_s, share in lengths
    ]
    total = sum(share for share, _ in found)
    return Mean(
        sum(share * one.mean_s for share, one in found) / total,
        sum(share * (one.back_end_bytes + one.peer_bytes) for share, one in found) / total,
    )
