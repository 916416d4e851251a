# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A rack of servers that keep replicas, and an outage of some or all of them, simulated.

A server holds one of three replicas of a shard. The other two are on servers of two other racks
with their own power ("across"), or all three are in the rack ("within"). Clients write to each
shard that has a majority, and each healthy replica of it receives that from outside of its rack.

All that fail do so at time 0. A server that comes back is healthy when it has what the others of
its shard have. It has its memory, and gets what it missed ("memory"), reads its checkpoint from the
back end that all share, and gets what it missed since ("disk"), or gets a whole copy ("peers").
Instead of one that is still without power after a while, its shard may be copied to a spare, which
stands in a rack of spares. A shard without a majority has no peer that is sure to have all, and
takes no writes: then the memory of its servers is up to date, and others read from the back end,
which has every write that was acknowledged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from lab.experiment.links import Links, Transfer

REPLICAS, MAJORITY = 3, 2
Way = Literal["memory", "disk", "peers"]
Placement = Literal["across", "within"]
Place = Literal["rack", "spares"]


@dataclass(frozen=True)
class Missed:
    """What a member gets after outages, as shares of a whole copy: *points* are measured, by the
    outage's length in seconds. *load*: how many times as much is written as there. *log*: the share
    up to which its peers still have the writes; who missed more gets a whole copy."""

    points: tuple[tuple[float, float], ...]
    load: float = 1.0
    log: float = 1.0

    @property
    def share_per_s(self) -> float:
        """Between the two longest outages."""
        (one_s, one), (two_s, two) = self.points[-2:]
        return self.load * (two - one) / (two_s - one_s)

    def share(self, written_s: float) -> float:
        """After so many seconds of writes: on straight lines between the points, and on the last
        of them beyond. At least what the shortest outage cost, at most all."""
        at_s = max(written_s * self.load, self.points[0][0])
        for (one_s, one), (two_s, two) in zip(self.points, self.points[1:], strict=False):
            value = one + (two - one) * (at_s - one_s) / (two_s - one_s)
            if at_s <= two_s:
                break
        return value if value <= min(self.log, 1.0) else 1.0


@dataclass(frozen=True)
class Rack:
    """What the servers and their surroundings are; rates in bytes each second."""

    servers: int
    memory_bytes: float  # of one, all of it the shard's
    back_end: float
    link: float  # of a server, in each direction
    uplink: float  # of a rack, in each direction
    restore_s: float  # until a server has its memory again
    cold_per_byte: float  # read from the back end for each byte that a server holds
    missed: Missed

    @property
    def written(self) -> float:
        """To each replica."""
        return self.missed.share_per_s * self.memory_bytes


@dataclass(frozen=True)
class Outage:
    """The first *failed* servers are without power for *off_s* (math.inf: for good)."""

    failed: int
    off_s: float
    way: Way = "memory"
    placement: Placement = "across"
    wait_s: float = math.inf  # then what is still without power is copied to spares
    takes_back: bool = False  # a server that comes back while it is copied: who is ready first


