# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Times of day in `rem demo cluster`: one that is behind after an absence, and ones that jump."""

from __future__ import annotations

import time

from lab.demo.cluster_scene import Scene
from lab.testbed.cluster import NODES
from lab.testbed.cluster_watch import wait_renewed

RENEWALS = 3
JUMP_S = 3600
JUMPED_FOR_S = 8.0
SLACK_S = 2


def lead_after_an_absence(scene: Scene, node: int, off_s: float) -> None:
    """What a node was behind by is made good before clients come: it may lead at once. Keys of
    redis that end at a time of day live on when another node leads.
    """
    watch = scene.watch
    most_s = max(scene.cluster.nodes[node].clock_steps_s(), default=0.0)
    scene.promises.check(
        most_s >= off_s - SLACK_S, f"its time of day was behind, and was set by {most_s:.1f} s"
    )
    scene.promises.check(watch.are_clocks_near(), "all nodes have the same time of day")
    watch.move_master(node)
    wait_renewed(watch.replicas, RENEWALS)
    watch.move_master((node + 1) % NODES)
    wait_renewed(watch.replicas, RENEWALS)
    early = watch.replicas.ask("status")["early"]
    scene.promises.check(not early, "a lease that it gave is known when another one leads")


def clocks_jump(scene: Scene) -> None:
    """By an hour: ahead where both services are led, and back where one follows; then again to
    where they were. A lease of redis, which has a time of day, cannot outlive that, and has ended.
    """
    watch, nodes = scene.watch, scene.cluster.nodes
    scene.print_line(f"Times of day jump by {JUMP_S} s: ahead where both are led, else back.")
    leader, follower = watch.lead_together(), watch.a_follower()
    watch.replicas.ask("end_lease")
    before = watch.state()
    for node, by_s in ((leader, JUMP_S), (follower, -JUMP_S)):
        nodes[node].follow_rtc(False)
        nodes[node].step_clock(by_s)
    time.sleep(JUMPED_FOR_S)
    scene.promises.check(not watch.are_clocks_near(), "they have jumped")
    scene.go_on()
    for node in (leader, follower):
        nodes[node].follow_rtc(True)
    scene.go_on()
    watch.wait_agreed()
    scene.promises.check(watch.are_clocks_near(), "and are right again")
    scene.check_no_stale()
    after = scene.check_elections(before, 0)
    scene.promises.check(after.copies == before.copies, "no whole copy was sent to any of them")
