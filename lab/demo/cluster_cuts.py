# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Power failures of `rem demo cluster`: of one node, of two, of all, and power that flaps."""

from __future__ import annotations

import time
from collections.abc import Callable

from lab.demo.cluster_clocks import lead_after_an_absence
from lab.demo.cluster_scene import SETTLE_S, Scene
from lab.testbed.cluster import NODES
from lab.testbed.cluster_watch import agree
from lab.testbed.flapping import DROPS_S, RETURNS_S, flap_in_returns, flap_in_saves

SHORT_OFF_S, LONG_OFF_S = 2.0, 20.0  # the second is longer than what members wait for a silent one
ALONE_S = 3.0


def _cut(scene: Scene, nodes: list[int], off_s: float, what: str) -> bool:
    """Whether all of these resumed."""
    cuts = scene.cluster.cut(nodes)
    scene.print_line(f"{what} without power for {off_s:g} s.")
    time.sleep(off_s)
    return scene.power_on(nodes) and all(cut.stopped for cut in cuts)


def member_is_back(scene: Scene) -> bool:
    """A replica and follower: what it missed is sent, and nobody votes."""
    node = scene.watch.a_follower()
    before = scene.watch.state()
    resumed = _cut(scene, [node], SHORT_OFF_S, "A member that leads nothing is")
    scene.wait_open()
    after = scene.check_elections(before, 0)
    scene.promises.check(after.copies == before.copies, "no whole copy was sent to it")
    scene.go_on()
    return resumed


def leader_is_back(scene: Scene) -> bool:
    """The others replace it; it answers no client before it has heard of that."""
    scene.watch.wait_watchful()
    node = scene.watch.lead_together()
    before, etcd_id = scene.watch.state(), scene.watch.etcd_id(node)
    what = "The node that leads both services is"
    resumed = _cut(scene, [node], LONG_OFF_S, what)
    replaced = scene.watch.was_replaced(node, etcd_id)
    scene.promises.check(replaced, "the others have chosen other leaders")
    scene.wait_open()
    scene.check_no_stale()
    scene.check_elections(before, 2)
    scene.go_on()
    lead_after_an_absence(scene, node, LONG_OFF_S)
    return resumed


def two_are_back(scene: Scene) -> bool:
    """One that is left acknowledges nothing; the leader returns last, and has been replaced."""
    scene.watch.wait_watchful()
    leader = scene.watch.lead_together()
    other = scene.watch.a_follower()
    before, etcd_id = scene.watch.state(), scene.watch.etcd_id(leader)
    cuts = scene.cluster.cut([leader, other])
    scene.print_line("Two nodes are without power, of which one leads both services.")
    time.sleep(SETTLE_S)
    known = scene.watch.acknowledged()
    time.sleep(ALONE_S)
    alone = scene.watch.acknowledged() == known
    scene.promises.check(alone, "the third one alone acknowledges nothing")
    resumed = scene.power_on([other])
    agree(lambda: scene.watch.was_replaced(leader, etcd_id), "two nodes choose other leaders")
    scene.print_line("  the two have chosen other leaders; the old one returns:")
    resumed &= scene.power_on([leader])
    scene.wait_open()
    scene.check_no_stale()
    scene.check_elections(before, 3)
    scene.go_on()
    return resumed and all(cut.stopped for cut in cuts)


def all_are_back(scene: Scene) -> bool:
    """Nobody has missed anything."""
    before = scene.watch.state()
    resumed = _cut(scene, list(range(NODES)), SHORT_OFF_S, "All three are")
    scene.wait_open()
    after = scene.check_elections(before, 1)
    scene.promises.check(after.copies == before.copies, "no whole copy was sent to any of them")
    scene.go_on()
    return resumed


def power_flaps(scene: Scene) -> bool:
    """Of the node that leads: within saves and within returns."""
    node = scene.watch.lead_together()
    before = scene.watch.state()
    host = scene.cluster.nodes[node]
    what = "PWR_OK of the node that leads drops and is back within its save"
    scene.print_line(f"{what}, {len(DROPS_S)} times.")
    host.guest.close()
    flap_in_saves(host)
    scene.wait_open()
    scene.check_elections(before, 1)
    cut = scene.cluster.cut([node])[0]
    scene.print_line(f"Its power goes, and fails again in {len(RETURNS_S) + 1} returns.")
    saved = flap_in_returns(host)
    scene.promises.check(saved > 0, f"{saved} returns were far enough that it was saved again")
    resumed = scene.power_on([node])
    scene.wait_open()
    scene.check_no_stale()
    scene.check_elections(before, 3)
    scene.go_on()
    return resumed and cut.stopped


CUTS: tuple[Callable[[Scene], bool], ...] = (
    member_is_back,
    leader_is_back,
    two_are_back,
    all_are_back,
    power_flaps,
)
