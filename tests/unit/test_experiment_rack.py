# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Links that transfers share, and a rack after an outage: times and bytes by hand.

Goal: whatever comes back, and however, takes what the links allow and moves what it lacks.
Method: small racks whose times follow by hand; bytes of links against bytes that servers needed;
and the same checks with a mechanism left out, which must be red.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lab.errors import InfraError
from lab.experiment import links, rack
from lab.experiment.links import Links, Transfer, fair_rates
from lab.experiment.rack import Missed, Outage, Outcome, Rack, Way, simulate


def ended(rates: Mapping[str, float], *transfers: tuple[tuple[str, ...], float]) -> list[float]:
    """When each transfer, by path and bytes, has ended."""
    under = Links(rates)
    times: dict[int, float] = {}
    for number, (path, bytes_) in enumerate(transfers):
        under.begin(
            Transfer(path, bytes_, lambda at=number: times.update({at: under.now_s}))  # type: ignore[misc]
        )
    under.run()
    return [round(times[number], 6) for number in range(len(transfers))]


def test_transfers_over_one_link_share_it_and_the_rest_gets_what_is_free() -> None:
    assert ended({"a": 10}, (("a",), 100)) == [10]
    assert ended({"a": 10}, (("a",), 100), (("a",), 50)) == [15, 10]


def test_what_is_held_up_elsewhere_leaves_its_share_to_others() -> None:
    rates = fair_rates({"a": 10, "b": 4}, [("a",), ("a", "b"), ("b",)])
    assert rates == pytest.approx([8, 2, 2])
    assert fair_rates({"a": 0, "b": 4}, [("a", "b"), ("b",)]) == pytest.approx([0, 4])
    assert fair_rates({"a": 1}, []) == []


def test_growth_is_sent_too_and_what_grows_faster_than_its_links_is_refused() -> None:
    under = Links({"a": 10})
    grows = Transfer(("a",), 100, lambda: None, grows=5)
    under.begin(grows)
    under.run()
    assert under.now_s == pytest.approx(20)
    assert grows.moved_bytes == pytest.approx(under.moved_bytes["a"]) == pytest.approx(200)
    under.begin(Transfer(("a",), 100, lambda: None, grows=10))
    with pytest.raises(InfraError, match="never ends"):
        under.run()


def test_other_traffic_takes_its_part_of_a_link_and_no_more_than_there_is() -> None:
    under = Links({"a": 10}, lambda: {"a": 6.0})
    under.begin(Transfer(("a",), 100, lambda: None))
    under.run()
    assert under.now_s == pytest.approx(25)
    over = Links({"a": 10}, lambda: {"a": 10.5})
    over.begin(Transfer(("a",), 100, lambda: None))
    with pytest.raises(InfraError, match="a: less than others take"):
        over.run()


def test_what_is_given_up_stays_counted_and_frees_its_link() -> None:
    under = Links({"a": 10})
    one, two = (Transfer(("a",), 100, lambda: None) for _ in range(2))
    under.begin(one)
    under.begin(two)
    under.at(4, lambda: under.give_up(one))
    under.run()
    assert under.now_s == pytest.approx(12)
    assert (one.moved_bytes, two.moved_bytes) == pytest.approx((20, 100))


# A rack of three servers of 1,000 bytes. 10 bytes/s are written to each; after 1 s a member lacks
# 100 bytes, after 11 s 200.
MISSED = Missed(((1, 0.1), (11, 0.2)))
SMALL = Rack(
    servers=3,
    memory_bytes=1000,
    back_end=10,
    link=100,
    uplink=100,
    restore_s=10,
    cold_per_byte=1.0,
    missed=MISSED,
)
COLD: tuple[Way, ...] = ("disk", "peers")


def test_missed_is_on_the_lines_between_what_was_measured_and_no_more_than_all() -> None:
    assert MISSED.share_per_s == pytest.approx(0.01)
    assert SMALL.written == pytest.approx(10)
    shares = [MISSED.share(written_s) for written_s in (0.1, 1, 6, 11, 21, 1000)]
    assert shares == pytest.approx([0.1, 0.1, 0.15, 0.2, 0.3, 1])
    more = replace(MISSED, load=2.0)
    assert more.share_per_s == pytest.approx(0.02)
    assert more.share(10.5) == pytest.approx(MISSED.share(21))
    three = Missed(((1, 0.1), (11, 0.2), (13, 0.4)))
    assert [three.share(at_s) for at_s in (6, 12, 14)] == pytest.approx([0.15, 0.3, 0.5])
    short = replace(three, log=0.3)
    assert [short.share(at_s) for at_s in (6, 11.9, 12.1)] == pytest.approx([0.15, 0.29, 1])


