# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the checks of `rem demo cluster` must notice.

The fence left out: a leader that was replaced answers as if it still led. A commit that was never
written: a node boots cold. A history with an answer that no register gives.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.demo.vm_planted import skip_commit
from lab.testbed.cluster import Cluster
from lab.testbed.cluster_watch import Watch
from lab.testbed.histories import check_history

OFF_S = 20.0
WATCH_S = 15.0  # sentinels demote a returned master within so long
POLL_S = 0.2


def leave_out_the_fence(cluster: Cluster, watch: Watch) -> bool:
    """The same cut of the leader; its clients are let in at once."""
    with cluster.clients("replicas") as replicas:
        node = watch.master()
        cluster.cut([node])
        time.sleep(OFF_S)
        cluster.nodes[node].set_fence(False)
        cluster.power_on([node])
        end_s = time.monotonic() + WATCH_S
        while time.monotonic() < end_s and not replicas.ask("status")["stale"]:
            time.sleep(POLL_S)
        stale = replicas.ask("status")["stale"]
    cluster.nodes[node].set_fence(True)
    watch.wait_agreed()
    return bool(stale)


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
    "the fence is left out, and a leader that was replaced answers": leave_out_the_fence,
    "the commit word of a node was never written": skip_a_commit,
}
