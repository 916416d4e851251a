# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem demo cluster`: nodes of replicated services go on, and none answers before it knows."""

from __future__ import annotations

from collections.abc import Callable

from lab.demo import cluster_planted
from lab.demo.cluster_clocks import clocks_jump
from lab.demo.cluster_cuts import CUTS
from lab.demo.cluster_scene import Scene
from lab.demo.promises import Promises
from lab.result import Result
from lab.testbed.cluster import running
from lab.testbed.cluster_watch import watching


def play(name: str, print_line: Callable[[str], None]) -> Result:
    """Run all of it in three hosts that are destroyed afterwards."""
    promises = Promises(print_line, Result("demo-cluster"))
    print_line("Three hosts power on; each has a guest with redis, a sentinel, and etcd.")
    with running(name) as cluster, watching(cluster) as watch:
        scene = Scene(cluster, watch, promises)
        resumed = [cut(scene) for cut in CUTS]
        clocks_jump(scene)
        lost = _verify(scene)
        stale = watch.replicas.ask("status")["stale"]
        missed = _planted(scene)
    promises.end()
    result = promises.result
    result.add("cuts", len(CUTS), "cuts", "counted")
    result.add("resumed", int(all(resumed)), "1", "counted")
    result.add("lost_answers", lost, "answers", "counted")
    result.add("stale_answers", stale, "answers", "counted")
    result.add("planted_missed", missed, "bugs", "counted")
    return result


def _verify(scene: Scene) -> int:
    """How many acknowledged answers are missing or impossible."""
    found, promises = scene.watch.verify(), scene.promises
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
        f"no lease of redis or etcd ended before its time ({found.renewals} renewals of each)"
        + "".join(f": {what}" for what in found.early),
    )
    return found.lost + found.waiting + len(found.impossible) + len(found.early)


def _planted(scene: Scene) -> int:
    """How many faults the checks do not notice."""
    scene.print_line("The same checks, with a fault planted:")
    missed = 0
    for what, is_noticed in cluster_planted.PLANTED.items():
        noticed = is_noticed(scene.cluster, scene.watch)
        missed += not noticed
        scene.promises.check(noticed, f"it is noticed: {what}")
    return missed
