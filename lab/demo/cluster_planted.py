# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the checks of `rem demo cluster` must notice.

The fence left out: a leader that was replaced answers as if it still led. A time of day that is
left behind, and one that jumps: leases end early. Clients that count what one node has: it
acknowledges while it is alone. A supply that does not tell: an image is entered while power fails.
A commit that was never written: a node boots cold. A history with an answer that no register gives.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.clients.process import ClientProcess
from lab.demo.cluster_clocks import JUMP_S
from lab.demo.cluster_scene import SETTLE_S
from lab.demo.vm_planted import skip_commit
from lab.testbed.cluster import NODES, Cluster
from lab.testbed.cluster_watch import Watch, wait_renewed
from lab.testbed.histories import check_history
from lab.testbed.waiting import wait_acked

OFF_S = 20.0
WATCH_S = 15.0  # sentinels demote a returned master within so long
SILENT_S = 3.0  # rem-vm waits for its supply for less
RENEWALS = 3
POLL_S = 0.2


def _comes(is_so: Callable[[], bool]) -> bool:
    """Whether it becomes so within the time."""
    end_s = time.monotonic() + WATCH_S
    while time.monotonic() < end_s and not is_so():
        time.sleep(POLL_S)
    return is_so()


def _appears(clients: ClientProcess, what: str) -> bool:
    """Whether clients find something wrong within the time."""
    return _comes(lambda: bool(clients.ask("status")[what]))


def leave_out_the_fence(cluster: Cluster, watch: Watch) -> bool:
    """The same cut of the leader; its clients are let in at once."""
    watch.wait_watchful()
    with cluster.clients("replicas") as replicas:
        node = watch.master()
        cluster.cut([node])
        time.sleep(OFF_S)
        cluster.nodes[node].set_fence(False)
        cluster.power_on([node])
        stale = _appears(replicas, "stale")
    cluster.nodes[node].set_fence()
    watch.wait_agreed()
    return stale


def leave_the_clock_behind(cluster: Cluster, watch: Watch) -> bool:
    """A node that was away leads again, and its time of day has not been set; then another one."""
    node = watch.a_follower()
    host = cluster.nodes[node]
    host.follow_rtc(False)
    host.set_fence(asks_for_clock=False)
    cluster.cut([node])
    time.sleep(OFF_S)
    cluster.power_on([node])
    watch.wait_agreed()
    watch.move_master(node)
    with cluster.clients("replicas") as replicas:
        wait_renewed(replicas, RENEWALS)
        watch.move_master((node + 1) % NODES)
        early = _appears(replicas, "early")
    host.follow_rtc(True)
    host.set_fence()
    return early


def let_the_clock_jump(cluster: Cluster, watch: Watch) -> bool:
    """Of redis's master, ahead by an hour."""
    host = cluster.nodes[watch.master()]
    with cluster.clients("replicas") as replicas:
        wait_renewed(replicas, RENEWALS)
        host.follow_rtc(False)
        host.step_clock(JUMP_S)
        early = _appears(replicas, "early")
    host.follow_rtc(True)
    watch.wait_agreed()
    return early


def count_what_one_node_has(cluster: Cluster, watch: Watch) -> bool:
    """redis's master is alone, and its clients do not wait for a copy."""
    master = watch.master()
    others = [node for node in range(NODES) if node != master]
    with cluster.clients("replicas", copies=0) as replicas:
        wait_acked(replicas, 1)
        cluster.cut(others)
        time.sleep(SETTLE_S)
        known = replicas.ask("status")["acked"]
        grew = _comes(lambda: bool(replicas.ask("status")["acked"] > known))
        cluster.power_on(others)
    watch.wait_agreed()
    return grew


def enter_while_power_fails(cluster: Cluster, watch: Watch) -> bool:
    """A return in which no supply is there to ask; then the power fails."""
    node = watch.a_follower()
    cluster.cut([node])
    cluster.nodes[node].start()
    time.sleep(SILENT_S)
    cluster.nodes[node].kill()
    return not cluster.power_on([node])[0]["resumed"]


def skip_a_commit(cluster: Cluster, watch: Watch) -> bool:
    """A member's record has no commit word when the power returns."""
    node = watch.a_follower()
    cluster.cut([node])
    skip_commit(cluster.nodes[node], watch.replicas)
    return not cluster.power_on([node])[0]["resumed"]


def forge_an_answer(_cluster: Cluster, _watch: Watch) -> bool:
    """A read that is older than what was acknowledged before it."""
    lines = [
        {"client": 0, "key": "k", "write": 1, "call_ns": 0, "return_ns": 1},
        {"client": 0, "key": "k", "write": 2, "call_ns": 2, "return_ns": 3},
        {"client": 1, "key": "k", "read": 1, "call_ns": 4, "return_ns": 5},
    ]
    with TemporaryDirectory(prefix="rem-history-") as folder:
        path = Path(folder) / "history.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return bool(check_history(path)["impossible"])


PLANTED: dict[str, Callable[[Cluster, Watch], bool]] = {
    "an answer of etcd that is older than an acknowledged write": forge_an_answer,
    "clients count what one node has, and it is alone": count_what_one_node_has,
    "the fence is left out, and a leader that was replaced answers": leave_out_the_fence,
    "the time of day of a node that was away is left behind": leave_the_clock_behind,
    "the time of day of a node that leads jumps, and redis' leases end": let_the_clock_jump,
    "the commit word of a node was never written": skip_a_commit,
    "an image is entered while power fails": enter_while_power_fails,
}
