# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem demo cluster`: nodes of replicated services go on, and none answers before it knows."""

from __future__ import annotations

import time
from collections.abc import Callable

from lab.demo import cluster_planted
from lab.demo.promises import Promises
from lab.result import Result
from lab.testbed.cluster import NODES, Cluster, running
from lab.testbed.cluster_watch import Watch, agree, watching

SHORT_OFF_S, LONG_OFF_S = 2.0, 20.0  # the second is longer than what members wait for a silent one
MORE = 60  # answers of each kind of client between two cuts, at least
ALL = range(NODES)


def play(name: str, print_line: Callable[[str], None]) -> Result:
    """Run all of it in three hosts that are destroyed afterwards."""
    promises = Promises(print_line, Result("demo-cluster"))
    print_line("Three hosts power on; each has a guest with redis, a sentinel, and etcd.")
    cuts = (_member_is_back, _leader_is_back, _all_are_back)
    with running(name) as cluster, watching(cluster) as watch:
        resumed = [cut(cluster, watch, promises) for cut in cuts]
        lost = _verify(watch, promises)
        stale = watch.replicas.ask("status")["stale"]
        missed = _planted(cluster, watch, promises)
    promises.end()
    result = promises.result
    result.add("cuts", len(cuts), "cuts", "counted")
    result.add("resumed", int(all(resumed)), "1", "counted")
    result.add("lost_answers", lost, "answers", "counted")
    result.add("stale_answers", stale, "answers", "counted")
    result.add("planted_missed", missed, "bugs", "counted")
    return result


def _cut(cluster: Cluster, promises: Promises, nodes: list[int], off_s: float, what: str) -> bool:
    """Whether all of these resumed."""
    cuts = cluster.cut(nodes)
    promises.print_line(f"{what} without power for {off_s:g} s.")
    time.sleep(off_s)
    guests = cluster.power_on(nodes)
    back = all(cut.stopped for cut in cuts) and all(guest["resumed"] for guest in guests)
    took = ", ".join(f"{guest['boot_us'] / 1000:.0f}" for guest in guests if guest["runs"])
    promises.check(back, f"resumed {took} ms after power-on")
    return back


def _member_is_back(cluster: Cluster, watch: Watch, promises: Promises) -> bool:
    """A replica and follower: what it missed is sent, and nobody votes."""
    node = watch.a_follower()
    before = watch.state()
    resumed = _cut(cluster, promises, [node], SHORT_OFF_S, "A member that leads nothing is")
    watch.wait_agreed()
    after = watch.state()
    promises.check(after.copies == before.copies, "no whole copy was sent to it")
    promises.check(after.term == before.term, "no election followed")
    watch.more(MORE)
    return resumed


def _leader_is_back(cluster: Cluster, watch: Watch, promises: Promises) -> bool:
    """The others replace it; it answers no client before it has heard of that."""
    node = watch.lead_together()
    before = watch.state()
    what = "The node that leads both services is"
    resumed = _cut(cluster, promises, [node], LONG_OFF_S, what)
    promises.check(watch.was_replaced(node), "the others have chosen other leaders")
    agree(lambda: not cluster.fenced(), "the fence opens")
    watch.wait_agreed()
    after = watch.state()
    status = watch.replicas.ask("status")
    promises.check(not status["stale"], f"no stale answer: {status['first_stale'] or 'none'}")
    promises.check(after.term - before.term <= 2, f"{after.term - before.term} elections, no storm")
    watch.more(MORE)
    return resumed


def _all_are_back(cluster: Cluster, watch: Watch, promises: Promises) -> bool:
    """Nobody has missed anything."""
    before = watch.state()
    resumed = _cut(cluster, promises, list(ALL), SHORT_OFF_S, "All three are")
    agree(lambda: not cluster.fenced(), "the fences open")
    watch.wait_agreed()
    after = watch.state()
    promises.check(after.copies == before.copies, "no whole copy was sent to any of them")
    promises.check(after.term - before.term <= 1, f"{after.term - before.term} elections")
    watch.more(MORE)
    return resumed


def _verify(watch: Watch, promises: Promises) -> int:
    """How many acknowledged answers are missing or impossible."""
    found = watch.verify()
    promises.check(
        found.lost == 0, f"each of {found.acked} writes that redis acknowledged is there"
    )
    promises.check(found.waiting == 0, "each request of a client of etcd has its answer")
    promises.check(found.same, "the three redis have the same data")
    promises.check(
        not found.impossible,
        f"{found.operations} operations of etcd, over all cuts, are linearizable"
        + (f": not {found.impossible}" if found.impossible else ""),
    )
    promises.check(
        found.renewals > 0 and not found.early,
        f"no lease ended before its time ({found.renewals} renewals)"
        + "".join(f": {what}" for what in found.early),
    )
    return found.lost + found.waiting + len(found.impossible) + len(found.early)


def _planted(cluster: Cluster, watch: Watch, promises: Promises) -> int:
    """How many faults the checks do not notice."""
    promises.print_line("The same checks, with a fault planted:")
    missed = 0
    for what, is_noticed in cluster_planted.PLANTED.items():
        noticed = is_noticed(cluster, watch)
        missed += not noticed
        promises.check(noticed, f"it is noticed: {what}")
    return missed