@pytest.mark.parametrize(
    ("outage", "last_s"),
    [
        # 10 s until its memory is there; 21 s of writes are 300 bytes, and 10 bytes/s come on top.
        (Outage(1, 11, "memory", "within"), 21 + 300 / (100 - 10)),
        # Where it comes from outside, the link into the rack has the writes to the two others.
        (Outage(1, 11, "memory"), 21 + 300 / (100 - 20 - 10)),
        (Outage(1, 11, "peers"), 11 + 1000 / 70),
        # 100 s of the back end; what was written for 111 s is more than all.
        (Outage(1, 11, "disk"), 111 + 1000 / 70),
        # Three share the link into their rack.
        (Outage(3, 11, "peers"), 11 + 1000 / (100 / 3 - 10)),
        (Outage(2, 11, "peers"), 11 + 1000 / ((100 - 10) / 2 - 10)),
        # Nobody writes where all are off, and nothing is missed.
        (Outage(3, 11, "memory", "within"), 21),
        (Outage(2, 11, "memory", "within"), 21),
        (Outage(3, 11, "disk", "within"), 11 + 3 * 1000 / 10),
        (Outage(3, 11, "peers", "within"), 11 + 3 * 1000 / 10),
        # Elsewhere, from the two other racks.
        (Outage(1, math.inf, wait_s=5), 5 + 1000 / 90),
        (Outage(3, 100, wait_s=5), 5 + 1000 / (100 / 3 - 10)),
        (Outage(3, 100, "memory", "within", wait_s=5), 5 + 300),
        # It is back before the wait is over.
        (Outage(1, 11, wait_s=11), 21 + 300 / 70),
    ],
)
def test_time_until_the_last_is_healthy_is_that_of_the_sum_by_hand(
    outage: Outage, last_s: float
) -> None:
    found = simulate(SMALL, outage)
    assert found.last_s == pytest.approx(last_s)
    assert len(found.healthy_s) == outage.failed


def test_who_is_taken_back_races_with_its_copy_and_what_loses_is_counted() -> None:
    """The copy began at 5 s. The server is back at 6 s and has its memory at 16 s, when 10 bytes of
    the copy are left; then both share the peer's link, and 10 of 50 bytes/s are new writes."""
    outage = Outage(1, 6, wait_s=5, takes_back=True)
    found = simulate(SMALL, outage)
    assert found.last_s == pytest.approx(16.25)
    assert found.peer_bytes == pytest.approx(11 * 100 + 0.25 * 2 * 50)
    sooner = simulate(replace(SMALL, restore_s=0), replace(outage, off_s=5.5))
    assert sooner.last_s == pytest.approx(5.5 + 145 / 40)
    assert simulate(SMALL, replace(outage, takes_back=False)).last_s == pytest.approx(5 + 1000 / 90)


def test_a_shard_stalls_until_it_has_a_majority_again() -> None:
    assert simulate(SMALL, Outage(1, 11, "memory", "within")).stalled_s == (0,)
    assert simulate(SMALL, Outage(2, 11, "memory", "within")).stalled_s == (21,)
    assert simulate(SMALL, Outage(3, 11, "disk", "within")).stalled_s == pytest.approx((311,))
    assert simulate(SMALL, Outage(3, 11, "disk", "across")).stalled_s == (0, 0, 0)


def test_groups_of_half_a_rack_recover_by_what_they_have_left() -> None:
    """Of six servers with shards 0, 1 (three each) the first three fail: shard 0 has one left."""
    found = simulate(replace(SMALL, servers=6), Outage(3, 11, "peers", "within"))
    assert found.healthy_s == pytest.approx((11 + 1000 / 90, 11 + 200, 11 + 200))
    assert sorted(found.stalled_s) == pytest.approx([0, 211])
    assert found.median_s == pytest.approx(211)
    assert found.back_end_bytes == pytest.approx(2000)


