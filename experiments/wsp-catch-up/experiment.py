# SPDX-License-Identifier: Apache-2.0 OR MIT
"""WSP, section 6, distributed catch-up: see README.md."""

from __future__ import annotations

import time
from typing import Any

from lab.experiment.run import Context, Report
from lab.testbed.cluster import Cluster, running
from lab.testbed.cluster_watch import Watch, watching

KEYS, VALUE_BYTES = 16_000, 1000
REGISTERS, REGISTER_BYTES = 16, 256 << 10
OFF_S, OFF_S_CI = (1.0, 4.0, 16.0, 48.0), (1.0, 8.0)
POINTS = 200  # of a drawn curve
LONG = 4  # a drawn outage is up to so many times a whole copy


def measure(it: Context) -> dict[str, Any]:
    with running("catch-up") as cluster, watching(cluster) as watch:
        watch.fill(KEYS, VALUE_BYTES, REGISTERS, REGISTER_BYTES)
        watch.wait_agreed()
        node = watch.a_follower()
        times_s = OFF_S_CI if it.is_ci else OFF_S
        outages = [_outage(cluster, watch, node, off_s) for off_s in times_s]
        return {"held_bytes": KEYS * VALUE_BYTES, "outages": outages,
                "cold": _cold(cluster, watch, node)}  # fmt: skip


def _outage(cluster: Cluster, watch: Watch, node: int, off_s: float) -> dict[str, Any]:
    """A member is without power, and catches up."""
    before, copies = watch.received(node), watch.state().copies
    cluster.cut([node])
    time.sleep(off_s)
    begin_s = time.monotonic()
    guest = cluster.power_on([node])[0]
    watch.wait_caught_up(node)
    back_s = time.monotonic() - begin_s
    after = watch.received(node)
    return {
        "off_s": off_s,
        "resumed": guest["resumed"],
        "copies": watch.state().copies - copies,
        "redis_bytes": after["redis"] - before["redis"],
        "etcd_bytes": after["etcd"] - before["etcd"],
        "back_s": back_s,
    }


def _cold(cluster: Cluster, watch: Watch, node: int) -> dict[str, Any]:
    """The same member loses its memory: its counters begin at 0."""
    copies = watch.state().copies
    cluster.cut([node], announced=False)
    begin_s = time.monotonic()
    guest = cluster.power_on([node])[0]
    cluster.start([node])
    watch.wait_caught_up(node)
    received = watch.received(node)
    return {
        "resumed": guest["resumed"],
        "copies": watch.state().copies - copies,
        "redis_bytes": received["redis"],
        "etcd_bytes": received["etcd"],
        "back_s": time.monotonic() - begin_s,
    }


def _rate(raw: dict[str, Any]) -> float:
    """Bytes that redis sends for each second without power: between the two longest outages."""
    one, two = raw["outages"][-2:]
    return float((two["redis_bytes"] - one["redis_bytes"]) / (two["off_s"] - one["off_s"]))


def judge(raw: dict[str, Any], paper: dict[str, Any], report: Report) -> None:
    cold = raw["cold"]
    for one in raw["outages"]:
        name = f"{one['off_s']:g} s"
        report.count(f"{name}, redis_bytes", one["redis_bytes"], "B")
        report.count(f"{name}, etcd_bytes", one["etcd_bytes"], "B")
        report.expect(f"{name}: it resumes", one["resumed"])
        report.expect(f"{name}: no whole copy is sent ({one['copies']})", one["copies"] == 0)
        report.expect(f"{name}: what is sent is less than what it holds",
                      one["redis_bytes"] < raw["held_bytes"])  # fmt: skip
    report.count("cold, redis_bytes", cold["redis_bytes"], "B")
    report.count("cold, etcd_bytes", cold["etcd_bytes"], "B")
    report.expect("without its memory it boots cold", not cold["resumed"])
    report.expect("without its memory everything is sent",
                  cold["copies"] >= 1 and cold["redis_bytes"] >= raw["held_bytes"])  # fmt: skip
    rate = _rate(raw)
    report.expect("what is sent grows with the outage", rate > 0)
    if rate > 0:
        report.result.add("break_even_s", round(raw["held_bytes"] / rate), "s", "counted")
    ratios = [cold["back_s"] / one["back_s"] for one in raw["outages"]]
    report.result.add("cold_vs_resumed", round(min(ratios), 2), "ratio", "native")
    report.result.add("cold_vs_resumed_max", round(max(ratios), 2), "ratio", "native")
    report.add("whole_copy_ns", round(_copy_s(paper) * 1e9), "ns")


def _copy_s(paper: dict[str, Any]) -> float:
    """Of one of the paper's servers."""
    return float(paper["memory_gb"] / paper["back_end_gb_per_s"])


def _policies(paper: dict[str, Any], off_s: float) -> dict[str, float]:
    """For how long a member is missing, by what the others do when it falls silent."""
    copy_s = _copy_s(paper)
    return {
        "wait": off_s,
        "copy to another server at once": copy_s,
        "wait for as long as a copy takes, then copy": off_s if off_s <= copy_s else 2 * copy_s,
    }


def draw(raw: dict[str, Any], paper: dict[str, Any], figure: Any) -> None:
    left, right = figure.subplots(1, 2)
    off_s = [one["off_s"] for one in raw["outages"]]
    for kind in ("redis", "etcd"):
        left.plot(off_s, [one[f"{kind}_bytes"] for one in raw["outages"]], marker="o", label=kind)
    left.axhline(raw["cold"]["redis_bytes"], color="black", linestyle=":", label="redis, cold")
    left.set(xscale="log", yscale="log", xlabel="outage, s", ylabel="bytes until it has caught up")
    left.legend(frameon=False, fontsize=8)
    long_s = LONG * _copy_s(paper)
    times_s = [long_s * point / POINTS for point in range(1, POINTS + 1)]
    for name in _policies(paper, 0):
        right.plot(times_s, [_policies(paper, at)[name] for at in times_s], label=name)
    right.set(xlabel="outage, s", ylabel="a member is missing for, s (calculated)")
    right.legend(frameon=False, fontsize=8)