@dataclass(frozen=True)
class Outcome:
    """*healthy_s*: when a shard had its replica again, by server, in order. *stalled_s*: for how
    long a shard had no majority, of each that a server failed of."""

    healthy_s: tuple[float, ...]
    stalled_s: tuple[float, ...]
    back_end_bytes: float
    peer_bytes: float
    link_bytes: Mapping[str, float]

    @property
    def mean_s(self) -> float:
        return sum(self.healthy_s) / len(self.healthy_s)

    @property
    def median_s(self) -> float:
        return self.healthy_s[(len(self.healthy_s) - 1) // 2]

    @property
    def last_s(self) -> float:
        return self.healthy_s[-1]


@dataclass
class _Shard:
    healthy: int = REPLICAS
    since_s: float = 0.0
    written_s: float = 0.0  # with a majority since time 0
    stalled_s: float = 0.0

    @property
    def has_majority(self) -> bool:
        return self.healthy >= MAJORITY

    def to(self, now_s: float) -> None:
        if self.has_majority:
            self.written_s += now_s - self.since_s
        else:
            self.stalled_s += now_s - self.since_s
        self.since_s = now_s

    def change(self, now_s: float, by: int) -> None:
        self.to(now_s)
        self.healthy += by


@dataclass(eq=False)
class _Member:
    """One of the servers: *place* is where its replica is, if that is healthy."""

    number: int
    shard: _Shard
    place: Place | None = "rack"
    healthy_s: float = 0.0
    under_way: dict[str, Transfer] = field(default_factory=dict)  # by place


def simulate(rack: Rack, outage: Outage) -> Outcome:
    """Until every shard has its replicas; InfraError if that is never, or if a link carries less
    than what clients write. ValueError for an outage that this rack cannot have."""
    if not 1 <= outage.failed <= rack.servers:
        raise ValueError(f"{outage.failed} of {rack.servers} servers cannot fail")
    if outage.placement == "within" and rack.servers % REPLICAS:
        raise ValueError(f"{rack.servers} servers do not make shards of {REPLICAS}")
    if math.isinf(outage.off_s) and math.isinf(outage.wait_s):
        raise ValueError("an outage for good, and no copy elsewhere: nothing would ever be healthy")
    return _Storm(rack, outage).run()


class _Storm:
    def __init__(self, rack: Rack, outage: Outage) -> None:
        self.rack, self.outage = rack, outage
        self.links = Links(_rates(rack), self._writes)
        shards = [_Shard() for _ in range(_shards(rack, outage))]
        self.members = [_Member(n, shards[n % len(shards)]) for n in range(rack.servers)]
        self.transfers: list[tuple[bool, Transfer]] = []  # from the back end, or from a peer

    def run(self) -> Outcome:
        outage = self.outage
        failed = self.members[: outage.failed]
        for member in failed:
            member.place = None
            member.shard.change(0.0, -1)
        is_replaced = outage.wait_s < outage.off_s
        for member in failed:
            if is_replaced:
                self.links.at(outage.wait_s, partial(self._copy, member, "spares"))
            if math.isfinite(outage.off_s) and (outage.takes_back or not is_replaced):
                self.links.at(outage.off_s, partial(self._come_back, member))
        self.links.run()
        shards = {id(member.shard): member.shard for member in failed}
        for shard in shards.values():
            shard.to(self.links.now_s)
        return Outcome(
            tuple(sorted(member.healthy_s for member in failed)),
            tuple(shard.stalled_s for shard in shards.values()),
            sum(one.moved_bytes for is_back_end, one in self.transfers if is_back_end),
            sum(one.moved_bytes for is_back_end, one in self.transfers if not is_back_end),
            self.links.moved_bytes,
        )

    def _writes(self) -> dict[str, float]:
        """What clients' writes take of the links into racks and servers."""
        taken: dict[str, float] = {}
        for member in self.members:
            if member.place is not None and member.shard.has_majority:
                for link in _into(member, member.place):
                    taken[link] = taken.get(link, 0.0) + self.rack.written
        return taken

    def _come_back(self, member: _Member) -> None:
        if member.place is not None:
            return
        if self.outage.way == "memory":
            when_s = self.links.now_s + self.rack.restore_s
            self.links.at(when_s, partial(self._catch_up, member, "rack"))
        elif self.outage.way == "peers":
            self._copy(member, "rack")
        else:
            self._read(member, "rack")

    def _copy(self, member: _Member, place: Place) -> None:
        """A whole copy, from a peer if one is sure to have all."""
        if member.shard.has_majority:
            self._from_peer(member, place, self.rack.memory_bytes)
        else:
            self._read(member, place)

    def _read(self, member: _Member, place: Place) -> None:
        """The checkpoint, from the back end; then what was written meanwhile."""
        path = ("back end", *_into(member, place))
        bytes_ = self.rack.cold_per_byte * self.rack.memory_bytes
        then = partial(self._catch_up, member, place)
        self._begin(member, place, Transfer(path, bytes_, then), is_back_end=True)

    def _catch_up(self, member: _Member, place: Place) -> None:
        if member.place is not None:
            return
        member.shard.to(self.links.now_s)
        if not member.shard.written_s:
            self._is_healthy(member, place)
            return
        share = self.rack.missed.share(member.shard.written_s)
        self._from_peer(member, place, share * self.rack.memory_bytes)

    def _from_peer(self, member: _Member, place: Place, bytes_: float) -> None:
        """What is written meanwhile comes on top."""
        peer_place, number = self._peer_of(member)
        out = f"{peer_place} {number} out"
        rack, server = _into(member, place)
        is_near = peer_place == place  # then it does not leave the rack
        path = (out, server) if is_near else (out, f"{peer_place} out", rack, server)
        then = partial(self._is_healthy, member, place)
        transfer = Transfer(path, bytes_, then, grows=self.rack.written)
        self._begin(member, place, transfer, is_back_end=False)

    def _peer_of(self, member: _Member) -> tuple[str, int]:
        """Where a healthy replica is; across racks, in each of the two by turns."""
        if self.outage.placement == "across":
            return "ab"[member.number % 2], member.number
        peers = (one for one in self.members if one.shard is member.shard and one.place)
        return next((peer.place or "", peer.number) for peer in peers)

    def _begin(self, member: _Member, place: str, transfer: Transfer, *, is_back_end: bool) -> None:
        member.under_way[place] = transfer
        self.transfers.append((is_back_end, transfer))
        self.links.begin(transfer)

    def _is_healthy(self, member: _Member, place: Place) -> None:
        member.under_way.pop(place, None)
        for transfer in member.under_way.values():
            self.links.give_up(transfer)
        member.under_way.clear()
        member.place, member.healthy_s = place, self.links.now_s
        member.shard.change(self.links.now_s, 1)


def _shards(rack: Rack, outage: Outage) -> int:
    return rack.servers // (REPLICAS if outage.placement == "within" else 1)


def _into(member: _Member, place: str) -> tuple[str, str]:
    return (f"{place} in", f"{place} {member.number} in")


def _rates(rack: Rack) -> dict[str, float]:
    """Of all links."""
    rates = {"back end": rack.back_end}
    for place in ("rack", "spares", "a", "b"):
        for way in ("in", "out"):
            rates[f"{place} {way}"] = rack.uplink
            for number in range(rack.servers):
                rates[f"{place} {number} {way}"] = rack.link
    return rates