def needed_bytes(outage: Outage, found: Outcome) -> float:
    """What servers lacked when their transfers began, and what was written until they ended."""
    if outage.way == "memory":
        begin_s = outage.off_s + SMALL.restore_s
        lacked = SMALL.missed.share(begin_s) * SMALL.memory_bytes
    else:
        begin_s, lacked = outage.off_s, SMALL.memory_bytes
    return sum(lacked + SMALL.written * (at_s - begin_s) for at_s in found.healthy_s)


def is_kept(outage: Outage) -> bool:
    """No byte is lost or made up: what links into servers moved is what they needed."""
    found = simulate(SMALL, outage)
    moved = sum(bytes_ for link, bytes_ in found.link_bytes.items() if link.endswith(" in"))
    servers = moved - found.link_bytes["rack in"] - found.link_bytes["spares in"]
    counted = found.back_end_bytes + found.peer_bytes
    needed = needed_bytes(outage, found)
    return all(math.isclose(one, servers, rel_tol=1e-6) for one in (counted, needed))


@pytest.mark.parametrize("failed", [1, 2, 3])
@pytest.mark.parametrize("way", ["memory", "peers"])
@pytest.mark.parametrize("off_s", [0.5, 7, 1000])
def test_bytes_are_kept(failed: int, way: Way, off_s: float) -> None:
    assert is_kept(Outage(failed, off_s, way))


def test_bytes_that_are_lost_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Links._advance

    def advance(self: Links, step_s: float) -> None:
        whole(self, step_s)
        for one in self._under_way:
            one.moved_bytes *= 0.999

    monkeypatch.setattr(Links, "_advance", advance)
    assert not is_kept(Outage(3, 7, "peers"))


def alone(free: Mapping[str, float], paths: Sequence[Sequence[str]]) -> list[float]:
    """Nothing is shared: each transfer has its slowest link to itself."""
    return [min(free[link] for link in path) for path in paths]


def without_writes(self: Any) -> dict[str, float]:
    return {}


def all_of_it(self: Missed, written_s: float) -> float:
    return 1.0


@pytest.mark.parametrize(
    ("where", "name", "broken", "outage", "last_s"),
    [
        (links, "fair_rates", alone, Outage(3, 11, "disk", "within"), 11 + 300),
        (links, "fair_rates", alone, Outage(3, 11, "peers"), 11 + 1000 / (100 / 3 - 10)),
        (rack._Storm, "_writes", without_writes, Outage(2, 11, "peers"), 11 + 1000 / 35),
        (rack.Missed, "share", all_of_it, Outage(1, 11, "memory"), 21 + 300 / 70),
    ],
)
def test_a_mechanism_that_is_left_out_changes_the_time(
    monkeypatch: pytest.MonkeyPatch,
    where: Any,
    name: str,
    broken: Callable[..., Any],
    outage: Outage,
    last_s: float,
) -> None:
    assert simulate(SMALL, outage).last_s == pytest.approx(last_s)
    monkeypatch.setattr(where, name, broken)
    assert simulate(SMALL, outage).last_s != pytest.approx(last_s, rel=0.01)


def test_writes_that_links_cannot_carry_are_refused() -> None:
    much = replace(SMALL, missed=replace(MISSED, load=6.0))
    with pytest.raises(InfraError, match="rack in: less than others take"):
        simulate(much, Outage(1, 11))
    some = replace(SMALL, missed=replace(MISSED, load=3.4))
    with pytest.raises(InfraError, match="never ends"):
        simulate(some, Outage(3, 11, "peers"))


@pytest.mark.parametrize(
    ("servers", "outage", "why"),
    [
        (3, Outage(0, 1), "0 of 3"),
        (3, Outage(4, 1), "4 of 3"),
        (4, Outage(1, 1, "memory", "within"), "shards of 3"),
        (3, Outage(1, math.inf), "for good"),
    ],
)
def test_outage_that_the_rack_cannot_have_is_refused(
    servers: int, outage: Outage, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        simulate(replace(SMALL, servers=servers), outage)


def test_the_same_outage_has_the_same_outcome() -> None:
    outage = Outage(3, 7, "disk", "across", 5, takes_back=True)
    assert simulate(SMALL, outage) == simulate(SMALL, outage)
